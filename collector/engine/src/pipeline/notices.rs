//! Export of notices that the cloud will interrupt the machine.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::InterruptionEvent;

use super::{Pipeline, PipelineError};

impl Pipeline<'_> {
    /// What all GPUs cost in this time at their current prices; `None` if any is unpriced.
    #[must_use]
    pub fn cost_of(&self, time: Nanos) -> Option<NanoUsd> {
        self.gpus.iter().map(|gpu| Some(gpu.meter.rate()?.cost(time))).sum()
    }

    /// Exports a notice.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn export_interruption(&mut self, event: &InterruptionEvent) -> Result<(), PipelineError> {
        self.leave(|this| {
            this.exporter.iter_mut().for_each(|exporter| exporter.interruption(event));
        })
    }
}
