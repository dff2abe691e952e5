//! The memory that a protobuf request takes once decoded, estimated without decoding it.
//!
//! An empty span takes two bytes on the wire and hundreds in memory, so the size of a request does not
//! limit the memory of its decoded form. Must not depend on what a request means.

use std::mem::size_of;

use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::summary_data_point::ValueAtQuantile;
use opentelemetry_proto::tonic::metrics::v1::{
    Exemplar, ExponentialHistogramDataPoint, HistogramDataPoint, Metric, NumberDataPoint,
    ResourceMetrics, ScopeMetrics, SummaryDataPoint,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::encoding::{WireType, decode_key, decode_varint};

use crate::signal::Signal;

/// Maximum nesting, as in prost.
const MAX_DEPTH: u32 = 100;

/// A vector that grows has up to twice the capacity that it needs.
const GROWTH: usize = 2;

/// A message: its size in memory, and its fields that are messages or packed numbers.
struct Shape {
    size: usize,
    fields: &'static [(u32, Field)],
}

enum Field {
    Message(&'static Shape),
    /// Numbers of one byte or more, each eight bytes in memory.
    Packed,
}

use Field::{Message, Packed};

macro_rules! shapes {
    ($($name:ident: $size:expr, [$(($tag:literal, $field:expr)),*];)*) => {
        $(static $name: Shape = Shape { size: $size, fields: &[$(($tag, $field)),*] };)*
    };
}

shapes! {
    TRACES: 0, [(1, Message(&RESOURCE_SPANS))];
    METRICS: 0, [(1, Message(&RESOURCE_METRICS))];
    LOGS: 0, [(1, Message(&RESOURCE_LOGS))];

    RESOURCE_SPANS: size_of::<ResourceSpans>(), [(1, Message(&RESOURCE)), (2, Message(&SCOPE_SPANS))];
    SCOPE_SPANS: size_of::<ScopeSpans>(), [(1, Message(&SCOPE)), (2, Message(&SPAN))];
    SPAN: size_of::<Span>(), [
        (9, Message(&KEY_VALUE)), (11, Message(&EVENT)), (13, Message(&LINK)), (15, Message(&STATUS))
    ];
    EVENT: size_of::<Event>(), [(3, Message(&KEY_VALUE))];
    LINK: size_of::<Link>(), [(4, Message(&KEY_VALUE))];
    STATUS: size_of::<Status>(), [];

    RESOURCE_METRICS: size_of::<ResourceMetrics>(), [
        (1, Message(&RESOURCE)), (2, Message(&SCOPE_METRICS))
    ];
    SCOPE_METRICS: size_of::<ScopeMetrics>(), [(1, Message(&SCOPE)), (2, Message(&METRIC))];
    METRIC: size_of::<Metric>(), [
        (5, Message(&NUMBERS)), (7, Message(&NUMBERS)), (9, Message(&HISTOGRAMS)),
        (10, Message(&EXPONENTIALS)), (11, Message(&SUMMARIES)), (12, Message(&KEY_VALUE))
    ];
    NUMBERS: 0, [(1, Message(&NUMBER))];
    NUMBER: size_of::<NumberDataPoint>(), [(5, Message(&EXEMPLAR)), (7, Message(&KEY_VALUE))];
    HISTOGRAMS: 0, [(1, Message(&HISTOGRAM))];
    HISTOGRAM: size_of::<HistogramDataPoint>(), [
        (8, Message(&EXEMPLAR)), (9, Message(&KEY_VALUE))
    ];
    EXPONENTIALS: 0, [(1, Message(&EXPONENTIAL))];
    EXPONENTIAL: size_of::<ExponentialHistogramDataPoint>(), [
        (1, Message(&KEY_VALUE)), (8, Message(&BUCKETS)), (9, Message(&BUCKETS)),
        (11, Message(&EXEMPLAR))
    ];
    BUCKETS: size_of::<Buckets>(), [(2, Packed)];
    SUMMARIES: 0, [(1, Message(&SUMMARY))];
    SUMMARY: size_of::<SummaryDataPoint>(), [(6, Message(&QUANTILE)), (7, Message(&KEY_VALUE))];
    QUANTILE: size_of::<ValueAtQuantile>(), [];
    EXEMPLAR: size_of::<Exemplar>(), [(7, Message(&KEY_VALUE))];

    RESOURCE_LOGS: size_of::<ResourceLogs>(), [(1, Message(&RESOURCE)), (2, Message(&SCOPE_LOGS))];
    SCOPE_LOGS: size_of::<ScopeLogs>(), [(1, Message(&SCOPE)), (2, Message(&LOG_RECORD))];
    LOG_RECORD: size_of::<LogRecord>(), [(5, Message(&VALUE)), (6, Message(&KEY_VALUE))];

    RESOURCE: size_of::<Resource>(), [(1, Message(&KEY_VALUE)), (3, Message(&ENTITY))];
    ENTITY: size_of::<EntityRef>(), [(3, Message(&TEXT)), (4, Message(&TEXT))];
    TEXT: size_of::<String>(), [];
    SCOPE: size_of::<InstrumentationScope>(), [(3, Message(&KEY_VALUE))];
    KEY_VALUE: size_of::<KeyValue>(), [(2, Message(&VALUE))];
    VALUE: size_of::<AnyValue>(), [(5, Message(&ARRAY)), (6, Message(&KEY_VALUES))];
    ARRAY: 0, [(1, Message(&VALUE))];
    KEY_VALUES: 0, [(1, Message(&KEY_VALUE))];
}

/// The memory of a decoded request, estimated upwards; `None` if it is malformed.
pub(super) fn footprint(signal: Signal, body: &[u8]) -> Option<usize> {
    let shape = match signal {
        Signal::Traces => &TRACES,
        Signal::Metrics => &METRICS,
        Signal::Logs => &LOGS,
    };
    message(shape, body, MAX_DEPTH)
}

/// The memory of a message and of what it contains.
fn message(shape: &Shape, mut body: &[u8], depth: u32) -> Option<usize> {
    let depth = depth.checked_sub(1)?;
    let mut sum = shape.size * GROWTH;
    while !body.is_empty() {
        let (tag, wire_type) = decode_key(&mut body).ok()?;
        let skip = match wire_type {
            WireType::Varint => {
                decode_varint(&mut body).ok()?;
                0
            }
            WireType::ThirtyTwoBit => 4,
            WireType::SixtyFourBit => 8,
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut body).ok()?).ok()?,
            // Obsolete. What is between them counts as if it were not.
            WireType::StartGroup | WireType::EndGroup => 0,
        };
        let (value, rest) = body.split_at_checked(skip)?;
        body = rest;
        let field = shape.fields.iter().find(|(known, _)| *known == tag);
        sum += match field.map(|(_, field)| field) {
            Some(Message(shape)) if wire_type == WireType::LengthDelimited => {
                message(shape, value, depth)?
            }
            Some(Packed) => value.len().max(1) * size_of::<u64>() * GROWTH,
            // Also a number that is repeated, but not packed.
            _ => value.len().max(size_of::<u64>()) * usize::from(shape.size > 0),
        };
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::{Span, footprint, size_of};
    use crate::signal::Signal;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans};
    use prost::Message;

    fn request(spans: Vec<Span>) -> Vec<u8> {
        let scope_spans = vec![ScopeSpans { spans, ..ScopeSpans::default() }];
        let resource_spans = vec![ResourceSpans { scope_spans, ..ResourceSpans::default() }];
        ExportTraceServiceRequest { resource_spans }.encode_to_vec()
    }

    #[test]
    fn empty_spans_count_as_in_memory() {
        let body = request(vec![Span::default(); 1_000]);
        assert!(body.len() < 2_100);
        assert!(footprint(Signal::Traces, &body).unwrap() >= 1_000 * size_of::<Span>());
    }

    #[test]
    fn usual_span_counts_for_a_few_times_its_size() {
        let value = Some(AnyValue { value: Some(Value::StringValue("GET /v1/models".to_owned())) });
        let attribute = KeyValue { key: "http.route".to_owned(), value, ..KeyValue::default() };
        let span = Span {
            trace_id: vec![1; 16],
            span_id: vec![2; 8],
            name: "llm_request".to_owned(),
            start_time_unix_nano: 1,
            end_time_unix_nano: 2,
            attributes: vec![attribute; 8],
            ..Span::default()
        };
        let body = request(vec![span; 1_000]);
        let footprint = footprint(Signal::Traces, &body).unwrap();
        assert!(footprint < 12 * body.len(), "{footprint} of {}", body.len());
    }

    #[test]
    fn deep_nesting_is_malformed() {
        let mut value = AnyValue { value: None };
        for _ in 0..200 {
            value = AnyValue { value: Some(Value::ArrayValue(ArrayValue { values: vec![value] })) };
        }
        let attribute = KeyValue { key: String::new(), value: Some(value), ..KeyValue::default() };
        let body = request(vec![Span { attributes: vec![attribute], ..Span::default() }]);
        assert_eq!(footprint(Signal::Traces, &body), None);
        assert_eq!(footprint(Signal::Traces, b"\x0a\x05\x00"), None, "truncated");
    }
}
