//! The exporter: converts what the meters of an experiment report into requests.
//!
//! It holds spans and points until they fill a request, and requests until they are fetched: memory
//! does not grow with the length of the run.

mod events;
mod points;
mod rounds;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::alert::AlertChange;
use phasemeter_meter::gpu::{GpuMeter, Observer};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallTime;
use phasemeter_meter::work_group::WorkGroup;

use self::rounds::Rounds;
use super::attribution::{AttributionPoints, DividedCost};
use super::claim::{Claim, ClaimKind, Outgoing};
use super::command::CommandExit;
use super::delta::LastTotals;
use super::events::Event;
use super::experiments::PricedExperiment;
use super::gpu::{GpuExport, Session};
use super::gpu_attributes::GpuDescription;
use super::hosts::Hosts;
use super::policies::{ActiveRecommendations, ReportedRecommendations};
use super::served_cost::ServedCost;
use super::settings::ExportSettings;
use super::spans::{self, MAX_SPANS, SpanDescription, SpanTotals};
use super::values::{number, text, workload_resource};
use super::work::WorkPoints;
use crate::experiment::{Attributes, Experiment, GpuKey, SpanPlacement, gpu_id};
use crate::names::attribute;
use crate::request::Request;

/// Maximum size of an encoded request: a quarter of what gRPC servers accept by default, and of the
/// queue.
const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Builds requests from the meters of one experiment.
///
/// Each GPU is [begun](Self::begin), [observed](Self::observe) by its meter, and [ended](Self::end)
/// when its meter has finished; [`Self::finish`] ends the experiment. After each step
/// [`Self::outgoing`] returns what is ready.
#[derive(Debug)]
pub struct Exporter {
    experiment: Experiment,
    settings: ExportSettings,
    /// The wall time of what is exported.
    wall: WallTime,
    last_totals: LastTotals,
    /// The resources of hardware.
    hosts: Hosts,
    workload: Resource,
    /// Number of GPUs per ID so far.
    gpu_counts: BTreeMap<String, u64>,
    /// The wire IDs in use.
    taken: BTreeSet<String>,
    /// The wire ID of each GPU, in the order in which they began.
    wire_ids: Vec<String>,
    /// The recommendations and errors exported so far.
    reported: ReportedRecommendations,
    active: ActiveRecommendations,
    /// How the command ended, once it has.
    command: Option<CommandExit>,
    /// Totals of the sessions that ended, in wall time.
    ended: Option<SpanTotals>,
    work: WorkPoints,
    /// The cost of time without an experiment, if any began during the run.
    unattributed: Option<NanoUsd>,
    attribution: AttributionPoints,
    /// The cost of all GPUs in the rounds that have left; `None` if any is unpriced.
    cost: Option<NanoUsd>,
    spans: Vec<Span>,
    rounds: Rounds,
    ready: VecDeque<Outgoing>,
}

impl Exporter {
    /// Starts an experiment. `hardware` is the resource of the GPUs as hardware, of which no host is known.
    #[must_use]
    pub fn new(experiment: Experiment, hardware: &Attributes, settings: ExportSettings) -> Self {
        Self {
            rounds: Rounds::new(settings.every, settings.metrics),
            settings,
            wall: WallTime::default(),
            last_totals: LastTotals::default(),
            hosts: Hosts::new(hardware),
            workload: workload_resource(&experiment.attributes),
            experiment,
            gpu_counts: BTreeMap::new(),
            taken: BTreeSet::new(),
            wire_ids: Vec::new(),
            reported: ReportedRecommendations::default(),
            active: ActiveRecommendations::default(),
            command: None,
            ended: None,
            work: WorkPoints::default(),
            unattributed: None,
            attribution: AttributionPoints::default(),
            cost: Some(NanoUsd::ZERO),
            spans: Vec::new(),
            ready: VecDeque::new(),
        }
    }

