//! The exporter of the SDK: that of `opentelemetry-otlp`, on its own runtime.
//!
//! The SDK's thread blocks on exports; no other thread waits for them.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tokio::runtime::Handle;
use tracing::{info, warn};

/// The exporter of the sidecar's provider.
#[derive(Debug)]
pub(super) struct Exporter {
    inner: MetricExporter,
    runtime: Handle,
    /// The target, for logs.
    target: String,
    /// Whether the last export failed, which has been logged.
    failing: AtomicBool,
}

impl Exporter {
    pub(super) fn new(inner: MetricExporter, runtime: Handle, target: String) -> Self {
        Self { inner, runtime, target, failing: AtomicBool::new(false) }
    }

    /// Logs when exports start failing and when they recover.
    fn log_transition(&self, result: &OTelSdkResult) {
        let target = &self.target;
        match (result, self.failing.swap(result.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                warn!(%target, %error, "internal telemetry, {target}: export failed: {error}");
            }
            (Ok(()), true) => info!(%target, "internal telemetry, {target}: export recovered"),
            _ => {}
        }
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let Self { inner, runtime, .. } = self;
        let mut exporting = pin!(inner.export(metrics));
        // The SDK's thread is not one of the runtime's, so each poll enters it.
        let step = poll_fn(|context| {
            let _inside = runtime.enter();
            exporting.as_mut().poll(context)
        });
        let result = step.await;
        self.log_transition(&result);
        result
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.inner.temporality()
    }
}
