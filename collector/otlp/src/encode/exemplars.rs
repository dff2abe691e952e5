//! Exemplars: they link a bucket of the histogram to the span of one of its readings.
//!
//! One reading per bucket since the last export: the first, whose span is the most likely to be
//! final by then.

use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::histogram::{BUCKETS, bucket};
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Timestamp, Utilization};

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
