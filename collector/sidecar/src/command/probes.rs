//! Internal telemetry of a gateway, and the address for probes of it.

use std::net::SocketAddr;
use std::sync::Arc;

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::{Attributes, Experiment};
use prometheus::Registry;
use tracing::info;

use super::delivery::Delivery;
use super::error::CommandError;
use crate::health::{Health, HealthListener};
use crate::telemetry::{self, Telemetry};
use crate::{host, instance, resource};

/// The address for probes: clients that connect wait until it is served.
pub(super) struct Probes {
    listener: Option<HealthListener>,
    registry: Registry,
}

impl Probes {
    /// Binds the address, if there is one.
    pub(super) fn bind(address: Option<SocketAddr>) -> Result<Self, CommandError> {
        let what = "cannot listen for probes (--health-listen)";
        let failed = |source| CommandError::System { what, source };
        let listener = address.map(HealthListener::bind).transpose().map_err(failed)?;
        if let Some(listener) = &listener {
            let address = listener.address().map_err(failed)?;
            info!(%address, "answering /livez, /readyz and /metrics on {address}");
        }
        Ok(Self { listener, registry: Registry::new() })
    }

    /// Starts internal telemetry: to the backend, and for Prometheus if there is an address.
    pub(super) fn telemetry(
        &self,
        delivery: Option<&Delivery>,
        every: Nanos,
        experiment: &Experiment,
    ) -> Option<Telemetry> {
        let registry = self.listener.is_some().then_some(&self.registry);
        delivery?.telemetry(every, &process(experiment), registry)
    }

    /// Answers from now on. Returns what the main loop updates.
    pub(super) fn answer(self, has_metrics: bool) -> Result<Arc<Health>, CommandError> {
        let health = Arc::<Health>::default();
        if let Some(listener) = self.listener {
            let failed = |source| CommandError::System { what: "cannot answer probes", source };
            let metrics = has_metrics.then_some(self.registry);
            listener.serve(Arc::clone(&health), metrics).map_err(failed)?;
        }
        Ok(health)
    }
}

/// The resource of the gateway's process.
fn process(experiment: &Experiment) -> Attributes {
    let workload = &experiment.attributes;
    let place = resource::place(workload, host::attributes());
    let machine = instance::machine(&place, || host::boot_id().unwrap_or_default());
    let id = instance::phasemeter_id(workload, &place, &machine, None, "process");
    let mut process = resource::own(place, id);
    process.extend(telemetry::sdk_attributes());
    process
}
