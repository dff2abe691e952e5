//! The processes that compute on a GPU: their number, and their IDs.

use crate::live::QueryError;
use nvml_wrapper::Device;
use phasemeter_meter::units::{Nanos, Timestamp};

/// How often processes are listed while their number stays the same.
const LIST_PERIOD: Nanos = Nanos::from_secs(10);

/// The processes on a GPU, as last listed.
#[derive(Debug, Default)]
pub(super) struct Processes {
    /// Their number when they were listed, and when that was.
    listed: Option<(u32, Timestamp)>,
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
}
