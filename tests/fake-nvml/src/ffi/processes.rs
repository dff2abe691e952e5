//! Processes on a device and their utilization.

use nvml_wrapper_sys::bindings::{
    nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessUtilizationSample_t,
};
use phasemeter_meter::units::Bytes;

use super::call::{Call, device_functions, instance_functions};
use super::raw::{Array, InOut, NvmlResult};
use super::readings::reject_mig;
use crate::error_code::ErrorCode;
use crate::track::{Process, ProcessKind};

/// The driver's value for unknown process memory.
const MEMORY_UNKNOWN: u64 = u64::MAX;

/// The driver's value for a process outside any MIG instance.
const NO_INSTANCE: u32 = u32::MAX;

instance_functions! {
    fn nvmlDeviceGetComputeRunningProcesses(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_v1_t>
    ) list(call, ProcessKind::Compute, count, infos, info_v1);
    fn nvmlDeviceGetComputeRunningProcesses_v2(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_t>
    ) list(call, ProcessKind::Compute, count, infos, info);
    fn nvmlDeviceGetComputeRunningProcesses_v3(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_t>
    ) list(call, ProcessKind::Compute, count, infos, info);

    fn nvmlDeviceGetGraphicsRunningProcesses(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_v1_t>
    ) list(call, ProcessKind::Graphics, count, infos, info_v1);
    fn nvmlDeviceGetGraphicsRunningProcesses_v2(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_t>
    ) list(call, ProcessKind::Graphics, count, infos, info);
    fn nvmlDeviceGetGraphicsRunningProcesses_v3(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_t>
    ) list(call, ProcessKind::Graphics, count, infos, info);

    fn nvmlDeviceGetMPSComputeRunningProcesses(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_v1_t>
    ) list(call, ProcessKind::Mps, count, infos, info_v1);
    fn nvmlDeviceGetMPSComputeRunningProcesses_v2(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_t>
    ) list(call, ProcessKind::Mps, count, infos, info);
    fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
        call, count: InOut<'_, u32>, infos: Array<nvmlProcessInfo_t>
    ) list(call, ProcessKind::Mps, count, infos, info);
}

device_functions! {
    fn nvmlDeviceGetProcessUtilization(
        call, samples: Array<nvmlProcessUtilizationSample_t>, count: InOut<'_, u32>, last_seen: u64
    ) {
        reject_mig(call)?;
        let shares = call.device.process_shares(call.session.instant(last_seen), call.now);
        if shares.is_empty() {
            return Err(ErrorCode::NotFound);
        }
        samples.fill(count, call.wrong_count(), shares.into_iter().map(|share| nvmlProcessUtilizationSample_t {
            pid: share.pid,
            timeStamp: call.session.stamp(share.at),
            smUtil: share.busy,
            memUtil: 0,
            encUtil: 0,
            decUtil: 0,
        }))
    };
}

fn list<T>(
    call: &Call<'_>,
    kind: ProcessKind,
    count: InOut<'_, u32>,
    infos: Array<T>,
    info: impl Fn(&Process) -> T,
) -> NvmlResult {
    let is_listed = |process: &&Process| {
        let is_on_it = call.instance.is_none_or(|it| process.gpu_instance == Some(it.gpu_instance));
        process.kind == kind && is_on_it
    };
    let listed: Vec<T> =
        call.device.processes(call.now).iter().filter(is_listed).map(info).collect();
    infos.fill(count, call.wrong_count(), listed.into_iter())
}

fn info_v1(process: &Process) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: process.pid, usedGpuMemory: memory(process) }
}

fn info(process: &Process) -> nvmlProcessInfo_t {
    nvmlProcessInfo_t {
        pid: process.pid,
        usedGpuMemory: memory(process),
        gpuInstanceId: process.gpu_instance.unwrap_or(NO_INSTANCE),
        computeInstanceId: process.gpu_instance.map_or(NO_INSTANCE, |_| 0),
    }
}

fn memory(process: &Process) -> u64 {
    process.memory.map_or(MEMORY_UNKNOWN, Bytes::get)
}
