//! The SDK's way out: the exporter of `opentelemetry-otlp`, on a runtime of its own.
//!
//! The SDK's threads wait for the exporter, and nobody waits for those threads. All of them share
//! one, with its connection. This room must not know what is collected.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opentelemetry_otlp::MetricExporter;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use tokio::runtime::Handle;
use tracing::{info, warn};

/// What the SDK exports with. A clone is the same exporter.
#[derive(Clone, Debug)]
pub(super) struct Exporter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: MetricExporter,
    runtime: Handle,
    /// Where it goes, for people.
    target: String,
    /// The last export failed; that was told.
    failing: AtomicBool,
}

impl Exporter {
    pub(super) fn new(inner: MetricExporter, runtime: Handle, target: String) -> Self {
        Self(Arc::new(Shared { inner, runtime, target, failing: AtomicBool::new(false) }))
    }
}

impl Shared {
    /// Tells when exports begin to fail, and when they are taken again.
    fn log_transition(&self, result: &OTelSdkResult) {
        let target = &self.target;
        match (result, self.failing.swap(result.is_err(), Ordering::Relaxed)) {
            (Err(error), false) => {
                warn!(%target, %error, "internal telemetry, {target}: cannot be sent: {error}");
            }
            (Ok(()), true) => info!(%target, "internal telemetry, {target}: is accepted again"),
            _ => {}
        }
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let Shared { inner, runtime, .. } = self.0.as_ref();
        let mut exporting = pin!(inner.export(metrics));
        // The SDK's thread is none of the runtime's: it goes inside for each step.
        let step = poll_fn(|context| {
            let _inside = runtime.enter();
            exporting.as_mut().poll(context)
        });
        let result = step.await;
        self.0.log_transition(&result);
        result
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.inner.force_flush()
    }

    /// It ends when nobody has it any more: one that has told all is not the last.
    fn shutdown_with_timeout(&self, _timeout: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        self.0.inner.temporality()
    }
}
