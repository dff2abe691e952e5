//! One GPU on the wire: its sessions, and the state between two exports.

use std::collections::BTreeSet;

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::AggregationTemporality;
use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::price::Price;
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::accounts::AccountPoints;
use super::batch::Batch;
use super::claim::Claim;
use super::context::{GpuSnapshot, TraceContext};
use super::device_metrics::DeviceMetrics;
use super::exemplars::{CostliestSpans, Exemplars};
use super::gpu_attributes::{GpuAttributes, GpuDescription};
use super::hand_over::{Change, HandOver};
use super::hardware::Hardware;
use super::served_cost::ServedCost;
use super::settings::{Aggregation, ExemplarFilter};
use super::spans::SpanTotals;
use super::utilization;
use crate::experiment::{Experiment, GpuKey, SpanPlacement};
use phasemeter_meter::device_metric::DeviceMetric;

/// A session of a GPU. The first starts with its span, the last ends with it.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) placement: SpanPlacement,
    /// Totals of its finished phase spans, which tile it.
    pub(super) totals: SpanTotals,
}

/// The last export of a GPU, over all its sessions.
#[derive(Clone, Copy, Debug)]
struct LastExport {
    /// Where its span and its sums start.
    first: Timestamp,
    /// Time of the last export; at first, the start.
    at: Timestamp,
}

/// The time of a GPU in exported sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedTime {
    /// Where the sums start.
    pub from: Timestamp,
    /// Time of the last export; at first, the start.
    pub to: Timestamp,
}

/// State of one GPU's export, of constant size.
#[derive(Clone, Debug)]
pub struct GpuExport {
    pub(super) key: GpuKey,
    identity_key: String,
    attributes: GpuAttributes,
    pub(super) session: Option<Session>,
    last: Option<LastExport>,
    hardware: Hardware,
    accounts: AccountPoints,
    pub(super) device_metrics: DeviceMetrics,
    exemplars: Exemplars,
    costliest: CostliestSpans,
    /// Its cost at the last export.
    cost: NanoUsd,
    /// What its time costs by group of work, since the last export.
    pub(super) served: ServedCost,
    /// The number of its host.
    host: usize,
    /// Until when another program exports it as hardware.
    hardware_after: Timestamp,
    /// Which of its time another program exports.
    hand_over: HandOver,
    /// Its number among the GPUs of the exporter.
    pub(super) index: usize,
}

impl GpuExport {
    pub(super) fn new(
        index: usize,
        key: GpuKey,
        id: String,
        host: usize,
        gpu: &GpuDescription,
        by_holder: bool,
    ) -> Self {
        Self {
            key,
            identity_key: gpu.identity.key().to_owned(),
            attributes: GpuAttributes::new(id, gpu),
            session: None,
            last: None,
            hardware: Hardware::new(gpu),
            accounts: AccountPoints::new(gpu.memory_total, by_holder),
            device_metrics: DeviceMetrics::default(),
            exemplars: Exemplars::default(),
            costliest: CostliestSpans::default(),
            cost: NanoUsd::ZERO,
            served: ServedCost::default(),
            host,
            hardware_after: Timestamp::EPOCH,
            hand_over: HandOver::default(),
            index,
        }
    }

    /// Accepts a device metric.
    pub fn measure(&mut self, metric: DeviceMetric) {
        self.device_metrics.take(metric);
    }

    /// Counts errors that the driver reported under this code.
    pub fn count_xids(&mut self, code: u64, count: u64) {
        self.device_metrics.count_xids(code, count);
    }

    /// Leaves out the `hw.*` metrics of these quantities: another program sends them.
    pub fn leave_out(&mut self, received: &BTreeSet<Quantity>) {
        self.hardware.leave_out(received);
    }

    /// Exports the GPU as hardware after this time only; before, another program does. Sent twice, it would be
    /// summed twice.
    pub const fn export_hardware_after(&mut self, at: Timestamp) {
        self.hardware_after = at;
    }

