//! One GPU on the wire: its sessions, and what is remembered of it between two exports.
//!
//! This room must not know of other GPUs, or of requests.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::accounts::Accounts;
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::price::Price;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::PhaseSpan;
use phasemeter_meter::units::Timestamp;

use super::accounts::AccountPoints;
use super::batch::Batch;
use super::context::{GpuSnapshot, TraceContext};
use super::device_metrics::DeviceMetrics;
use super::exemplars::Exemplars;
use super::gpu_attributes::{GpuAttributes, GpuDescription};
use super::hardware::Hardware;
use super::settings::Aggregation;
use super::spans::SpanTotals;
use super::utilization;
use super::values::PointTime;
use crate::experiment::{Experiment, GpuKey, SpanPlacement};
use phasemeter_meter::device_metric::DeviceMetric;

/// A session of a GPU: the first from its first reading, the last to its last.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) place: SpanPlacement,
    /// Up to where phase spans are told, which tile it.
    pub(super) totals: SpanTotals,
}

/// What is told of a GPU, over all its sessions.
#[derive(Clone, Copy, Debug)]
struct LastExport {
    /// The first reading, where sums begin.
    first: Timestamp,
    /// The last export, and the time on its points; at first, the first reading.
    at: Timestamp,
    time: u64,
}

/// What the export of one GPU remembers. Its size does not grow.
#[derive(Clone, Debug)]
pub struct GpuExport {
    pub(super) key: GpuKey,
    attributes: GpuAttributes,
    pub(super) session: Option<Session>,
    told: Option<LastExport>,
    hardware: Hardware,
    accounts: AccountPoints,
    pub(super) device_metrics: DeviceMetrics,
    exemplars: Exemplars,
    /// The batch that holds its last points.
    pub(super) batch: Option<u64>,
}

impl GpuExport {
    pub(super) fn new(key: GpuKey, id: String, gpu: &GpuDescription) -> Self {
        Self {
            key,
            attributes: GpuAttributes::new(id, gpu),
            session: None,
            told: None,
            hardware: Hardware::new(gpu),
            accounts: AccountPoints::new(gpu.memory_total),
            device_metrics: DeviceMetrics::default(),
            exemplars: Exemplars::default(),
            batch: None,
        }
    }

    /// Something was measured of it beside its readings.
    pub fn measure(&mut self, metric: DeviceMetric) {
        self.device_metrics.take(metric);
    }

    /// From `at` on it costs this; nothing was told of that time yet.
    pub fn change_price(&mut self, at: Timestamp, price: &Price) {
        self.attributes.change_price(at, price);
    }

    /// The attribute that names it.
    pub(super) fn id(&self) -> KeyValue {
        self.attributes.id()
    }

    /// A reading counts.
    pub(super) fn record(&mut self, reading: &Reading, experiment: &Experiment) {
        if self.session.is_none() {
            let (at, time) = (reading.at, reading.at.as_nanos());
            self.told = Some(LastExport { first: at, at, time });
            self.next_session(at, experiment);
        }
        self.attributes.reach(reading.at);
        self.accounts.record(reading);
        self.device_metrics.settle(reading.at);
        let is_sampled = self.session.as_ref().is_some_and(|it| it.place.span.flags.is_sampled());
        if let Ok(utilization) = reading.utilization
            && is_sampled
        {
            self.exemplars.offer(reading.at, utilization);
        }
    }

    /// Begins a session; gives out the one before, which is over.
    pub(super) fn next_session(
        &mut self,
        at: Timestamp,
        experiment: &Experiment,
    ) -> Option<Session> {
        let before = self.session.take();
        let link = before.as_ref().map(|before| before.place.span);
        let (accounts, priced) = (Accounts::default(), self.attributes.is_priced());
        self.session = Some(Session {
            place: experiment.session(&self.key, at, link),
            totals: SpanTotals { from: at, to: at, accounts, priced },
        });
        before
    }

    /// A phase span is over; gives it out as a totals of its session.
    pub(super) fn end_phase(&mut self, span: &PhaseSpan) -> SpanTotals {
        self.exemplars.settle(span);
        let priced = self.attributes.is_priced();
        let phase = SpanTotals { from: span.from, to: span.to, accounts: span.accounts, priced };
        if let Some(session) = &mut self.session {
            session.totals.join(&phase);
        }
        phase
    }

    /// Adds its points at the instant `at`.
    pub(super) fn tell(
        &mut self,
        at: Timestamp,
        meter: &GpuMeter,
        experiment: &Experiment,
        aggregation: Aggregation,
        batch: &mut Batch,
    ) {
        let (Some(session), Some(told)) = (&self.session, &mut self.told) else { return };
        let start = told.first;
        let since = std::mem::replace(&mut told.at, at);
        // Two points of a stream never share an instant, although the last reading may lie on
        // the boundary that was told before it was heard.
        told.time = at.as_nanos().max(told.time.saturating_add(1));
        let when = PointTime { start: start.as_nanos(), time: told.time };
        self.attributes.reach(at);
        let summary = meter.summary();
        let export =
            GpuSnapshot { attributes: &self.attributes, meter, summary, start, since, when };
        self.hardware.tell(&export, batch);
        self.accounts.tell(&export, batch);
        self.device_metrics.settle(at);
        self.device_metrics.tell(&export, batch);

        let trace = TraceContext { experiment, gpu: &self.key, session: &session.place };
        let exemplars = self.exemplars.take(meter).map(|it| utilization::exemplar(&it, &trace));
        utilization::tell(&export, exemplars.collect(), aggregation, batch);
    }
}
