//! Who is on a device, and what they did.

use nvml_wrapper_sys::bindings::{
    nvmlProcessInfo_t, nvmlProcessInfo_v1_t, nvmlProcessUtilizationSample_t,
};
use phasemeter_meter::units::Bytes;

use super::call::{Call, device_functions};
use super::raw::{Answer, Array, InOut};
use super::readings::refuse_on_mig;
use crate::refusal::Refusal;
use crate::track::{Process, ProcessKind};

/// What the driver writes where it does not know how much memory a process holds.
const MEMORY_UNKNOWN: u64 = u64::MAX;

/// What it writes where there is no partition.
const NO_INSTANCE: u32 = u32::MAX;

device_functions! {
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

    fn nvmlDeviceGetProcessUtilization(
        call, samples: Array<nvmlProcessUtilizationSample_t>, count: InOut<'_, u32>, last_seen: u64
    ) {
        refuse_on_mig(call)?;
        let shares = call.device.process_shares(call.session.instant(last_seen), call.now);
        if shares.is_empty() {
            return Err(Refusal::NotFound);
        }
        samples.fill(count, shares.into_iter().map(|share| nvmlProcessUtilizationSample_t {
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
) -> Answer {
    let processes = call.device.processes(call.now).iter();
    let listed: Vec<T> = processes.filter(|process| process.kind == kind).map(info).collect();
    infos.fill(count, listed.into_iter())
}

fn info_v1(process: &Process) -> nvmlProcessInfo_v1_t {
    nvmlProcessInfo_v1_t { pid: process.pid, usedGpuMemory: memory(process) }
}

fn info(process: &Process) -> nvmlProcessInfo_t {
    nvmlProcessInfo_t {
        pid: process.pid,
        usedGpuMemory: memory(process),
        gpuInstanceId: NO_INSTANCE,
        computeInstanceId: NO_INSTANCE,
    }
}

fn memory(process: &Process) -> u64 {
    process.memory.map_or(MEMORY_UNKNOWN, Bytes::get)
}
