//! Safe functions for the calls of NVML that `nvml-wrapper` lacks or cannot bound, and to load its library alone.
//!
//! A crate of its own, so that all others that read the driver forbid unsafe code.

#![allow(unsafe_code, reason = "calls C functions of the loaded library")]

mod lists;

pub use lists::{
    MAX_ENTRIES, bounded, compute_processes, mps_processes, process_utilization, samples,
};
use nvml_wrapper::Device;
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::struct_wrappers::device::FieldValueSample;
use nvml_wrapper_sys::bindings::{
    nvmlDevice_t, nvmlFieldValue_t, nvmlGpuInstanceInfo_t, nvmlGpuInstancePlacement_t, nvmlValue_t,
};

/// The library of this machine's driver, as `nvml-wrapper` loads it.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// Loads the library of this machine's driver without initializing it, and keeps it loaded. Whatever is
/// run by that may hang, or end this process.
///
/// # Errors
/// Returns an error if the dynamic linker cannot load it.
pub fn load_library() -> Result<(), libloading::Error> {
    // SAFETY: what the library runs when it is loaded is the driver's, which every user of NVML trusts.
    let library = unsafe { libloading::Library::new(LIBRARY) }?;
    std::mem::forget(library);
    Ok(())
}

/// A field of a part of a GPU. `nvml-wrapper` queries scope 0 only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopedField {
    /// `NVML_FI_…`.
    pub id: u32,
    /// The part; its meaning depends on the field, for example the number of an NVLink link.
    pub scope: u32,
}

/// Queries fields in one call (`nvmlDeviceGetFieldValues`). Results are in the order of `fields`.
///
/// IDs from 251 to 273 depend on the driver's version; `nvml-wrapper` translates them.
///
/// # Errors
/// Returns an error if the call fails; the result of each field is its own.
pub fn field_values(
    device: &Device<'_>,
    fields: &[ScopedField],
) -> Result<Vec<Result<SampleValue, NvmlError>>, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    let count = i32::try_from(fields.len()).map_err(|_| NvmlError::InvalidArg)?;
    let mut values: Vec<nvmlFieldValue_t> = fields.iter().map(unqueried).collect();
    // SAFETY: the handle is the device's, whose library is loaded; the array is valid and
    // initialized for `count` entries.
    nvml_try(unsafe { function(handle(device), count, values.as_mut_ptr()) })?;
    let value = |value| FieldValueSample::try_from(value)?.value;
    Ok(values.into_iter().map(value).collect())
}

/// The ID of the GPU instance that contains this MIG instance (`nvmlDeviceGetGpuInstanceId`).
///
/// # Errors
/// Returns an error if the call fails, for example because the device is not a MIG instance.
pub fn gpu_instance_id(instance: &Device<'_>) -> Result<u32, NvmlError> {
    let function = nvml_sym(instance.nvml().lib().nvmlDeviceGetGpuInstanceId.as_ref())?;
    let mut id = 0;
    // SAFETY: the handle is the instance's, whose library is loaded; `id` is valid for a number.
    nvml_try(unsafe { function(handle(instance), &raw mut id) })?;
    Ok(id)
}

/// The first memory slice of the GPU instance with this ID (`nvmlDeviceGetGpuInstanceById`, `nvmlGpuInstanceGetInfo`).
///
/// # Errors
/// Returns an error if a call fails, for example if the instance does not exist or belongs to another user.
pub fn gpu_instance_start(gpu: &Device<'_>, id: u32) -> Result<u32, NvmlError> {
    let by_id = nvml_sym(gpu.nvml().lib().nvmlDeviceGetGpuInstanceById.as_ref())?;
    let info_of = nvml_sym(gpu.nvml().lib().nvmlGpuInstanceGetInfo.as_ref())?;
    let mut instance = std::ptr::null_mut();
    // SAFETY: the handle is the GPU's, whose library is loaded; `instance` is valid for a handle.
    nvml_try(unsafe { by_id(handle(gpu), id, &raw mut instance) })?;
    let mut info = nvmlGpuInstanceInfo_t {
        device: std::ptr::null_mut(),
        id: 0,
        profileId: 0,
        placement: nvmlGpuInstancePlacement_t { start: 0, size: 0 },
    };
    // SAFETY: the handle is that of the call before, of the same library; `info` is valid for its structure.
    nvml_try(unsafe { info_of(instance, &raw mut info) })?;
    Ok(info.placement.start)
}

fn handle(device: &Device<'_>) -> nvmlDevice_t {
    // SAFETY: used only while the device is borrowed.
    unsafe { device.handle() }
}

fn unqueried(field: &ScopedField) -> nvmlFieldValue_t {
    nvmlFieldValue_t {
        fieldId: field.id,
        scopeId: field.scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: 0,
        value: nvmlValue_t { ullVal: 0 },
    }
}
