//! Lists of a driver, bounded. `nvml-wrapper` requests memory for as many entries as the driver claims to have, and a
//! wrong number ends the process.

use std::ptr;

use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{SampleValueType, Sampling};
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample, Sample};
use nvml_wrapper_sys::bindings::{
    nvmlProcessInfo_t, nvmlProcessUtilizationSample_t,
    nvmlReturn_enum_NVML_ERROR_INSUFFICIENT_SIZE as INSUFFICIENT_SIZE, nvmlReturn_t, nvmlSample_t,
    nvmlValue_t,
};

use crate::handle;

/// Maximum length of a list: some times what a GPU has of processes or a ring of samples.
pub const MAX_ENTRIES: u32 = 1 << 14;

/// The ID of no process: of an entry that the driver has counted and not written.
const UNWRITTEN: u32 = u32::MAX;

/// Entries that may be added to a list while it is read.
const HEADROOM: u32 = 5;

/// The processes that compute on a GPU or MIG instance (`nvmlDeviceGetComputeRunningProcesses`).
///
/// # Errors
/// Returns an error if the call fails, or claims more than [`MAX_ENTRIES`].
pub fn compute_processes(device: &Device<'_>) -> Result<Vec<ProcessInfo>, NvmlError> {
    let library = device.nvml().lib();
    let function = nvml_sym(library.nvmlDeviceGetComputeRunningProcesses_v3.as_ref())?;
    // SAFETY: the handle is the device's, whose library is loaded; `list` passes valid pointers.
    processes(|count, entries| unsafe { function(handle(device), count, entries) })
}

/// The same of clients of the multi-process service (`nvmlDeviceGetMPSComputeRunningProcesses`).
///
/// # Errors
/// Returns an error if the call fails, or claims more than [`MAX_ENTRIES`].
pub fn mps_processes(device: &Device<'_>) -> Result<Vec<ProcessInfo>, NvmlError> {
    let library = device.nvml().lib();
    let function = nvml_sym(library.nvmlDeviceGetMPSComputeRunningProcesses_v3.as_ref())?;
    // SAFETY: as above.
    processes(|count, entries| unsafe { function(handle(device), count, entries) })
}

/// What processes have used since a timestamp of the driver (`nvmlDeviceGetProcessUtilization`).
///
/// # Errors
/// Returns an error if the call fails, or claims more than [`MAX_ENTRIES`].
pub fn process_utilization(
    device: &Device<'_>,
    since: u64,
) -> Result<Vec<ProcessUtilizationSample>, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetProcessUtilization.as_ref())?;
    let unwritten = nvmlProcessUtilizationSample_t {
        pid: UNWRITTEN,
        timeStamp: 0,
        smUtil: 0,
        memUtil: 0,
        encUtil: 0,
        decUtil: 0,
    };
    // SAFETY: the handle is the device's, whose library is loaded; `list` passes valid pointers.
    let call = |count, entries| unsafe { function(handle(device), entries, count, since) };
    let written = list(unwritten, call)?.into_iter().filter(|sample| sample.pid != UNWRITTEN);
    Ok(written.map(ProcessUtilizationSample::from).collect())
}

/// The samples in a ring of the driver since a timestamp of it (`nvmlDeviceGetSamples`). Unused slots have the time 0.
///
/// # Errors
/// Returns an error if the call fails, or claims more than [`MAX_ENTRIES`].
pub fn samples(device: &Device<'_>, ring: Sampling, since: u64) -> Result<Vec<Sample>, NvmlError> {
    let function = nvml_sym(device.nvml().lib().nvmlDeviceGetSamples.as_ref())?;
    let (ring, mut kind) = (ring.as_c(), 0);
    let unwritten = nvmlSample_t { timeStamp: 0, sampleValue: nvmlValue_t { ullVal: 0 } };
    let call = |count, entries| {
        // SAFETY: the handle is the device's, whose library is loaded; `kind` is valid for a number, and `list` passes
        // valid pointers.
        unsafe { function(handle(device), ring, since, &raw mut kind, count, entries) }
    };
    let samples = list(unwritten, call)?;
    if samples.is_empty() {
        return Ok(Vec::new());
    }
    let kind = SampleValueType::try_from(kind)?;
    Ok(samples.into_iter().map(|sample| Sample::from_tag_and_struct(&kind, sample)).collect())
}

fn processes(
    call: impl FnMut(*mut u32, *mut nvmlProcessInfo_t) -> nvmlReturn_t,
) -> Result<Vec<ProcessInfo>, NvmlError> {
    let unwritten = nvmlProcessInfo_t {
        pid: UNWRITTEN,
        usedGpuMemory: 0,
        gpuInstanceId: 0,
        computeInstanceId: 0,
    };
    let written = list(unwritten, call)?.into_iter().filter(|process| process.pid != UNWRITTEN);
    Ok(written.map(ProcessInfo::from).collect())
}

/// Calls for the length of a list, then for its entries.
fn list<T: Clone>(
    unwritten: T,
    mut call: impl FnMut(*mut u32, *mut T) -> nvmlReturn_t,
) -> Result<Vec<T>, NvmlError> {
    let mut length = 0;
    match call(&raw mut length, ptr::null_mut()) {
        INSUFFICIENT_SIZE => {}
        other => nvml_try(other)?,
    }
    if length == 0 {
        return Ok(Vec::new());
    }
    let mut entries = vec![unwritten; usize::try_from(bounded(length)? + HEADROOM).unwrap_or(0)];
    let mut written = length + HEADROOM;
    nvml_try(call(&raw mut written, entries.as_mut_ptr()))?;
    entries.truncate(usize::try_from(written).unwrap_or(usize::MAX));
    Ok(entries)
}

/// A length that the driver claims.
///
/// # Errors
/// Returns an error if it is more than [`MAX_ENTRIES`].
pub fn bounded(length: u32) -> Result<u32, NvmlError> {
    if length > MAX_ENTRIES {
        return Err(NvmlError::InsufficientSize(usize::try_from(length).ok()));
    }
    Ok(length)
}