    /// The experiment.
    #[must_use]
    pub const fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Starts a GPU.
    pub fn begin(&mut self, gpu: &GpuDescription) -> GpuExport {
        let identity = gpu.identity;
        let id = gpu_id(identity);
        let count = self.gpu_counts.entry(id.clone()).or_default();
        let key = GpuKey { id, ordinal: *count };
        *count += 1;
        // An index is unique on its host only.
        let index = identity.index.filter(|_| identity.host().is_none());
        let wire_id = identity
            .uuid
            .clone()
            .or_else(|| index.map(|index| index.to_string()))
            .filter(|id| !self.taken.contains(id))
            .unwrap_or_else(|| identity.name.clone());
        self.taken.insert(wire_id.clone());
        self.wire_ids.push(wire_id.clone());
        let host = self.hosts.number(&identity.attributes);
        GpuExport::new(self.rounds.add_gpu(), key, wire_id, host, gpu, self.settings.by_holder)
    }

    /// The observer of this GPU's meter.
    pub const fn observe<'a>(&'a mut self, gpu: &'a mut GpuExport) -> GpuObserver<'a> {
        GpuObserver { exporter: self, gpu }
    }

    /// Records how the cost of GPUs has been divided so far among spans of the workload.
    pub const fn set_attribution(&mut self, costs: DividedCost) {
        self.attribution.set(costs);
    }

    /// Ends a GPU whose meter has finished.
    pub fn end(&mut self, gpu: GpuExport) {
        self.rounds.end(gpu.index);
        let id = gpu.id();
        if let Some(session) = gpu.session {
            self.close(&session, id);
        }
    }

    /// Leaves out costs per unit of work: other meters have a part of the GPUs that did it.
    pub const fn leave_out_unit_costs(&mut self) {
        self.work.leave_out_unit_costs();
    }

    /// Records work of a group that was done at this instant.
    pub fn record_work(
        &mut self,
        at: Timestamp,
        unit: &'static str,
        group: &WorkGroup,
        count: u64,
    ) {
        self.work.record(at, unit, group, count);
    }

    /// Exports an experiment that began and ended during the run.
    pub fn experiment_ended(&mut self, ended: &PricedExperiment<'_>) {
        // A parent is in another process unless it is the run's own span.
        let own = self.experiment.innermost();
        let parent = ended.placement.parent.filter(|parent| own != Some(*parent));
        let id = ended.id.to_owned();
        let experiment = Experiment { id, parent, ..self.experiment.clone() };
        let accounts = Accounts::default();
        let totals = SpanTotals { from: ended.from, to: ended.to, accounts, priced: false };
        let totals = totals.labeled(&self.wall);
        let description = SpanDescription::new("experiment", ended.attributes());
        if ended.placement.span.flags.is_sampled() {
            let limits = &self.settings.limits;
            let span = spans::span(&experiment, ended.placement, description, &totals, limits);
            self.spans.push(span);
            if self.spans.len() >= MAX_SPANS {
                self.flush_spans();
            }
        }
    }

    /// Records what the time without an experiment cost, if any began during the run.
    pub const fn set_unattributed(&mut self, cost: NanoUsd) {
        self.unattributed = Some(cost);
    }

    /// Records how the experiment's command ended.
    pub fn end_command(&mut self, exit: CommandExit) {
        self.command = Some(exit);
    }

    /// Ends the experiment, and returns the remaining requests.
    pub fn finish(mut self) -> impl Iterator<Item = Outgoing> {
        let (at, last) = self.take_last_round();
        let mut last = last;
        self.work.add_points(at, self.cost, &mut last.batch);
        self.attribution.add_last_points(self.cost, &mut last.batch);
        self.active.add_points(&mut last.batch);
        if let (Some(mut totals), Some(placement)) =
            (self.ended.take(), self.experiment.placement())
        {
            totals.from = totals.from.min(self.experiment.first);
            let command = self.command.take();
            let mut attributes = command.as_ref().map(CommandExit::attributes).unwrap_or_default();
            attributes.extend(self.work.attributes(self.cost));
            let unattributed = self.unattributed.take();
            attributes.extend(
                unattributed.map(|cost| number(attribute::SPAN_UNATTRIBUTED, cost.as_f64())),
            );
            let description = SpanDescription {
                status: command.as_ref().and_then(CommandExit::status),
                ..SpanDescription::new("experiment", attributes)
            };
            self.push_span(&placement, description, &totals);
        }
        self.send(at, last);
        self.ready.into_iter()
    }

