//! Exemplars: from a bucket of the histogram to the span in which it was so.
//!
//! One reading a bucket since the last export: the first, whose span is the likeliest to be
//! settled by then. This room must not know how a span is named.

use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Timestamp, Utilization};

use super::histogram::{BUCKETS, bucket};

/// A reading that stands for its bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// PointTime it was read.
    pub(super) at: Timestamp,
    /// What it said.
    pub(super) utilization: Utilization,
    /// The start of the phase span that holds it, where that is settled.
    pub(super) span: Option<Timestamp>,
}

/// The readings since the last export that stand for their buckets.
#[derive(Clone, Debug, Default)]
pub(super) struct Exemplars([Option<Candidate>; BUCKETS]);

impl Exemplars {
    /// A reading said so.
    pub(super) fn offer(&mut self, at: Timestamp, utilization: Utilization) {
        if let Some(slot) = self.0.get_mut(bucket(utilization)) {
            slot.get_or_insert(Candidate { at, utilization, span: None });
        }
    }

    /// A span is over: it holds the readings in it.
    pub(super) fn settle(&mut self, span: &PhaseSpan) {
        for candidate in self.0.iter_mut().flatten() {
            if (span.from..span.to).contains(&candidate.at) {
                candidate.span = Some(span.from);
            }
        }
    }

    /// Gives them out and begins anew.
    pub(super) fn take(&mut self, meter: &GpuMeter) -> impl Iterator<Item = Candidate> {
        let settled = |at| meter.final_span_start(at);
        std::mem::take(&mut self.0).into_iter().flatten().map(move |candidate| Candidate {
            span: candidate.span.or_else(|| settled(candidate.at)),
            ..candidate
        })
    }
}
