//! The address for probes of a gateway and for Prometheus.

use std::net::SocketAddr;
use std::sync::Arc;

use phasemeter_engine::health::{Health, HealthListener};
use prometheus::Registry;
use tracing::info;

use super::error::CommandError;

/// The address for probes: clients that connect wait until it is served.
pub(super) struct Probes {
    listener: Option<HealthListener>,
    registry: Registry,
}

impl Probes {
    /// Binds the address, if there is one.
    pub(super) fn bind(address: Option<SocketAddr>) -> Result<Self, CommandError> {
        let failed = CommandError::system("cannot listen for probes (--health-listen)");
        let listener = address.map(HealthListener::bind).transpose().map_err(&failed)?;
        if let Some(listener) = &listener {
            let address = listener.address().map_err(failed)?;
            info!(%address, "answering /livez, /readyz and /metrics on {address}");
        }
        Ok(Self { listener, registry: Registry::new() })
    }

    /// The registry for Prometheus, if there is an address.
    pub(super) fn registry(&self) -> Option<&Registry> {
        self.listener.is_some().then_some(&self.registry)
    }

    /// Answers from now on. Returns what the main loop updates.
    pub(super) fn answer(self, has_metrics: bool) -> Result<Arc<Health>, CommandError> {
        let health = Arc::<Health>::default();
        if let Some(listener) = self.listener {
            let failed = CommandError::system("cannot answer probes");
            let metrics = has_metrics.then_some(self.registry);
            listener.serve(Arc::clone(&health), metrics).map_err(failed)?;
        }
        Ok(health)
    }
}
