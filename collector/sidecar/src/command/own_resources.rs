//! The resources of a live run, and what identifies them.

use phasemeter_engine::telemetry;
use phasemeter_environment::slot::Slot;
use phasemeter_environment::{detectors, host, instance, resource};
use phasemeter_otlp::experiment::{Attributes, Experiment, SERVICE_INSTANCE_ID, TraceId};
use tracing::{debug, warn};

/// The resources of Phasemeter.
pub(super) struct OwnResources {
    /// Of GPUs as hardware.
    pub(super) hardware: Attributes,
    /// Of internal telemetry.
    pub(super) process: Attributes,
    /// What both are identified by on this machine; without one, by the run.
    pub(super) slot: Option<Slot>,
}

impl OwnResources {
    /// Identifies the workload's instance, unless it is given, and takes a slot of this machine. `random` is the ID of
    /// an experiment without a name.
    pub(super) fn new(experiment: &mut Experiment, random: TraceId, is_command: bool) -> Self {
        let workload = &mut experiment.attributes;
        let place = resource::place(workload, host::attributes());
        let machine = instance::machine(&place, || host::boot_id().unwrap_or_default());
        // A command is an experiment of its own. A sidecar without an experiment is the same after a
        // restart.
        let is_named = experiment.id != random.to_string();
        let id = if is_named || is_command { experiment.id.as_str() } else { "" };
        if !workload.contains_key(SERVICE_INSTANCE_ID) {
            let instance = instance::workload_id(workload, &place, &machine, id);
            workload.insert(SERVICE_INSTANCE_ID.to_owned(), instance);
        }
        let slot = Slot::take(|name| std::env::var_os(name));
        let slot = slot.inspect_err(|error| {
            let problem =
                "hardware series are those of this run alone: no directory for locks of this machine";
            // A pod often has no writable directory, and shares none with other runs.
            match detectors::in_pod() {
                true => debug!("{problem}: {error}"),
                false => warn!("{problem}: {error}"),
            }
        });
        let slot = slot.ok();
        let own = |part| {
            let name = slot.as_ref().map(Slot::name);
            let id = instance::phasemeter_id(workload, &place, &machine, name, part);
            resource::own(place.clone(), id)
        };
        let mut process = own("process");
        process.extend(telemetry::sdk_attributes());
        Self { hardware: own("hardware"), process, slot }
    }
}
