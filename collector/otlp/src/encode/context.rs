//! What the encoders of one GPU share: its meter, its attributes, its place in the trace.

use opentelemetry_proto::tonic::metrics::v1::{Exemplar, exemplar};
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::Timestamp;

use super::gpu_attributes::GpuAttributes;
use super::values::Start;
use crate::experiment::{GpuKey, SpanPlacement};

/// One GPU at the instant of an export.
#[derive(Debug)]
pub(super) struct GpuSnapshot<'a> {
    pub(super) attributes: &'a GpuAttributes,
    pub(super) meter: &'a GpuMeter,
    /// The number of its host; `None` if another program exports its hardware.
    pub(super) host: Option<usize>,
    /// The previous export; for the first export, the first reading.
    pub(super) since: Timestamp,
    /// The start of its span.
    pub(super) first: Timestamp,
}

impl GpuSnapshot<'_> {
    /// The start of its sums.
    pub(super) const fn start(&self) -> Start {
        Start::at(self.first)
    }

    /// Whether its time has a price.
    pub(super) fn is_priced(&self) -> bool {
        self.attributes.is_priced() && self.meter.rate().is_some()
    }

    /// The last reading since the previous export: an instantaneous value is exported once.
    pub(super) fn last_reading(&self) -> Option<&Reading> {
        self.meter.last_reading().filter(|reading| reading.at >= self.since)
    }

    /// Whether the GPU has responded since the previous export. If not, nothing about it is known to hold now.
    pub(super) fn responds(&self) -> bool {
        let last = self.last_reading();
        last.is_some_and(|reading| reading.utilization != Err(MissingReason::Lost))
    }
}

/// The trace that a GPU's exemplars refer to.
#[derive(Debug)]
pub(super) struct TraceContext<'a> {
    pub(super) gpu: &'a GpuKey,
    pub(super) session: &'a SpanPlacement,
}

impl TraceContext<'_> {
    /// An exemplar with this time and value. It refers to the phase span that starts at `phase`; if that is not final
    /// yet, to the session. It has no attribute for the experiment, which its span has: with both IDs it could be
    /// longer than the 128 characters that Prometheus accepts.
    pub(super) fn exemplar(&self, phase: Option<Timestamp>, at: Timestamp, value: f64) -> Exemplar {
        let span =
            phase.map_or(self.session.span, |start| self.session.phase_span(self.gpu, start));
        Exemplar {
            time_unix_nano: at.as_nanos(),
            span_id: span.span_id.as_bytes().to_vec(),
            trace_id: span.trace_id.as_bytes().to_vec(),
            value: Some(exemplar::Value::AsDouble(value)),
            ..Exemplar::default()
        }
    }
}
