//! Experiments that begin and end during a run, each priced by the time that is its own.

use std::collections::BTreeMap;

use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, HolderKeys, Limits, Release, SpanCost, SpanKey,
};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::SpanPlacement;

/// How late a report is processed at most; by then time is divided.
const ALLOWED_LATENESS: Nanos = Nanos::from_secs(1);

/// Tags of an experiment.
const MAX_TAGS: usize = 64;

/// An experiment of the workload.
#[derive(Clone, Debug)]
pub(super) struct RunExperiment {
    pub(super) id: String,
    pub(super) placement: SpanPlacement,
    pub(super) tags: Vec<(String, String)>,
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

/// The experiments of a run.
#[derive(Debug)]
pub(super) struct Experiments {
    attribution: Attribution<SpanKey>,
    /// How many GPUs it has.
    gpus: usize,
    /// The open experiment of each writer.
    open: BTreeMap<u64, SpanKey>,
    /// Those that wait for their cost, or are open.
    experiments: BTreeMap<SpanKey, RunExperiment>,
}

impl Experiments {
    pub(super) fn new() -> Self {
        let limits = Limits { allowed_lateness: ALLOWED_LATENESS, ..Limits::default() };
        Self {
            attribution: Attribution::new(limits),
            gpus: 0,
            open: BTreeMap::new(),
            experiments: BTreeMap::new(),
        }
    }

    /// Adds final time of the GPU at this index.
    pub(super) fn charge(&mut self, gpu: usize, slice: CostSlice) {
        while self.gpus <= gpu {
            self.attribution.add_gpu();
            self.gpus += 1;
        }
        self.attribution.charge(gpu, HolderKeys::NOBODY, slice);
    }

    /// Begins an experiment; the one before of the same writer ends.
    pub(super) fn begin(&mut self, writer: u64, experiment: RunExperiment) {
        let at = experiment.from;
        self.end(writer, at);
        let span = experiment.placement.span;
        let key = SpanKey { trace: *span.trace_id.as_bytes(), span: *span.span_id.as_bytes() };
        let parent = experiment.placement.parent.map(|parent| *parent.as_bytes());
        let chosen = ChosenSpan {
            key,
            parent,
            from: at,
            to: None,
            weight: None,
            adjusted_count: None,
            gpus: GpuSet::All,
        };
        let size = size_of::<RunExperiment>() + experiment.id.len();
        if self.attribution.begin(chosen, key, size, at).is_ok() {
            self.open.insert(writer, key);
            self.experiments.insert(key, experiment);
        }
    }

    /// Adds a tag to the open experiment of a writer.
    pub(super) fn tag(&mut self, writer: u64, key: String, value: String) {
        let open = self.open.get(&writer).and_then(|open| self.experiments.get_mut(open));
        let Some(RunExperiment { tags, .. }) = open else { return };
        if let Some((_, known)) = tags.iter_mut().find(|(known, _)| *known == key) {
            *known = value;
        } else if tags.len() < MAX_TAGS {
            tags.push((key, value));
        }
    }

    /// Ends the open experiment of a writer, if there is one.
    pub(super) fn end(&mut self, writer: u64, at: Timestamp) {
        if let Some(key) = self.open.remove(&writer)
            && let Some(experiment) = self.experiments.get_mut(&key)
        {
            experiment.to = at.max(experiment.from);
            self.attribution.end(key, experiment.to, at);
        }
    }

    /// Takes the experiments whose cost is final.
    pub(super) fn advance(&mut self, now: Timestamp) -> Vec<(RunExperiment, SpanCost)> {
        let mut released = Vec::new();
        self.attribution.advance(now, &mut |release| released.push(release));
        self.priced(released)
    }

    /// Ends all experiments at the end of the run. Returns them, and what no experiment has of this
    /// bill.
    pub(super) fn finish(
        mut self,
        end: Timestamp,
        bill: SpanCost,
    ) -> (Vec<(RunExperiment, SpanCost)>, SpanCost) {
        let writers: Vec<u64> = self.open.keys().copied().collect();
        writers.into_iter().for_each(|writer| self.end(writer, end));
        let mut released = Vec::new();
        self.attribution.finish(&mut |release| released.push(release));
        let attributed = self.attribution.attributed();
        (self.priced(released), bill - attributed)
    }

    fn priced(&mut self, released: Vec<Release<SpanKey>>) -> Vec<(RunExperiment, SpanCost)> {
        let cost = |release| match release {
            Release::Priced(key, cost) => Some((key, cost)),
            Release::Cost(span, cost) => Some((span.key, cost)),
            // Its span is exported once its cost is final.
            Release::Unpriced(_) => None,
        };
        let costs = released.into_iter().filter_map(cost);
        let experiments = &mut self.experiments;
        costs.filter_map(|(key, cost)| Some((experiments.remove(&key)?, cost))).collect()
    }
}
