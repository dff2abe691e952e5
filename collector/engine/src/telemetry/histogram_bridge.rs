//! Bridges duration histograms counted elsewhere to histograms of the SDK.
//!
//! The SDK has no observable histogram, so the difference since the last collection is recorded at each
//! collection, on the SDK's thread.

use std::sync::{Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Histogram, Meter};
use phasemeter_otlp::duration_histogram::Counts;

/// Bucket bounds for short durations, in seconds.
pub(super) const SHORT_BOUNDS: [f64; 14] =
    [1e-5, 3e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.3, 1.0];

/// Bucket bounds for network requests, in seconds: those of the HTTP conventions.
pub(super) const NETWORK_BOUNDS: [f64; 14] =
    [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0];

/// A histogram in seconds.
pub(super) fn seconds(
    meter: &Meter,
    name: &'static str,
    description: &'static str,
    bounds: [f64; 14],
) -> Histogram<f64> {
    let histogram = meter.f64_histogram(name).with_unit("s").with_description(description);
    histogram.with_boundaries(bounds.to_vec()).build()
}

/// One series of a histogram.
pub(super) struct HistogramBridge {
    histogram: Histogram<f64>,
    attributes: Vec<KeyValue>,
    recorded: Mutex<Counts>,
}

impl HistogramBridge {
    /// Nothing is recorded yet.
    pub(super) fn new(histogram: &Histogram<f64>, attributes: Vec<KeyValue>) -> Self {
        Self { histogram: histogram.clone(), attributes, recorded: Mutex::default() }
    }

    /// Records the difference since the last call, each duration as the middle of its bucket.
    pub(super) fn record(&self, counts: Counts) {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        for (length, count) in counts.since(&recorded) {
            for _ in 0..count {
                self.histogram.record(length.as_secs_f64(), &self.attributes);
            }
        }
        *recorded = counts;
    }
}
