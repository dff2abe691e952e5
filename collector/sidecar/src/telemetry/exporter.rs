//! The SDK's way out: the exporter of `opentelemetry-otlp`, on a runtime of its own.
//!
//! The SDK's thread waits for the exporter, and nobody waits for that thread. This room must not
//! know what is collected.

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

/// What the SDK exports with.
#[derive(Debug)]
pub(super) struct Exporter {
    inner: MetricExporter,
    runtime: Handle,
    /// Where it goes, for people.
    target: String,
    /// The last export failed; that was told.
    failing: AtomicBool,
}

impl Exporter {
    pub(super) const fn new(inner: MetricExporter, runtime: Handle, target: String) -> Self {
        Self { inner, runtime, target, failing: AtomicBool::new(false) }
    }

    /// Tells when exports begin to fail, and when they are taken again.
    fn tell(&self, result: &OTelSdkResult) {
        let target = &self.target;
        match (result, self.failing.swap(result.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                warn!(%target, %error, "self-telemetry, {target}: cannot be sent: {error}");
            }
            (Ok(()), true) => info!(%target, "self-telemetry, {target}: is accepted again"),
            _ => {}
        }
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let mut exporting = pin!(self.inner.export(metrics));
        // The SDK's thread is none of the runtime's: it goes inside for each step.
        let step = poll_fn(|context| {
            let _inside = self.runtime.enter();
            exporting.as_mut().poll(context)
        });
        let result = step.await;
        self.tell(&result);
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
