//! What the encoders of one GPU share: its meter, its attributes, its place in the trace.

use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::Timestamp;

use super::gpu_attributes::GpuAttributes;
use super::values::Start;
use crate::experiment::{Experiment, GpuKey, SpanPlacement};

/// One GPU at the instant of an export.
#[derive(Debug)]
pub(super) struct GpuSnapshot<'a> {
    pub(super) attributes: &'a GpuAttributes,
    pub(super) meter: &'a GpuMeter,
    /// The number of its host; `None` if another program exports its hardware.
    pub(super) host: Option<usize>,
    /// The previous export; for the first export, the first reading.
    pub(super) since: Timestamp,
    /// The start of its span.
    pub(super) first: Timestamp,
}

impl GpuSnapshot<'_> {
    /// The start of its sums.
    pub(super) const fn start(&self) -> Start {
        Start::at(self.first)
    }

    /// Whether its time has a price.
    pub(super) fn is_priced(&self) -> bool {
        self.attributes.is_priced() && self.meter.rate().is_some()
    }

    /// The last reading since the previous export: an instantaneous value is exported once.
    pub(super) fn last_reading(&self) -> Option<&Reading> {
        self.meter.last_reading().filter(|reading| reading.at >= self.since)
    }

    /// Whether the GPU has responded since the previous export. If not, nothing about it is known to hold now.
    pub(super) fn responds(&self) -> bool {
        let last = self.last_reading();
        last.is_some_and(|reading| reading.utilization != Err(MissingReason::Lost))
    }
}

/// The trace that a GPU's exemplars refer to.
#[derive(Debug)]
pub(super) struct TraceContext<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) gpu: &'a GpuKey,
    pub(super) session: &'a SpanPlacement,
}
