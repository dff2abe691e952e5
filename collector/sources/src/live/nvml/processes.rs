//! The processes that compute on a GPU: their number, their IDs, and what each uses.

use std::collections::BTreeMap;

use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessUtilizationSample;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Nanos, Timestamp, Utilization};

use super::value::from_percent;
use crate::live::{ProcessUse, QueryError};

/// How often processes are listed while their number stays the same.
const LIST_PERIOD: Nanos = Nanos::from_secs(10);

/// The processes on a GPU, as last listed.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Their number when they were listed, and when that was.
    listed: Option<(u32, Timestamp)>,
    /// When their use was last queried, and the driver's timestamp of the newest sample then.
    used: Option<(Timestamp, Option<u64>)>,
}

impl Processes {
    /// Counts the processes, and emits the ID of each if their number has changed since they were
    /// listed, or if that was 10 s ago (`nvmlDeviceGetComputeRunningProcesses`). The driver counts
    /// processes in the host's PID namespace.
    pub(super) fn query(
        &mut self,
        device: &Device<'_>,
        at: Timestamp,
        emit: impl FnMut(u32),
    ) -> Result<u32, QueryError> {
        let count = device.running_compute_processes_count()?;
        let is_listed = |(number, listed)| number == count && at.since(listed) < LIST_PERIOD;
        if !self.listed.is_some_and(is_listed)
            // Their number is known even if their IDs are not.
            && let Ok(processes) = device.running_compute_processes()
        {
            self.listed = Some((count, at));
            processes.into_iter().map(|process| process.pid).for_each(emit);
        }
        Ok(count)
    }

    /// Emits what each process has used since the last call (`nvmlDeviceGetProcessUtilization`). A process that is
    /// alone has used all: the driver is not asked, since the call takes milliseconds.
    pub(super) fn query_use(
        &mut self,
        device: &Device<'_>,
        at: Timestamp,
        mut emit: impl FnMut(ProcessUse),
    ) -> Result<(), QueryError> {
        let last = self.used.take();
        let stamp = last.and_then(|(_, stamp)| stamp);
        let processes = device.running_compute_processes()?;
        let samples = match processes.as_slice() {
            [] | [_] => Vec::new(),
            _ => match device.process_utilization_stats(stamp) {
                Err(NvmlError::NotFound) => Vec::new(),
                samples => samples?,
            },
        };
        let newest = samples.iter().map(|sample| sample.timestamp).max();
        self.used = Some((at, newest.or(stamp)));
        let Some((from, _)) = last.filter(|(from, _)| *from < at) else { return Ok(()) };
        let means = means(&samples);
        let is_alone = processes.len() == 1;
        for process in processes {
            let mean = means.get(&process.pid).copied();
            // Those without samples were idle.
            let utilization = if is_alone { Utilization::FULL } else { mean.unwrap_or_default() };
            emit(ProcessUse { pid: process.pid, from, to: at, utilization });
        }
        Ok(())
    }
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