    /// Exports no metrics from the boundary at `at` on, and claims no time: another program bills the GPU. Spans and
    /// events remain.
    pub fn leave_metrics_at(&mut self, at: Timestamp) {
        self.hand_over.plan(at, Change::Leave);
    }

    /// The same from now on. Returns until when it has exported metrics; `None` if it has exported none.
    pub fn leave_metrics(&mut self) -> Option<Timestamp> {
        let exported = self.exported().filter(|time| time.from < time.to && !self.is_left());
        self.hand_over.leave();
        exported.map(|time| time.to)
    }

    /// Keeps the totals at the boundary at `at`: metrics may be [taken over](Self::take_metrics) from there, later.
    pub fn keep_totals_at(&mut self, at: Timestamp) {
        self.hand_over.plan(at, Change::Keep);
    }

    /// Exports metrics again from the boundary at `at` on, which is not reached yet: sums begin there.
    pub fn take_metrics_at(&mut self, at: Timestamp) {
        self.hand_over.plan(at, Change::Take);
    }

    /// Exports metrics again from the first instant at or after `at` whose totals are kept. Returns it; `None` if
    /// there is none.
    pub fn take_metrics(&mut self, at: Timestamp) -> Option<Timestamp> {
        let from = self.hand_over.take_from(at)?;
        if let Some(last) = &mut self.last {
            last.first = from;
        }
        Some(from)
    }

    /// Whether another program exports the metrics now.
    #[must_use]
    pub const fn is_left(&self) -> bool {
        self.hand_over.is_left()
    }

    /// The time in its sums so far; `None` before its span begins. It is empty before the first export.
    #[must_use]
    pub fn exported(&self) -> Option<ExportedTime> {
        self.last.map(|LastExport { first, at }| ExportedTime { from: first, to: at })
    }

    /// Records that errors of the driver would have been reported.
    pub const fn watch_errors(&mut self) {
        self.device_metrics.watch_errors();
    }

    /// Changes the price from `at` on; no later time has been exported.
    pub fn change_price(&mut self, at: Timestamp, price: &Price) {
        self.attributes.change_price(at, price);
    }

    /// Sets the model, which became known only now.
    pub fn set_model(&mut self, model: &str) {
        self.attributes.set_model(model);
    }

    /// Prices a GPU without a price from its start on. No session has ended; spans that have ended
    /// remain without cost.
    pub fn price_from_start(&mut self, price: &Price) {
        self.attributes.set_price(price);
        if let Some(Session { totals, .. }) = &mut self.session {
            totals.accounts = totals.accounts.at_rate(price.rate, Nanos::ZERO);
            totals.priced = true;
        }
    }

    /// The attribute that identifies the GPU.
    pub(super) fn id(&self) -> KeyValue {
        self.attributes.id()
    }

    /// Begins the first session.
    pub(super) fn begin(&mut self, at: Timestamp, experiment: &Experiment) {
        self.last = Some(LastExport { first: at, at });
        self.next_session(at, experiment);
    }

    /// Records an accepted reading.
    pub(super) fn record(&mut self, reading: &Reading, exemplars: ExemplarFilter) {
        self.attributes.reach(reading.at);
        self.accounts.record(reading);
        self.device_metrics.record_reading(reading);
        self.device_metrics.settle(reading.at);
        if let Ok(utilization) = reading.utilization
            && self.has_exemplars(exemplars)
        {
            self.exemplars.offer(reading.at, utilization);
        }
    }

    /// Whether points of the session refer to its spans.
    fn has_exemplars(&self, filter: ExemplarFilter) -> bool {
        let session = self.session.as_ref();
        filter == ExemplarFilter::TraceBased
            && session.is_some_and(|it| it.placement.span.flags.is_sampled())
    }

