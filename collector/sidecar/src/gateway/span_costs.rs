//! Spans that wait for their price, and the cost of GPU time that is divided among them.
//!
//! What waits is limited in bytes and time. Must not depend on how spans and readings arrive.

use std::collections::HashMap;

use phasemeter_attribution::directory::{GpuOwners, gpus_of};
use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, Limits, RejectReason, Release, SpanCost,
};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::delivery::RequestSender;
use phasemeter_otlp::encode::SpanCostEvent;
use phasemeter_otlp::receiver::HeldSpan;

use super::release::Outgoing;
use super::span_filter::{CandidateSpan, ReceivedSpans};
use crate::pipeline::priced_time;

/// The attribute of a GPU with its host.
const HOST: &str = "host.name";

/// Prices spans.
#[derive(Debug)]
pub struct SpanCosts {
    attribution: Attribution<WaitingSpan>,
    gpus: Vec<GpuOwners>,
    outgoing: Outgoing,
    /// What GPUs cost, as far as it is known here.
    charged: NanoUsd,
    summary: SpanSummary,
}

/// What became of spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpanSummary {
    /// Spans that left with their cost.
    pub priced: u64,
    /// Spans that left without, whose cost followed as an event.
    pub followed: u64,
    /// Spans that left without, and had no GPU time of their own.
    pub without_time: u64,
    /// Spans that have no price, by reason.
    pub rejected: HashMap<RejectReason, u64>,
    /// What spans cost.
    pub spans: NanoUsd,
    /// The rest of the bill.
    pub unattributed: NanoUsd,
}

#[derive(Clone, Debug)]
struct WaitingSpan {
    held: HeldSpan,
    gpus: GpuSet,
}

impl SpanCosts {
    /// Without GPUs. Spans leave through `sender`, whose queue must hold [`Self::queue_bytes`] more.
    #[must_use]
    pub fn new(limits: Limits, sender: RequestSender) -> Self {
        Self {
            attribution: Attribution::new(limits),
            gpus: Vec::new(),
            outgoing: Outgoing::new(sender),
            charged: NanoUsd::ZERO,
            summary: SpanSummary::default(),
        }
    }

    /// The most bytes of spans that are on their way at once.
    #[must_use]
    pub const fn queue_bytes(limits: &Limits) -> usize {
        limits.max_bytes + 2 * Outgoing::MAX_BYTES
    }

    /// Adds the GPUs that are new among these. Spans are charged for them by their index.
    pub fn add_gpus(&mut self, gpus: &[GpuIdentity]) {
        for gpu in gpus.iter().skip(self.gpus.len()) {
            self.attribution.add_gpu();
            let host = gpu.attributes.iter().find(|(key, _)| *key == HOST);
            self.gpus.push(GpuOwners {
                hw_id: gpu.uuid.clone().unwrap_or_default(),
                host: host.map(|(_, host)| host.clone()),
                ..GpuOwners::default()
            });
        }
    }

    /// Whether so many spans are on their way that no more must be taken.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.outgoing.bytes() > Outgoing::MAX_BYTES
    }

    /// Takes the spans of a request. Those that cannot be priced leave at once.
    pub fn take(&mut self, spans: ReceivedSpans, now: Timestamp) {
        let ReceivedSpans { chosen, others, .. } = spans;
        for (key, parent) in others {
            self.attribution.note(key, parent);
        }
        let mut leaving = Vec::new();
        for CandidateSpan { held, span, resource } in chosen {
            let gpus = gpus_of(&self.gpus, &resource.as_ref());
            let span = ChosenSpan { gpus: gpus.clone(), ..span };
            let size = held.size();
            let waiting = WaitingSpan { held, gpus };
            let mut unpriced = Vec::new();
            let offered = self.attribution.offer(span, waiting, size, now, &mut |release| {
                if let Release::Unpriced(waiting) = release {
                    unpriced.push(waiting.held);
                }
            });
            if let Err((reason, waiting)) = offered {
                *self.summary.rejected.entry(reason).or_default() += 1;
                unpriced.push(waiting.held);
            }
            leaving.extend(unpriced.into_iter().map(|held| (held, Vec::new())));
        }
        self.outgoing.send(leaving);
    }

    /// Adds what final time of a GPU cost, in time order.
    pub fn charge(&mut self, gpu: usize, slice: CostSlice) {
        self.charged += slice.cost;
        self.attribution.charge(gpu, slice);
    }

    /// A GPU has no further time before this instant.
    pub fn finalize(&mut self, gpu: usize, until: Timestamp) {
        self.attribution.finalize(gpu, until);
    }

    /// Divides the time that is final, and sends the spans whose cost is. Returns the cost of spans that
    /// left without.
    pub fn advance(
        &mut self,
        now: Timestamp,
        is_priced: impl Fn(usize) -> bool,
    ) -> Vec<SpanCostEvent> {
        let mut released = Vec::new();
        self.attribution.advance(now, &mut |release| released.push(release));
        self.release(released, is_priced)
    }

    /// Sends all spans at the end, when all GPUs together have cost `bill`.
    pub fn finish(
        &mut self,
        bill: NanoUsd,
        is_priced: impl Fn(usize) -> bool,
    ) -> Vec<SpanCostEvent> {
        // The price of a GPU may have become known after its time had been charged.
        let cost = bill - self.charged;
        self.attribution.charge_late(SpanCost { cost, ..SpanCost::default() });
        let mut released = Vec::new();
        self.attribution.finish(&mut |release| released.push(release));
        self.release(released, is_priced)
    }

    /// What became of spans so far.
    #[must_use]
    pub fn summary(&self) -> SpanSummary {
        SpanSummary {
            spans: self.attribution.attributed().cost,
            unattributed: self.attribution.unattributed().cost,
            ..self.summary.clone()
        }
    }

    fn release(
        &mut self,
        released: Vec<Release<WaitingSpan>>,
        is_priced: impl Fn(usize) -> bool,
    ) -> Vec<SpanCostEvent> {
        let count = self.gpus.len();
        let is_priced = |gpus: &GpuSet| (0..count).all(|gpu| !gpus.contains(gpu) || is_priced(gpu));
        let mut leaving = Vec::new();
        let mut events = Vec::new();
        for release in released {
            match release {
                Release::Priced(WaitingSpan { held, gpus }, cost) => {
                    self.summary.priced += 1;
                    leaving.push((held, priced_time(&cost, is_priced(&gpus)).fields()));
                }
                Release::Unpriced(waiting) => leaving.push((waiting.held, Vec::new())),
                Release::Cost(_, cost) if cost.time == Nanos::ZERO => {
                    self.summary.without_time += 1;
                }
                Release::Cost(span, cost) => {
                    self.summary.followed += 1;
                    events.push(SpanCostEvent {
                        trace: span.key.trace,
                        span: span.key.span,
                        at: span.to.unwrap_or(span.from),
                        time: priced_time(&cost, is_priced(&span.gpus)),
                    });
                }
            }
        }
        self.outgoing.send(leaving);
        events
    }
}
