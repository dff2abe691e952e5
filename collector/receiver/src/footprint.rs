//! The memory that a protobuf request takes once decoded, estimated without decoding it.
//!
//! An empty span takes two bytes on the wire and hundreds in memory, so the size of a request does not
//! limit the memory of its decoded form.

use std::mem::size_of;

use prost::encoding::{WireType, decode_key, decode_varint};

use super::schema::{Form, Shape, request};
use phasemeter_otlp::Signal;

/// Maximum nesting, as in prost.
const MAX_DEPTH: u32 = 100;

/// A vector that grows has up to twice the capacity that it needs.
const GROWTH: usize = 2;

/// The memory of a decoded request, estimated upwards; `None` if it is malformed.
pub(super) fn footprint(signal: Signal, body: &[u8]) -> Option<usize> {
    message(request(signal), body, MAX_DEPTH)
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
        let field = shape.fields.iter().find(|field| field.tag == tag);
        sum += match field.map(|field| field.form) {
            Some(Form::Message(shape) | Form::Messages(shape))
                if wire_type == WireType::LengthDelimited =>
            {
                message(shape, value, depth)?
            }
            // Numbers of one byte or more, each eight bytes in memory, packed or not.
            Some(Form::Varints) => value.len().max(1) * size_of::<u64>() * GROWTH,
            Some(Form::Fixed64s | Form::Doubles) => value.len().max(size_of::<u64>()) * GROWTH,
            Some(Form::Texts) => value.len() + size_of::<String>() * GROWTH,
            _ => value.len().max(size_of::<u64>()) * usize::from(shape.size > 0),
        };
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::{footprint, size_of};
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span};
    use phasemeter_otlp::Signal;
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
