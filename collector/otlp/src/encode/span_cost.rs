//! What the GPU time of a span cost: as attributes of the span, and as an event that follows it.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::logs::v1::LogRecord;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};

use super::events::{Event, Severity};
use super::limits::AttributeLimits;
use super::values::{number, text};
use crate::names::{attribute, event};
use crate::request::Request;

/// The tag of the attributes of a span.
const ATTRIBUTES: u32 = 9;

/// The name of the event.
const EVENT: &str = event::SPAN_PRICED;

/// GPU time that is a span's own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PricedTime {
    /// Its length.
    pub gpu_time: Nanos,
    /// What it cost; `None` if any of its GPUs is unpriced.
    pub cost: Option<NanoUsd>,
    /// Mean utilization; `None` if none was observed.
    pub utilization: Option<f64>,
    /// Energy in joules; `None` if unknown.
    pub joules: Option<f64>,
}

impl PricedTime {
    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        let cost = self.cost.map(|cost| number(attribute::SPAN_COST, cost.as_f64()));
        let gpu_seconds = number(attribute::SPAN_GPU_SECONDS, self.gpu_time.as_secs_f64());
        let utilization = self.utilization.map(|it| number(attribute::SPAN_UTILIZATION, it));
        let energy = self.joules.map(|it| number(attribute::SPAN_ENERGY, it));
        let costs = cost.into_iter().chain([gpu_seconds]);
        costs.chain(utilization).chain(energy).collect()
    }

    /// The attributes, and the instance ID of the meter, as fields of an encoded span, which follow its own.
    #[must_use]
    pub fn fields(&self, meter: &str) -> Vec<u8> {
        let mut fields = Vec::new();
        let meter = text(attribute::SPAN_METER, meter);
        for attribute in self.attributes().into_iter().chain([meter]) {
            encode_key(ATTRIBUTES, WireType::LengthDelimited, &mut fields);
            encode_varint(attribute.encoded_len() as u64, &mut fields);
            fields.extend(attribute.encode_to_vec());
        }
        fields
    }
}

/// The cost of a span that was sent without it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpanCostEvent {
    /// The trace of the span.
    pub trace: [u8; 16],
    /// Its ID.
    pub span: [u8; 8],
    /// Its end.
    pub at: Timestamp,
    /// What its time cost.
    pub time: PricedTime,
}

impl SpanCostEvent {
    /// The log record, at this wall time.
    pub(super) fn into_record(
        self,
        at: Timestamp,
        experiment_id: &str,
        limits: &AttributeLimits,
    ) -> LogRecord {
        let seconds = self.time.gpu_time.as_secs_f64();
        let cost = self.time.cost.map(|cost| format!(", ${:.9}", cost.as_f64()));
        let event = Event {
            name: EVENT,
            severity: Severity::Info,
            body: format!("{seconds:.3} GPU-seconds{}", cost.unwrap_or_default()),
            attributes: self.time.attributes(),
        };
        LogRecord {
            trace_id: self.trace.to_vec(),
            span_id: self.span.to_vec(),
            ..event.into_record(at, experiment_id, None, limits)
        }
    }
}

/// Whether a request has costs of spans that were sent without them.
#[must_use]
pub fn has_span_costs(request: &Request) -> bool {
    let Request::Logs(request) = request else { return false };
    let scopes = request.resource_logs.iter().flat_map(|it| &it.scope_logs);
    scopes.flat_map(|it| &it.log_records).any(|record| record.event_name == EVENT)
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::trace::v1::Span;

    use super::*;

    #[test]
    fn fields_are_the_attributes_of_a_span() {
        let time = PricedTime {
            gpu_time: Nanos::from_millis(1_500),
            cost: Some(NanoUsd(31_000_001)),
            utilization: None,
            joules: Some(8.5),
        };
        let span = Span::decode(&time.fields("own")[..]).unwrap();
        let attributes = [time.attributes(), vec![text(attribute::SPAN_METER, "own")]].concat();
        assert_eq!(span, Span { attributes, ..Span::default() });
        let keys: Vec<_> = span.attributes.iter().map(|it| it.key.as_str()).collect();
        let expected = ["cost", "gpu_seconds", "energy", "meter"];
        assert_eq!(keys, expected.map(|key| format!("phasemeter.span.{key}")));
    }
}