    /// Takes the requests that are ready, oldest first.
    pub fn outgoing(&mut self) -> impl Iterator<Item = Outgoing> {
        self.send_rounds();
        self.ready.drain(..)
    }

    fn end_phase(&mut self, span: &PhaseSpan, gpu: &mut GpuExport) {
        let totals = gpu.end_phase(span, self.settings.exemplars);
        if let Some(session) = &gpu.session {
            let (placement, name) =
                (session.placement.phase(&gpu.key, span.from), span.label.name());
            let attributes = vec![gpu.id(), text(attribute::PHASE, name)];
            let totals = totals.labeled(&self.wall);
            self.push_span(&placement, SpanDescription::new(name, attributes), &totals);
        }
    }

    /// Ends a session of a GPU.
    fn close(&mut self, session: &Session, gpu: KeyValue) {
        let description = SpanDescription::new("gpu session", vec![gpu]);
        let totals = session.totals.labeled(&self.wall);
        self.push_span(&session.placement, description, &totals);
        match &mut self.ended {
            Some(ended) => ended.join(&totals),
            None => self.ended = Some(totals),
        }
    }

    fn push_span(
        &mut self,
        placement: &SpanPlacement,
        description: SpanDescription,
        totals: &SpanTotals,
    ) {
        if placement.span.flags.is_sampled() {
            let limits = &self.settings.limits;
            let span = spans::span(&self.experiment, placement, description, totals, limits);
            self.spans.push(span);
            if self.spans.len() >= MAX_SPANS {
                self.flush_spans();
            }
        }
    }

    fn flush_spans(&mut self) {
        if !self.spans.is_empty() {
            let spans = std::mem::take(&mut self.spans);
            self.push(Request::Traces(spans::request(spans, &self.workload)), None);
        }
    }

    fn push(&mut self, request: Request, claims: Option<(ClaimKind, Vec<Claim>)>) {
        self.ready.push_back(Outgoing { requests: request.split(MAX_REQUEST_BYTES), claims });
    }
}

/// The observer of one GPU's meter.
#[derive(Debug)]
pub struct GpuObserver<'a> {
    exporter: &'a mut Exporter,
    gpu: &'a mut GpuExport,
}

impl GpuObserver<'_> {
    /// Adds what its time costs by group of work, before the boundary up to which it is.
    pub fn add_served(&mut self, cost: &ServedCost) {
        self.gpu.served += cost;
    }
}

impl Observer for GpuObserver<'_> {
    fn begin(&mut self, at: Timestamp) {
        self.exporter.work.begin(at);
        self.exporter.attribution.begin(at);
        self.exporter.rounds.begin(self.gpu.index, at);
        self.gpu.begin(at, &self.exporter.experiment);
    }

    fn reading(&mut self, reading: &Reading) {
        self.exporter.rounds.reach(self.gpu.index, reading.at);
        self.gpu.record(reading, self.exporter.settings.exemplars);
    }

    fn span(&mut self, span: &PhaseSpan) {
        self.exporter.end_phase(span, self.gpu);
    }

    fn boundary(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.exporter.add_points(at, gpu, self.gpu);
    }

    fn end(&mut self, at: Timestamp, gpu: &GpuMeter) {
        self.exporter.add_last_points(at, gpu, self.gpu);
    }

    fn alert(&mut self, change: &AlertChange<'_>) {
        let session = self.gpu.session.as_ref().map(|session| session.placement.span);
        let context = session.or_else(|| self.exporter.experiment.context());
        let event = Event::from_alert(change, self.gpu.id());
        self.exporter.export_events(vec![event], change.at, context);
    }

    fn session(&mut self, at: Timestamp) {
        if let Some(session) = self.gpu.next_session(at, &self.exporter.experiment) {
            self.exporter.close(&session, self.gpu.id());
        }
    }
}
