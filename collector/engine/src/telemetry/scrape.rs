//! Internal telemetry where it is asked for: collected on demand.

use std::sync::{Arc, Weak};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{InstrumentKind, ManualReader, Pipeline, Temporality};
use phasemeter_otlp::Request;

/// A reader that the SDK and each page share. Clones are the same reader.
#[derive(Clone, Debug, Default)]
pub struct ScrapeReader(Arc<ManualReader>);

impl ScrapeReader {
    /// The metrics of this process now; `None` before its telemetry has started and once it has ended.
    #[must_use]
    pub fn request(&self) -> Option<Request> {
        let mut metrics = ResourceMetrics::default();
        self.0.collect(&mut metrics).ok()?;
        Some(Request::from_sdk(&metrics))
    }
}

impl MetricReader for ScrapeReader {
    fn register_pipeline(&self, pipeline: Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, metrics: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(metrics)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    /// Prometheus has no other.
    fn temporality(&self, _: InstrumentKind) -> Temporality {
        Temporality::Cumulative
    }
}
