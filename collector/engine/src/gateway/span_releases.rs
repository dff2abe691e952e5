//! Lets spans leave once their price is known, and passes on the costs of those that have left without.

use phasemeter_attribution::{GpuSet, LeftSpan, Release, SpanCost, SpanKey};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::encode::SpanCostEvent;
use phasemeter_receiver::HeldSpan;

use super::meters::KnownMeters;
use super::release::Outgoing;
use super::span_claims::OpenClaim;
use super::span_summary::SpanSummary;
use crate::pipeline::priced_time;

/// Maximum number of costs that are passed on at once.
const MAX_EVENTS: usize = 1_024;

/// Bytes of spans that are sent at once.
const LEAVING_BYTES: usize = 4 << 20;

/// A span that waits for its price.
#[derive(Clone, Debug)]
pub(super) struct WaitingSpan {
    /// The span as it arrived; `None` if another gateway passes it on.
    pub(super) held: Option<HeldSpan>,
    pub(super) gpus: GpuSet,
    pub(super) claim: Option<OpenClaim>,
    /// Its key and its end.
    pub(super) end: (SpanKey, Timestamp),
}

/// What leaves, in parts, so that little of it is in memory twice.
pub(super) struct Releases<'a> {
    priced: &'a [bool],
    are_all_priced: bool,
    meters: &'a KnownMeters,
    outgoing: &'a Outgoing,
    summary: &'a mut SpanSummary,
    emit: &'a mut dyn FnMut(&[SpanCostEvent]),
    leaving: Vec<(HeldSpan, Vec<u8>)>,
    /// Bytes of `leaving`.
    bytes: usize,
    events: Vec<SpanCostEvent>,
}

impl<'a> Releases<'a> {
    pub(super) fn new(
        priced: &'a [bool],
        meters: &'a KnownMeters,
        outgoing: &'a Outgoing,
        summary: &'a mut SpanSummary,
        emit: &'a mut dyn FnMut(&[SpanCostEvent]),
    ) -> Self {
        let (leaving, events) = (Vec::new(), Vec::new());
        let are_all_priced = priced.iter().all(|is_priced| *is_priced);
        Self { priced, are_all_priced, meters, outgoing, summary, emit, leaving, bytes: 0, events }
    }

    pub(super) fn add(&mut self, release: Release<WaitingSpan>) {
        match release {
            Release::Priced(WaitingSpan { held, gpus, claim, end: (key, to) }, cost) => {
                let (held, has_price) = self.summary.decided(held, claim, self.meters);
                match held {
                    Some(held) if !has_price => {
                        self.summary.priced += 1;
                        let fields =
                            priced_time(&cost, self.is_priced(&gpus)).fields(self.meters.own());
                        self.leave(held, fields);
                    }
                    // Its meter has priced other GPUs.
                    Some(held) => {
                        self.leave(held, Vec::new());
                        if cost.time > Nanos::ZERO {
                            self.follow(key, to, &gpus, &cost);
                        }
                    }
                    // Another gateway passes it on.
                    None => self.follow(key, to, &gpus, &cost),
                }
            }
            Release::Unpriced(WaitingSpan { held, claim, .. }) => {
                if let (Some(held), _) = self.summary.decided(held, claim, self.meters) {
                    self.leave(held, Vec::new());
                }
            }
            Release::Cost(LeftSpan { key, to, gpus }, cost) => self.follow(key, to, &gpus, &cost),
        }
    }

    /// The cost of a span that leaves without it, if it has any.
    fn follow(&mut self, key: SpanKey, to: Timestamp, gpus: &GpuSet, cost: &SpanCost) {
        if cost.time == Nanos::ZERO {
            self.summary.without_time += 1;
            return;
        }
        self.summary.followed += 1;
        let time = priced_time(cost, self.is_priced(gpus));
        self.events.push(SpanCostEvent { trace: key.trace, span: key.span, at: to, time });
        if self.events.len() >= MAX_EVENTS {
            self.flush_events();
        }
    }

    fn is_priced(&self, gpus: &GpuSet) -> bool {
        match gpus {
            GpuSet::All => self.are_all_priced,
            GpuSet::Some(_) => {
                let mut gpus = gpus.among(self.priced.len());
                gpus.all(|gpu| self.priced.get(gpu).is_none_or(|is_priced| *is_priced))
            }
        }
    }

    fn leave(&mut self, span: HeldSpan, fields: Vec<u8>) {
        self.bytes += span.size() + fields.len();
        self.leaving.push((span, fields));
        if self.bytes >= LEAVING_BYTES {
            self.flush_spans();
        }
    }

    pub(super) fn flush(mut self) {
        self.flush_spans();
        self.flush_events();
    }

    fn flush_spans(&mut self) {
        self.bytes = 0;
        self.outgoing.send(std::mem::take(&mut self.leaving));
    }

    fn flush_events(&mut self) {
        if !self.events.is_empty() {
            (self.emit)(&self.events);
            self.events.clear();
        }
    }
}
