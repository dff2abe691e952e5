//! Notices of the cloud in a live run, with the work that is not saved.

use phasemeter_engine::pipeline::PipelineError;
use phasemeter_engine::work::UnsavedWork;
use phasemeter_otlp::encode::{InterruptionEvent, UnsavedWorkCost};

use super::Live;

impl Live {
    /// Exports an interruption, with the work that is not saved.
    pub(in crate::command) fn interrupt(
        &mut self,
        event: InterruptionEvent,
    ) -> Result<(), PipelineError> {
        self.work.take(&mut self.pipeline);
        let unsaved = self.work.unsaved(self.start, event.at);
        let unsaved = unsaved.map(|UnsavedWork { since, until, work, .. }| {
            let duration = until.since(since);
            let cost = self.pipeline.cost_of(duration);
            UnsavedWorkCost { duration, cost, work: work.into_iter().collect() }
        });
        self.pipeline.export_interruption(&InterruptionEvent { unsaved, ..event })
    }
}
