//! Spans that arrived with a cost and are not priced here, until the meter that they name is known: it exports once a
//! minute, so its first spans wait.

use std::collections::VecDeque;
use std::sync::Arc;

use phasemeter_attribution::Limits;
use phasemeter_meter::units::Timestamp;
use phasemeter_receiver::HeldSpan;

use super::meters::KnownMeters;
use super::span_filter::OwnedIdentity;

/// The claim of a span that a meter has priced it, which is not known yet.
#[derive(Clone, Debug)]
pub(super) struct OpenClaim {
    /// The instance ID of the meter.
    pub(super) meter: String,
    /// The sender of the span.
    pub(super) resource: Arc<OwnedIdentity>,
}

/// Spans whose claims are open, in order of arrival.
#[derive(Debug)]
pub(super) struct OpenClaims {
    limits: Limits,
    /// Each with the time until which it waits.
    spans: VecDeque<(Timestamp, HeldSpan, OpenClaim)>,
    bytes: usize,
}

impl OpenClaims {
    /// They have a quarter of the memory of spans that wait for their price.
    pub(super) fn new(limits: Limits) -> Self {
        let limits = Limits { max_bytes: limits.max_bytes / 4, ..limits };
        Self { limits, spans: VecDeque::new(), bytes: 0 }
    }

    /// Adds a span; gives it back if there is no space for it.
    pub(super) fn add(
        &mut self,
        span: HeldSpan,
        claim: OpenClaim,
        now: Timestamp,
    ) -> Result<(), (HeldSpan, OpenClaim)> {
        let bytes = self.bytes + span.size() + claim.meter.len();
        if bytes > self.limits.max_bytes {
            return Err((span, claim));
        }
        self.bytes = bytes;
        self.spans.push_back((now + self.limits.max_wait, span, claim));
        Ok(())
    }

    /// Takes the spans whose meter is known by now, or that have waited long enough; all of them without a time.
    pub(super) fn decide(
        &mut self,
        now: Option<Timestamp>,
        meters: &KnownMeters,
    ) -> Vec<(HeldSpan, OpenClaim)> {
        let mut decided = Vec::new();
        for (until, span, claim) in std::mem::take(&mut self.spans) {
            if meters.contains(&claim.meter) || now.is_none_or(|now| until <= now) {
                self.bytes = self.bytes.saturating_sub(span.size() + claim.meter.len());
                decided.push((span, claim));
            } else {
                self.spans.push_back((until, span, claim));
            }
        }
        decided
    }
}
