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
use phasemeter_nvml_calls::gpu_instance_id;

use super::gpm::{Gpm, Sampled};
use crate::live::QueryError;

/// The instances seen at the last poll, with the latest sample of their counters.
#[derive(Debug, Default)]
pub(super) struct MigInstances<'d> {
    gpm: BTreeMap<MigId, Gpm<'d>>,
}

impl<'d> MigInstances<'d> {
    /// Emits the values of every instance. A GPU without MIG emits nothing.
    ///
    /// # Errors
    /// Returns an error if the GPU is lost, or its instances cannot be listed.
    pub(super) fn query(
        &mut self,
        nvml: &'d Nvml,
        device: &Device<'d>,
        now: Timestamp,
        mut emit: impl FnMut(Component, Quantity, DeviceValue),
    ) -> Result<(), QueryError> {
        let mut before = std::mem::take(&mut self.gpm);
        for index in 0..device.mig_device_count()? {
            let instance = match device.mig_device_by_index(index) {
                // An unused index.
                Err(NvmlError::NotFound) => continue,
                instance => instance?,
            };
            let uuid = optional(instance.uuid().map_err(QueryError::from))?;
            let Some(id) = uuid.and_then(|uuid| MigId::parse(&uuid)) else { continue };
            let component = Component::Mig(id);
            if let Some(memory) = optional(memory(&instance))? {
                for (quantity, bytes) in memory {
                    emit(component, quantity, DeviceValue::Now(bytes));
                }
            }
            let mut gpm = before.remove(&id).unwrap_or_default();
            let part = gpu_instance_id(&instance).map_err(QueryError::from);
            let activity =
                part.and_then(|id| gpm.query(nvml, device, Sampled::GpuInstance(id), now));
            if let Some(Some(activity)) = optional(activity)? {
                activity.values().for_each(|(quantity, value)| emit(component, quantity, value));
            }
            self.gpm.insert(id, gpm);
        }
        Ok(())
    }
}

/// The profiles of a GPU's instances, like `1g.10gb`: the end of their names.
pub(super) fn profiles(device: &Device<'_>) -> Vec<String> {
    let count = device.mig_device_count().unwrap_or(0);
    let names = (0..count).filter_map(|index| device.mig_device_by_index(index).ok()?.name().ok());
    let profile = |name: String| Some(name.rsplit_once(" MIG ")?.1.trim().to_owned());
    names.filter_map(profile).filter(|profile| !profile.is_empty()).collect()
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
