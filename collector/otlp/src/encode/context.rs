//! What the encoders of one GPU share: its meter, its attributes, its place in the trace.

use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::Timestamp;

use super::labels::Labels;
use super::values::When;
use crate::experiment::{Experiment, GpuKey, Place};

/// What there is to tell of a GPU at one instant.
#[derive(Debug)]
pub(super) struct Export<'a> {
    pub(super) labels: &'a Labels,
    pub(super) meter: &'a GpuMeter,
    pub(super) summary: Summary,
    /// The first reading, where sums begin.
    pub(super) start: Timestamp,
    /// The export before; at first, the first reading.
    pub(super) since: Timestamp,
    /// The times of a sum.
    pub(super) when: When,
}

/// Where a GPU stands in the trace.
#[derive(Debug)]
pub(super) struct Trace<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) gpu: &'a GpuKey,
    pub(super) session: &'a Place,
}
