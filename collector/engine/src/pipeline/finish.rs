//! The end of a run: what all GPUs have buffered is metered, one boundary after another.

use std::collections::BTreeMap;

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_otlp::experiment::Experiment;
use phasemeter_rules::window::Window;

use super::experiment_log::ExperimentLog;
use super::export::send;
use super::gpu::MeteredGpu;
use super::resumption::RunGap;
#[cfg(feature = "full")]
use super::run_part::RunPart;
use super::work::WorkByGroup;
use super::{Pipeline, PipelineError};
use crate::alert_rules::AlertRules;
use crate::policies::PolicyResults;
use crate::pricing::Pricing;

/// A completed run.
pub struct Finished {
    /// Its experiment.
    pub experiment: Experiment,
    /// Its GPUs in the order of the source.
    pub gpus: Vec<MeteredGpu>,
    /// Its prices.
    pub pricing: Pricing,
    /// Its rules for alerts.
    pub alerts: AlertRules,
    /// The results of recommenders.
    pub results: PolicyResults,
    /// The wall time at its end.
    pub wall: WallOffset,
    /// Work done, by unit.
    pub work: BTreeMap<String, u64>,
    /// The same by group, as far as it is counted.
    pub work_by_group: WorkByGroup,
    /// The work of the part of the run in whose place the parts of its GPUs are; `None`: it is the whole run.
    pub part_work: Option<BTreeMap<String, u64>>,
    /// The parts that were not taken.
    #[cfg(feature = "full")]
    pub(super) part: Option<RunPart>,
    /// Whether the bill is that of all GPUs that do the work.
    pub has_unit_costs: bool,
    /// Time between an earlier run and this one.
    pub gaps: Vec<RunGap>,
    /// The experiments that ended during the run, if any began.
    pub experiments: Option<ExperimentLog>,
}

impl Pipeline<'_> {
    /// Sets the end of the run, until which every GPU is billed. Later readings are ignored, except for
    /// those of the last poll.
    pub const fn end_at(&mut self, end: Timestamp) {
        self.end = Some(end);
    }

    /// Finalizes the meters, unless that is done: no time is charged after it.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn finish_gpus(&mut self, identities: &[GpuIdentity]) -> Result<(), PipelineError> {
        if std::mem::replace(&mut self.is_finished, true) {
            return Ok(());
        }
        self.open(identities);
        self.drain()?;
        let ends = self.end_spans(identities);
        ends.iter().enumerate().for_each(|(gpu, end)| self.reprice(gpu, end.at()));
        for (gpu, end) in self.gpus.iter_mut().zip(ends) {
            gpu.finish(end, self.exporter.as_mut());
            // The exports of a short log are all made here, and must not accumulate.
            send(&mut self.exporter, &mut self.export)?;
        }
        Ok(())
    }

    /// Finalizes the run. `evaluate` receives the final window, if any time was metered.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn finish(
        mut self,
        identities: &[GpuIdentity],
        evaluate: impl FnOnce(Option<Window>) -> PolicyResults,
    ) -> Result<Finished, PipelineError> {
        let experiment = self.open(identities);
        self.finish_gpus(identities)?;
        let reached = self.gpus.iter().filter_map(|gpu| gpu.meter.reached()).max();
        let end = reached.unwrap_or(experiment.first);
        #[cfg(feature = "full")]
        self.finish_experiments(end);
        let results = evaluate(self.window(identities, true));
        self.export_results(&results, identities, end)?;
        if let (Some(exporter), Some((_, sink))) = (self.exporter, &mut self.export) {
            exporter.finish().try_for_each(sink).map_err(PipelineError::Export)?;
        }
        let Self {
            gpus, pricing, alerts, work, work_by_group, has_unit_costs, gaps, ended, ..
        } = self;
        let (wall, experiments) = (self.wall.offset(), ended);
        Ok(Finished {
            experiment,
            gpus,
            pricing,
            alerts,
            results,
            wall,
            work,
            work_by_group,
            part_work: None,
            #[cfg(feature = "full")]
            part: self.part,
            has_unit_costs,
            gaps,
            experiments,
        })
    }

    /// Meters what all GPUs have buffered, one boundary after another, so that no GPU is exported ahead
    /// of another: a backend may reject what is older than the last request.
    fn drain(&mut self) -> Result<(), PipelineError> {
        loop {
            let next = self.gpus.iter().filter_map(|gpu| gpu.meter.next_boundary()).min();
            let Some(until) = next.filter(|until| *until < Timestamp::LAST) else { return Ok(()) };
            for gpu in &mut self.gpus {
                gpu.drain(until, self.exporter.as_mut());
                send(&mut self.exporter, &mut self.export)?;
            }
        }
    }
}
