//! Experiments that the workload begins, tags and ends, and their export once their cost is final.

use phasemeter_attribution::SpanCost;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::{PricedExperiment, PricedTime};
use phasemeter_otlp::experiment::TraceParent;

use super::experiments::{Experiments, RunExperiment};
use super::{EndedExperiment, ExperimentState, Pipeline, PipelineError};

impl Pipeline<'_> {
    /// Begins an experiment of this writer at this instant, in the given trace context if any; the one
    /// before ends.
    pub fn begin_experiment(
        &mut self,
        writer: u64,
        at: Timestamp,
        id: String,
        given: Option<TraceParent>,
    ) {
        self.stop_changes(super::OtherChange::Experiment);
        let ExperimentState::Open(run) = &self.experiment else { return };
        let placement = run.nested(given);
        for gpu in &mut self.gpus {
            gpu.charges.get_or_insert_default();
        }
        self.ended.get_or_insert_default();
        let experiments = self.experiments.get_or_insert_with(Experiments::new);
        let tags = Vec::new();
        experiments.begin(writer, RunExperiment { id, placement, tags, from: at, to: at });
    }

    /// Adds an attribute of the workload that was found during the run, to the report and to windows: what is exported
    /// keeps its resource. Returns whether it was added; it is not if the workload has it.
    pub fn identify(&mut self, key: &str, value: &str) -> bool {
        let ExperimentState::Open(run) = &mut self.experiment else { return false };
        let is_new = !run.attributes.contains_key(key);
        if is_new {
            run.attributes.insert(key.to_owned(), value.to_owned());
        }
        is_new
    }

    /// Removes an attribute that was added.
    pub fn forget(&mut self, key: &str) {
        if let ExperimentState::Open(run) = &mut self.experiment {
            run.attributes.remove(key);
        }
    }

    /// Adds a tag to the experiment of this writer.
    pub fn tag_experiment(&mut self, writer: u64, key: String, value: String) {
        if let Some(experiments) = &mut self.experiments {
            experiments.tag(writer, key, value);
        }
    }

    /// Ends the experiment of this writer, if there is one.
    pub fn end_experiment(&mut self, writer: u64, at: Timestamp) {
        if let Some(experiments) = &mut self.experiments {
            experiments.end(writer, at);
        }
    }

    /// Exports the experiments whose cost is final at this instant.
    ///
    /// # Errors
    /// Returns an error if a request cannot be written.
    pub fn advance_experiments(&mut self, now: Timestamp) -> Result<(), PipelineError> {
        self.distribute_charges();
        let priced = self.experiments.as_mut().map(|experiments| experiments.advance(now));
        priced.into_iter().flatten().for_each(|(experiment, cost)| self.export(&experiment, cost));
        self.send()
    }

    /// Exports all experiments at the end of the run, and what none of them cost.
    pub(super) fn finish_experiments(&mut self, end: Timestamp) {
        self.distribute_charges();
        let Some(experiments) = self.experiments.take() else { return };
        let bills = self.gpus.iter().map(|gpu| gpu.meter.charged());
        let bill = SpanCost { cost: bills.sum(), ..SpanCost::default() };
        let (priced, unattributed) = experiments.finish(end, bill);
        priced.into_iter().for_each(|(experiment, cost)| self.export(&experiment, cost));
        self.ended.get_or_insert_default().unattributed = unattributed.cost;
        if self.is_all_priced()
            && let Some(exporter) = &mut self.exporter
        {
            exporter.set_unattributed(unattributed.cost);
        }
    }

    fn export(&mut self, experiment: &RunExperiment, cost: SpanCost) {
        let span = experiment.placement.span;
        self.ended.get_or_insert_default().add(EndedExperiment {
            id: experiment.id.clone(),
            trace_id: span.trace_id.to_string(),
            span_id: span.span_id.to_string(),
            tags: experiment.tags.clone(),
            from: experiment.from,
            to: experiment.to,
            gpu_time: cost.time,
            cost: cost.cost,
            utilization: cost.utilization(),
            joules: (cost.energy > 0).then(|| cost.joules()),
        });
        let is_priced = self.is_all_priced();
        let Some(exporter) = &mut self.exporter else { return };
        exporter.experiment_ended(&PricedExperiment {
            id: &experiment.id,
            placement: &experiment.placement,
            tags: &experiment.tags,
            from: experiment.from,
            to: experiment.to,
            time: priced_time(&cost, is_priced),
        });
    }

    fn is_all_priced(&self) -> bool {
        (0..self.gpus.len()).all(|gpu| self.is_priced(gpu))
    }
}

/// The part of the cost of GPUs that a span has, to be exported.
#[must_use]
pub fn priced_time(cost: &SpanCost, is_priced: bool) -> PricedTime {
    PricedTime {
        gpu_time: cost.time,
        cost: is_priced.then_some(cost.cost),
        utilization: cost.utilization(),
        joules: (cost.energy > 0).then(|| cost.joules()),
    }
}
