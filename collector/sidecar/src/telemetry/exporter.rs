//! The SDK's way out: what it collected is handed to a client, which never waits.
//!
//! `opentelemetry-otlp` would be another client beside our own, without our certificates and without
//! a second attempt. This room must not know what is collected.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;

use crate::otlp::Request;
use crate::otlp::client::Client;

/// The client, until that is over. The SDK shares its exporter among threads and never gives it
/// back, so that it has its client only on loan.
#[derive(Debug)]
pub(super) struct Loan(Mutex<Option<Client>>);

/// What the SDK exports to.
#[derive(Debug)]
pub(super) struct Exporter(pub(super) Arc<Loan>);

impl Loan {
    pub(super) const fn new(client: Client) -> Self {
        Self(Mutex::new(Some(client)))
    }

    /// Sends what it can within `grace`; what comes later is not sent.
    pub(super) fn end(&self, grace: Duration) {
        let client = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(client) = client {
            // What the backend did not take of this is its own loss.
            let _ = client.flush(grace);
        }
    }
}

impl PushMetricExporter for Exporter {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let loan = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = loan.as_ref() {
            client.enqueue(Request::Metrics(metrics.into()).encode());
        }
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    /// The loan ends after the SDK.
    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}
