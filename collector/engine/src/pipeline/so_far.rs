//! What a run has metered so far, as if it ended now.

use std::mem;

use phasemeter_meter::units::Timestamp;

use super::Pipeline;
use super::finish::Finished;
use super::opening::ExperimentState;
use crate::policies::PolicyResults;

impl Pipeline<'_> {
    /// Reads the run as if it ended at `at`: of each GPU all that is known by then. The run itself goes on. `None` if its
    /// experiment has not begun.
    pub fn so_far<T>(&mut self, at: Timestamp, read: impl FnOnce(&Finished) -> T) -> Option<T> {
        let ExperimentState::Open(experiment) = &self.experiment else { return None };
        let mut run = Finished {
            experiment: experiment.clone(),
            gpus: mem::take(&mut self.gpus),
            pricing: self.pricing.take(),
            alerts: self.alerts.clone(),
            results: PolicyResults::default(),
            wall: self.wall.offset(),
            work: self.work.clone(),
            work_by_group: self.work_by_group.clone(),
            has_unit_costs: self.has_unit_costs,
            gaps: self.gaps.clone(),
            experiments: self.ended.clone(),
        };
        let mut meters = Vec::with_capacity(run.gpus.len());
        for gpu in &mut run.gpus {
            meters.push(gpu.meter.clone());
            gpu.meter.finish_at(at, &mut ());
        }
        let result = read(&run);
        let Finished { gpus, pricing, .. } = run;
        (self.gpus, self.pricing) = (gpus, pricing);
        for (gpu, meter) in self.gpus.iter_mut().zip(meters) {
            gpu.meter = meter;
        }
        Some(result)
    }
}
