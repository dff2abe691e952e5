//! The MIG instances of a GPU: memory, and activity if GPM is supported.
//!
//! Instances are created and destroyed at run time, so they are looked up at each poll. The GPU is
//! billed as a whole: these are device metrics, not readings.

use std::collections::BTreeMap;

use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};
use phasemeter_meter::device_metric::{Component, DeviceValue, MigId};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::Timestamp;
use phasemeter_nvml_calls::{gpu_instance_id, gpu_instance_start};

use super::gpm::{Gpm, Sampled};
use super::processes;
use crate::live::{ComputeProcess, MigInstance, MigProfile, QueryError};

/// Maximum number of instances: no GPU has more than eight.
const MAX_INSTANCES: u32 = 64;

/// The instances seen at the last poll.
#[derive(Debug, Default)]
pub(super) struct MigInstances<'d>(BTreeMap<MigId, Known<'d>>);

/// What is known of an instance.
#[derive(Debug)]
struct Known<'d> {
    properties: MigInstance,
    /// The latest sample of its counters.
    gpm: Gpm<'d>,
}

impl<'d> MigInstances<'d> {
    /// Emits every instance and its values. A GPU without MIG emits nothing.
    ///
    /// # Errors
    /// Returns an error if the GPU is lost, or its instances cannot be listed.
    pub(super) fn query(
        &mut self,
        nvml: &'d Nvml,
        device: &Device<'d>,
        now: Timestamp,
        mut emit: impl FnMut(Emitted),
    ) -> Result<(), QueryError> {
        let mut before = std::mem::take(&mut self.0);
        for index in 0..count(device)? {
            let instance = match device.mig_device_by_index(index) {
                // An unused index.
                Err(NvmlError::NotFound) => continue,
                instance => instance?,
            };
            let uuid = optional(instance.uuid().map_err(QueryError::from))?;
            let Some(id) = uuid.and_then(|uuid| MigId::parse(&uuid)) else { continue };
            let mut known = before.remove(&id).unwrap_or_else(|| Known::new(id));
            known.complete(device, &instance);
            emit(Emitted::Instance(known.properties));
            let processes = processes::of_instance(&instance, known.properties.gpu_instance);
            processes.into_iter().for_each(|process| emit(Emitted::Process(process)));
            let component = Component::Mig(id);
            let mut emit = |(quantity, value)| emit(Emitted::Value(component, quantity, value));
            if let Some(memory) = optional(memory(&instance))? {
                for (quantity, bytes) in memory {
                    emit((quantity, DeviceValue::Now(bytes)));
                }
            }
            let part = gpu_instance_id(&instance).map_err(QueryError::from);
            let gpm = &mut known.gpm;
            let activity =
                part.and_then(|id| gpm.query(nvml, device, Sampled::GpuInstance(id), now));
            if let Some(Some(activity)) = optional(activity)? {
                activity.values().for_each(&mut emit);
            }
            self.0.insert(id, known);
        }
        Ok(())
    }
}

/// An instance, a process on one, or a value of one.
pub(super) enum Emitted {
    Instance(MigInstance),
    Process(ComputeProcess),
    Value(Component, Quantity, DeviceValue),
}

impl Known<'_> {
    fn new(id: MigId) -> Self {
        let properties = MigInstance { id, gpu_instance: None, profile: None, start: None };
        Self { properties, gpm: Gpm::default() }
    }

    /// Queries the properties that are unknown. They do not change.
    fn complete(&mut self, gpu: &Device<'_>, instance: &Device<'_>) {
        let MigInstance { gpu_instance, profile, start, .. } = &mut self.properties;
        *gpu_instance = gpu_instance.or_else(|| gpu_instance_id(instance).ok());
        *profile = profile.or_else(|| MigProfile::at_end_of(&instance.name().ok()?));
        *start = start.or_else(|| gpu_instance_start(gpu, (*gpu_instance)?).ok());
    }
}

/// The profiles of a GPU's instances, like `1g.10gb`: the end of their names.
pub(super) fn profiles(device: &Device<'_>) -> Vec<String> {
    let count = count(device).unwrap_or(0);
    let names = (0..count).filter_map(|index| device.mig_device_by_index(index).ok()?.name().ok());
    let profile = |name: String| Some(name.rsplit_once(" MIG ")?.1.trim().to_owned());
    names.filter_map(profile).filter(|profile| !profile.is_empty()).collect()
}

/// How many instances it can have.
fn count(device: &Device<'_>) -> Result<u32, QueryError> {
    let count = device.mig_device_count()?;
    if count > MAX_INSTANCES { Err(QueryError::Failed) } else { Ok(count) }
}

fn memory(instance: &Device<'_>) -> Result<[(Quantity, i64); 2], QueryError> {
    let memory = instance.memory_info()?;
    let bytes = |quantity: Quantity, count: u64| {
        quantity.admit(count).map(|bytes| (quantity, bytes)).ok_or(QueryError::Failed)
    };
    let used = bytes(Quantity::MemoryUsed, memory.used)?;
    Ok([used, bytes(Quantity::MemoryTotal, memory.total)?])
}

/// A value that an instance may lack, also because it was destroyed since it was listed.
fn optional<T>(result: Result<T, QueryError>) -> Result<Option<T>, QueryError> {
    match result {
        Err(QueryError::Lost(loss)) => Err(QueryError::Lost(loss)),
        result => Ok(result.ok()),
    }
}
