//! Events: each leaves at once, in a request of its own kind.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;

use super::super::claim::{Claim, ClaimKind};
use super::super::events::{self, ClockStep, Event, EventKind, GpuEvent};
use super::super::gpu::GpuExport;
use super::super::interruption::InterruptionEvent;
use super::super::policies::{PolicyErrorEvent, RecommendationEvent, shared_place};
use super::super::span_cost::SpanCostEvent;
use super::Exporter;
use crate::experiment::{Attributes, TraceParent};
use crate::request::Request;

impl Exporter {
    /// Exports an event of a GPU at once: in its open session, else in the one that will start at
    /// `begins`, whose readings still wait for older ones.
    pub fn event(&mut self, gpu: &mut GpuExport, event: &GpuEvent, begins: Option<Timestamp>) {
        if event.kind == EventKind::Recovered {
            gpu.device_metrics.recover();
        }
        let claims = match event.kind {
            EventKind::Gap(length) => {
                let (from, to) = (event.at.saturating_sub(length), event.at);
                Some((ClaimKind::Gap, vec![Claim { gpu: gpu.identity_key().to_owned(), from, to }]))
            }
            _ => None,
        };
        let open = gpu.session.as_ref().map(|session| session.placement.span);
        let next = || Some(self.experiment.session(&gpu.key, begins?, None).span);
        let context = open.or_else(next).or_else(|| self.experiment.context());
        let events = vec![Event::from_gpu_event(event, gpu.id())];
        self.export_claiming(events, event.at, context, claims);
    }

    /// Exports new recommendations and errors, and keeps which recommendations stand. `gpus`: the GPUs in the order in
    /// which they began; `host`: the machine of those that name none.
    pub fn policy_results(
        &mut self,
        recommendations: &[RecommendationEvent<'_>],
        errors: &[PolicyErrorEvent<'_>],
        gpus: &[GpuIdentity],
        host: &Attributes,
        at: Timestamp,
    ) {
        self.active.set(recommendations);
        let place = |names: &[String]| {
            shared_place(gpus.iter().filter(|gpu| names.contains(&gpu.name)), host)
        };
        let hw_id = |name: &str| {
            let index = gpus.iter().position(|gpu| gpu.name == name)?;
            self.wire_ids.get(index).cloned()
        };
        let events = self.reported.new_events(recommendations, errors, hw_id, place);
        if !events.is_empty() {
            self.export_events(events, at, self.experiment.context());
        }
    }

    /// Records a step of the wall clock at `at`, and exports it as an event. What begins at or after
    /// `at` has the new wall time; the sessions of all GPUs must end there.
    pub fn step_wall_clock(&mut self, at: Timestamp, offset: WallOffset, step: &ClockStep) {
        self.wall.step(at, offset);
        self.export_events(vec![Event::from_clock_step(step)], at, self.experiment.context());
    }

    /// Exports a notice that the cloud will interrupt the machine.
    pub fn interruption(&mut self, event: &InterruptionEvent) {
        let wall = self.wall.start_label(event.at);
        let events = vec![Event::from_interruption(event, wall)];
        self.export_events(events, event.at, self.experiment.context());
    }

    /// Exports what spans cost that were sent without it.
    pub fn span_costs(&mut self, costs: &[SpanCostEvent]) {
        let id = &self.experiment.id;
        let limits = &self.settings.limits.log_record;
        let record = |it: &SpanCostEvent| it.into_record(self.wall.end_label(it.at), id, limits);
        let records = costs.iter().map(record).collect();
        self.push(Request::Logs(events::request(records, &self.workload)), None);
    }

    pub(super) fn export_events(
        &mut self,
        events: Vec<Event>,
        at: Timestamp,
        context: Option<TraceParent>,
    ) {
        self.export_claiming(events, at, context, None);
    }

    fn export_claiming(
        &mut self,
        events: Vec<Event>,
        at: Timestamp,
        context: Option<TraceParent>,
        claims: Option<(ClaimKind, Vec<Claim>)>,
    ) {
        let at = self.wall.start_label(at);
        let id = &self.experiment.id;
        let limits = &self.settings.limits.log_record;
        let records = events.into_iter().map(|event| event.into_record(at, id, context, limits));
        let request = events::request(records.collect(), &self.workload);
        self.push(Request::Logs(request), claims);
    }
}
