//! Exemplars: they link points to spans.
//!
//! A bucket of the histogram has one reading since the last export: the first, whose span is the most likely to be
//! final by then. The cost of an account has the phase span that cost most in it, of those that have ended since.

use opentelemetry_proto::tonic::metrics::v1::Exemplar;
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::histogram::{BUCKETS, bucket};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Timestamp, Utilization};

use super::context::TraceContext;

/// A reading that represents its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// When it was read.
    pub(super) at: Timestamp,
    /// Its utilization.
    pub(super) utilization: Utilization,
    /// Start of the phase span that contains it, if final.
    pub(super) span: Option<Timestamp>,
}

/// The readings since the last export that represent their buckets.
#[derive(Clone, Debug, Default)]
pub(super) struct Exemplars([Option<Candidate>; BUCKETS]);

impl Exemplars {
    /// Offers a reading.
    pub(super) fn offer(&mut self, at: Timestamp, utilization: Utilization) {
        if let Some(slot) = self.0.get_mut(bucket(utilization)) {
            slot.get_or_insert(Candidate { at, utilization, span: None });
        }
    }

    /// Marks the readings within a finished span.
    pub(super) fn settle(&mut self, span: &PhaseSpan) {
        for candidate in self.0.iter_mut().flatten() {
            if (span.from..span.to).contains(&candidate.at) {
                candidate.span = Some(span.from);
            }
        }
    }

    /// Takes the candidates, and starts anew.
    pub(super) fn take(&mut self, meter: &GpuMeter) -> impl Iterator<Item = Candidate> {
        let finished = |at| meter.final_span_start(at);
        std::mem::take(&mut self.0).into_iter().flatten().map(move |candidate| Candidate {
            span: candidate.span.or_else(|| finished(candidate.at)),
            ..candidate
        })
    }
}

/// The part of a phase span in one account.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: Timestamp,
    to: Timestamp,
    cost: NanoUsd,
}

/// By account, the phase span that cost most in it, of those that have ended since the last export.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CostliestSpans([Option<Part>; Account::ALL.len()]);

impl CostliestSpans {
    /// Offers a phase span that has ended.
    pub(super) fn offer(&mut self, span: &PhaseSpan) {
        for (slot, account) in self.0.iter_mut().zip(Account::ALL) {
            let cost = span.accounts[account].cost;
            if cost > slot.map_or(NanoUsd::ZERO, |most| most.cost) {
                *slot = Some(Part { from: span.from, to: span.to, cost });
            }
        }
    }

    /// Takes an exemplar for the cost of each account that has one, and starts anew. It has the dollars of its span in
    /// the account, and the time at which the span has ended.
    pub(super) fn take(&mut self, trace: &TraceContext) -> [Option<Exemplar>; Account::ALL.len()] {
        std::mem::take(self).0.map(|part| {
            part.map(|Part { from, to, cost }| trace.exemplar(Some(from), to, cost.as_f64()))
        })
    }
}
