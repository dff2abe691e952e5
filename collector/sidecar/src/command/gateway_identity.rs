//! What identifies a gateway in all that it sends.

use phasemeter_engine::telemetry;
use phasemeter_environment::{host, instance, resource};
use phasemeter_otlp::experiment::{Attributes, Experiment, SERVICE_INSTANCE_ID};

use super::claims::Claims;

/// The resource of the gateway's process.
pub(super) fn process(experiment: &Experiment) -> Attributes {
    let workload = &experiment.attributes;
    let place = resource::place(workload, host::attributes());
    let machine = instance::machine(&place, || host::boot_id().unwrap_or_default());
    let id = instance::phasemeter_id(workload, &place, &machine, None, "process");
    let mut process = resource::own(place, id);
    process.extend(telemetry::sdk_attributes());
    process
}

/// Identifies what the gateway sends: by its name among replicas, else as the environment does, else by its
/// data directory, which moves with it, else by its host and addresses. So its series continue after a restart.
pub(super) fn identify(
    experiment: &mut Experiment,
    replica: Option<&str>,
    claims: Option<&mut Claims>,
    addresses: &[String],
) -> String {
    let workload: &mut Attributes = &mut experiment.attributes;
    if let Some(replica) = replica {
        workload.insert(SERVICE_INSTANCE_ID.to_owned(), replica.to_owned());
    }
    if let Some(given) = workload.get(SERVICE_INSTANCE_ID) {
        return given.clone();
    }
    let id = claims.map(Claims::instance).unwrap_or_else(|| {
        let place = resource::place(workload, host::attributes());
        let machine = instance::machine(&place, || host::boot_id().unwrap_or_default());
        instance::gateway_id(&place, &machine, addresses)
    });
    workload.insert(SERVICE_INSTANCE_ID.to_owned(), id.clone());
    id
}
