//! One GPU on the wire: its session, and what is remembered of it between two exports.
//!
//! This room must not know of other GPUs, or of requests.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::ledger::Accounts;
use phasemeter_meter::reading::Reading;
use phasemeter_meter::span::Segment;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::Timestamp;

use super::accounts::AccountPoints;
use super::batch::Batch;
use super::exemplars::Exemplars;
use super::hardware::Hardware;
use super::labels::{GpuDescription, Labels};
use super::settings::Aggregation;
use super::spans::Stretch;
use super::utilization;
use super::values::When;
use crate::experiment::{Experiment, GpuKey, SpanId, Subject};

/// What there is to tell of a GPU at one instant.
#[derive(Debug)]
pub(super) struct Export<'a> {
    pub(super) labels: &'a Labels,
    pub(super) meter: &'a GpuMeter,
    pub(super) summary: Summary,
    /// The first reading, where sums begin.
    pub(super) start: Timestamp,
    /// The export before; at first, the first reading.
    pub(super) since: Timestamp,
    /// The times of a sum.
    pub(super) when: When,
}

/// Where a GPU stands in the trace.
#[derive(Debug)]
pub(super) struct Trace<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) gpu: &'a GpuKey,
    pub(super) session: SpanId,
}

/// The session of a GPU: from its first reading to its last.
#[derive(Clone, Debug)]
pub(super) struct Session {
    pub(super) span_id: SpanId,
    /// Up to where phase spans are told, which tile it.
    pub(super) stretch: Stretch,
    /// The last export, and the time on its points; at first, the first reading.
    told: Timestamp,
    time: u64,
}

/// What the export of one GPU remembers. Its size does not grow.
#[derive(Clone, Debug)]
pub struct GpuExport {
    pub(super) key: GpuKey,
    labels: Labels,
    pub(super) session: Option<Session>,
    hardware: Hardware,
    accounts: AccountPoints,
    exemplars: Exemplars,
    /// The batch that holds its last points.
    pub(super) batch: Option<u64>,
}

impl GpuExport {
    pub(super) fn new(key: GpuKey, id: String, gpu: &GpuDescription) -> Self {
        Self {
            key,
            labels: Labels::new(id, gpu),
            session: None,
            hardware: Hardware::new(gpu.memory_total),
            accounts: AccountPoints::new(gpu.memory_total),
            exemplars: Exemplars::default(),
            batch: None,
        }
    }

    /// The attribute that names it.
    pub(super) fn id(&self) -> KeyValue {
        self.labels.id()
    }

    /// A reading counts.
    pub(super) fn hear(&mut self, reading: &Reading, experiment: &Experiment) {
        if self.session.is_none() {
            self.session = Some(self.open(reading.at, experiment));
        }
        self.accounts.hear(reading);
        if let Ok(utilization) = reading.utilization
            && experiment.is_sampled()
        {
            self.exemplars.offer(reading.at, utilization);
        }
    }

    fn open(&self, start: Timestamp, experiment: &Experiment) -> Session {
        let subject = Subject::Session(&self.key);
        let (accounts, priced) = (Accounts::default(), self.labels.is_priced());
        Session {
            span_id: SpanId::of_content(&experiment.trace_id, &subject, start),
            stretch: Stretch { from: start, to: start, accounts, priced },
            told: start,
            time: start.as_nanos(),
        }
    }

    /// A phase span is over; gives it out as a stretch of its session.
    pub(super) fn end_phase(&mut self, span: &Segment) -> Stretch {
        self.exemplars.settle(span);
        let priced = self.labels.is_priced();
        let phase = Stretch { from: span.from, to: span.to, accounts: span.accounts, priced };
        if let Some(session) = &mut self.session {
            session.stretch.join(&phase);
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
        let Some(session) = &mut self.session else { return };
        let start = session.stretch.from;
        let since = std::mem::replace(&mut session.told, at);
        // Two points of a stream never share an instant, although the last reading may lie on
        // the boundary that was told before it was heard.
        session.time = at.as_nanos().max(session.time.saturating_add(1));
        let when = When { start: start.as_nanos(), time: session.time };
        let session = session.span_id;
        let summary = meter.summary();
        let export = Export { labels: &self.labels, meter, summary, start, since, when };
        self.hardware.tell(&export, batch);
        self.accounts.tell(&export, batch);

        let trace = Trace { experiment, gpu: &self.key, session };
        let exemplars = self.exemplars.take(meter).map(|it| utilization::exemplar(&it, &trace));
        utilization::tell(&export, exemplars.collect(), aggregation, batch);
    }
}
