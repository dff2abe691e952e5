//! The address for probes and for Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use phasemeter_engine::health::{Health, HealthListener, MetricsPages};
use phasemeter_engine::telemetry::ScrapeReader;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::exposition::Exposition;
use tracing::info;

use super::error::CommandError;

/// The address for probes, if there is one: clients that connect wait until it is served.
#[derive(Default)]
pub(super) struct Probes(Option<BoundProbes>);

struct BoundProbes {
    listener: HealthListener,
    exposition: Exposition,
    reader: ScrapeReader,
}

impl Probes {
    /// Binds the address, if there is one, for metrics that are exported this often.
    pub(super) fn bind(address: Option<SocketAddr>, every: Nanos) -> Result<Self, CommandError> {
        let Some(address) = address else { return Ok(Self(None)) };
        let failed = CommandError::system("cannot listen for probes (--health-listen)");
        let listener = HealthListener::bind(address).map_err(&failed)?;
        let address = listener.address().map_err(failed)?;
        let who = match address.ip().is_loopback() {
            true => "every user of this machine",
            false => "everyone who can connect",
        };
        info!(%address, "answering /livez, /readyz and /metrics on {address} for {who}");
        let exposition = Exposition::new(Duration::from_nanos(every.0));
        Ok(Self(Some(BoundProbes { listener, exposition, reader: ScrapeReader::default() })))
    }

    /// What Prometheus may ask for.
    pub(super) fn exposition(&self) -> Option<&Exposition> {
        self.0.as_ref().map(|bound| &bound.exposition)
    }

    /// The reader of internal telemetry for Prometheus.
    pub(super) fn reader(&self) -> Option<&ScrapeReader> {
        self.0.as_ref().map(|bound| &bound.reader)
    }

    /// Answers from now on. Returns what the main loop updates.
    pub(super) fn answer(self) -> Result<Arc<Health>, CommandError> {
        let health = Arc::<Health>::default();
        if let Some(BoundProbes { listener, exposition, reader }) = self.0 {
            let failed = CommandError::system("cannot answer probes");
            let metrics = MetricsPages::new(exposition, reader);
            listener.serve(Arc::clone(&health), metrics).map_err(failed)?;
        }
        Ok(health)
    }
}