    /// Starts a session, and returns the one it ends.
    pub(super) fn next_session(
        &mut self,
        at: Timestamp,
        experiment: &Experiment,
    ) -> Option<Session> {
        let before = self.session.take();
        let link = before.as_ref().map(|before| before.placement.span);
        let (accounts, priced) = (Accounts::default(), self.attributes.is_priced());
        self.session = Some(Session {
            placement: experiment.session(&self.key, at, link),
            totals: SpanTotals { from: at, to: at, accounts, priced },
        });
        before
    }

    /// Ends a phase span, and returns its totals.
    pub(super) fn end_phase(&mut self, span: &PhaseSpan, exemplars: ExemplarFilter) -> SpanTotals {
        self.exemplars.settle(span);
        if self.has_exemplars(exemplars) {
            self.costliest.offer(span);
        }
        let priced = self.attributes.is_priced();
        let phase = SpanTotals { from: span.from, to: span.to, accounts: span.accounts, priced };
        if let Some(session) = &mut self.session {
            session.totals.join(&phase);
        }
        phase
    }

    /// What it has cost since the last call; `None` if it is unpriced.
    pub(super) fn cost_since_last_export(&mut self, meter: &GpuMeter) -> Option<NanoUsd> {
        meter.rate()?;
        let cost = meter.charged();
        Some(cost - std::mem::replace(&mut self.cost, cost))
    }

    /// The key of its identity.
    pub(super) fn identity_key(&self) -> &str {
        &self.identity_key
    }

    /// The time in sums of this temporality at their next export, at the instant `at`.
    pub(super) fn claim(&self, at: Timestamp, counters: AggregationTemporality) -> Option<Claim> {
        let last = self.last.as_ref().filter(|_| !self.is_left())?;
        let from = match counters {
            AggregationTemporality::Delta => last.at,
            _ => last.first,
        };
        (from < at).then(|| Claim { gpu: self.identity_key.clone(), from, to: at })
    }

    /// Leaves out an export. The next one has what has happened since the last; an exemplar would name the wrong
    /// session.
    pub(super) fn skip(&mut self, meter: &GpuMeter) {
        self.exemplars.take(meter).for_each(drop);
        self.costliest = CostliestSpans::default();
    }

    /// Whether its points are needed at every boundary, since another program meters it too.
    pub(super) fn is_handed_over(&self) -> bool {
        !self.hand_over.is_unused()
    }

    /// Adds the GPU's points at the instant `at`, those that it exports.
    pub(super) fn add_points(
        &mut self,
        at: Timestamp,
        meter: &GpuMeter,
        aggregation: Aggregation,
        batch: &mut Batch,
    ) {
        if !self.is_handed_over() {
            return self.write_points(at, meter, aggregation, batch);
        }
        let mut points = batch.like();
        self.write_points(at, meter, aggregation, &mut points);
        let (exported, first) = self.hand_over.reach(at, points);
        batch.append(exported);
        if let (Some(last), Some(first)) = (&mut self.last, first) {
            last.first = first;
        }
    }

    fn write_points(
        &mut self,
        at: Timestamp,
        meter: &GpuMeter,
        aggregation: Aggregation,
        batch: &mut Batch,
    ) {
        let (Some(session), Some(last)) = (&self.session, &mut self.last) else { return };
        let first = last.first;
        let since = std::mem::replace(&mut last.at, at);
        self.attributes.reach(at);
        let host = Some(self.host).filter(|_| at > self.hardware_after);
        let export = GpuSnapshot { attributes: &self.attributes, meter, host, since, first };
        self.hardware.add_points(&export, batch);
        let trace = TraceContext { gpu: &self.key, session: &session.placement };
        self.accounts.add_points(&export, at, self.costliest.take(&trace), batch);
        self.device_metrics.settle(at);
        self.device_metrics.add_points(&export, batch);

        let exemplars = self
            .exemplars
            .take(meter)
            .map(|it| trace.exemplar(it.span, it.at, it.utilization.ratio()));
        utilization::add_points(&export, exemplars.collect(), aggregation, batch);
    }
}
