//! A live run that has ended, and what its report states beside the bill.

use phasemeter_meter::reading::GpuIdentity;

use crate::pipeline::Finished;
use crate::report::{Attribution, InterruptionLog, WorkByHour};

/// A live run that has ended.
pub(super) struct FinishedRun {
    /// What was metered.
    pub(super) run: Finished,
    /// The GPUs, as metered.
    pub(super) gpus: Vec<GpuIdentity>,
    /// Quality of sampling, each a sentence without its full stop.
    pub(super) sampling: Vec<String>,
    /// How the bill is divided among spans of the command, if it is.
    pub(super) attribution: Option<Attribution>,
    /// Limits of what policies evaluated, in the same form.
    pub(super) assumptions: Vec<String>,
    /// Work that the workload reported.
    pub(super) work_by_hour: WorkByHour,
    /// What the cloud announced.
    pub(super) interruptions: InterruptionLog,
}
