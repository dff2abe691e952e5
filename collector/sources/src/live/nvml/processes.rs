//! The processes that compute on a GPU: their number, their IDs, and what each uses.
//!
//! Clients of the multi-process service are processes, too. A driver may list one of them in both of its lists.

use std::collections::{BTreeMap, BTreeSet};

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::{ProcessInfo, ProcessUtilizationSample};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};
use phasemeter_nvml_calls::{bounded, compute_processes, mps_processes, process_utilization};

use super::value::from_percent;
use crate::live::{ComputeProcess, ProcessUse, QueryError};

/// How often processes are listed while their number stays the same.
const LIST_PERIOD: Nanos = Nanos::from_secs(10);

/// Drivers sample what processes use at least this often: without a sample in it, all were idle.
const SAMPLE_PERIOD: Nanos = Nanos::SECOND;

/// The processes on a GPU, as last listed.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Their number when they were listed, without clients of the multi-process service only, and when that was.
    listed: Option<(u32, Timestamp)>,
    /// The clients of the multi-process service that are in no other list, as last listed.
    clients: BTreeSet<u32>,
    /// The last query of what they used.
    used: Option<UseQuery>,
}

/// A query of what processes used.
#[derive(Debug)]
struct UseQuery {
    at: Timestamp,
    /// The driver's timestamp of the newest sample so far.
    stamp: Option<u64>,
    /// The processes that were listed then.
    listed: BTreeSet<u32>,
}

impl Processes {
    /// Counts the processes, and emits each if their number has changed since they were listed, or if that was 10 s ago
    /// (`nvmlDeviceGetComputeRunningProcesses`, `nvmlDeviceGetMPSComputeRunningProcesses`). The driver counts processes
    /// in the host's PID namespace.
    pub(super) fn query(
        &mut self,
        device: &Device<'_>,
        at: Timestamp,
        emit: impl FnMut(ComputeProcess),
    ) -> Result<u32, QueryError> {
        let count = bounded(device.running_compute_processes_count()?)?;
        let is_listed = |(number, listed)| number == count && at.since(listed) < LIST_PERIOD;
        if !self.listed.is_some_and(is_listed)
            // Their number is known even if their IDs are not.
            && let Ok(processes) = list(device)
        {
            self.listed = Some((count, at));
            self.clients = processes.clients;
            processes.all.into_iter().for_each(emit);
        }
        Ok(count.saturating_add(u32::try_from(self.clients.len()).unwrap_or(u32::MAX)))
    }

    /// Emits what each process has used since the last call (`nvmlDeviceGetProcessUtilization`). A process that is
    /// alone has used all: the driver is not queried, since the call takes milliseconds.
    pub(super) fn query_use(
        &mut self,
        device: &Device<'_>,
        at: Timestamp,
        mut emit: impl FnMut(ProcessUse),
    ) -> Result<(), QueryError> {
        let last = self.used.take();
        let stamp = last.as_ref().and_then(|last| last.stamp);
        let running = compute_processes(device)?.into_iter().map(|process| process.pid);
        let listed: BTreeSet<u32> = running.chain(self.clients.iter().copied()).collect();
        // One that has ended since was there for a part of the time.
        let ended = last.iter().flat_map(|last| last.listed.iter().copied());
        let all: BTreeSet<u32> = ended.chain(listed.iter().copied()).collect();
        let samples = if all.len() > 1 {
            match process_utilization(device, stamp.unwrap_or(0)) {
                Err(NvmlError::NotFound) => Vec::new(),
                samples => samples?,
            }
        } else {
            Vec::new()
        };
        if let Some(last) = &last
            && all.len() > 1
            && samples.is_empty()
            && at.since(last.at) < SAMPLE_PERIOD
        {
            self.used = Some(UseQuery { at: last.at, stamp, listed: all });
            return Ok(());
        }
        let stamp = samples.iter().map(|sample| sample.timestamp).max().or(stamp);
        self.used = Some(UseQuery { at, stamp, listed });
        let Some(UseQuery { at: from, .. }) = last.filter(|last| last.at < at) else {
            return Ok(());
        };
        let (means, is_alone) = (means(&samples), all.len() == 1);
        for pid in all {
            // Those without samples were idle, or have ended: what they used then is nobody's.
            let mean = means.get(&pid).copied().unwrap_or_default();
            let utilization = if is_alone { Utilization::FULL } else { mean };
            emit(ProcessUse { pid, from, to: at, utilization });
        }
        Ok(())
    }
}

/// Processes as the driver lists them.
struct Listed {
    /// All, each once.
    all: Vec<ComputeProcess>,
    /// Those that only the list of the multi-process service has.
    clients: BTreeSet<u32>,
}

/// Lists the processes of a GPU or MIG instance.
fn list(device: &Device<'_>) -> Result<Listed, NvmlError> {
    let mut all: BTreeMap<u32, Option<u32>> = BTreeMap::new();
    for ProcessInfo { pid, gpu_instance_id, .. } in compute_processes(device)? {
        let known = all.entry(pid).or_default();
        *known = known.or(gpu_instance_id);
    }
    let mut clients = BTreeSet::new();
    // Old drivers and old GPUs have no such list.
    for process in mps_processes(device).unwrap_or_default() {
        all.entry(process.pid).or_insert_with(|| {
            clients.insert(process.pid);
            process.gpu_instance_id
        });
    }
    let process = |(pid, gpu_instance)| ComputeProcess { pid, gpu_instance };
    Ok(Listed { all: all.into_iter().map(process).collect(), clients })
}

/// The processes of a MIG instance; none if the driver does not list them.
pub(super) fn of_instance(device: &Device<'_>, gpu_instance: Option<u32>) -> Vec<ComputeProcess> {
    let all = list(device).map(|listed| listed.all).unwrap_or_default();
    all.into_iter().map(|process| ComputeProcess { gpu_instance, ..process }).collect()
}

/// The mean of the samples of each process. Drivers return one each, the mean since the given timestamp.
fn means(samples: &[ProcessUtilizationSample]) -> BTreeMap<u32, Utilization> {
    let mut sums: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for sample in samples {
        if let Some(utilization) = from_percent(Quantity::Utilization, sample.sm_util) {
            let (sum, count) = sums.entry(sample.pid).or_default();
            *sum = sum.saturating_add(utilization.ppm());
            *count += 1;
        }
    }
    let mean = |(pid, (sum, count)): (u32, (u32, u32))| {
        Some((pid, Utilization::from_ppm(sum.checked_div(count)?)?))
    };
    sums.into_iter().filter_map(mean).collect()
}
