//! A live run that has ended, and what its report states beside the bill.

use phasemeter_engine::pipeline::Finished;
use phasemeter_meter::reading::GpuIdentity;

use super::metering::Provenance;

/// A live run that has ended.
pub(super) struct FinishedRun {
    /// What was metered.
    pub(super) run: Finished,
    /// The GPUs, as metered.
    pub(super) gpus: Vec<GpuIdentity>,
    /// What the report states beside the bill, except for the delivery.
    pub(super) provenance: Provenance,
}
