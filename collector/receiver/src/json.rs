//! Requests of http/json: converted to protobuf, in which they are queued and sent.
//!
//! Each field is encoded as it is read, so that memory is that of both forms. What proto3's mapping to JSON
//! allows is read: numbers as text, `"NaN"` and `"Infinity"`, null for what may be omitted, and fields of later
//! versions, which are dropped.

use std::cell::Cell;

use serde::de::DeserializeSeed;
use serde_json::Deserializer;

use super::error::RequestError;
use super::json_message::{Context, Message};
use super::schema;
use phasemeter_otlp::Signal;

/// The protobuf of a request, of at most `limit` bytes.
pub(super) fn to_protobuf(
    signal: Signal,
    body: &[u8],
    limit: usize,
) -> Result<Vec<u8>, RequestError> {
    let mut protobuf = Vec::new();
    let context = Context { limit, is_too_large: Cell::new(false) };
    let mut deserializer = Deserializer::from_slice(body);
    let request = Message { shape: schema::request(signal), context: &context, out: &mut protobuf };
    let read = request.deserialize(&mut deserializer).and_then(|()| deserializer.end());
    match read {
        Ok(()) => Ok(protobuf),
        Err(_) if context.is_too_large.get() => Err(RequestError::TooLarge { limit }),
        Err(error) => Err(RequestError::malformed(format!("invalid JSON: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use opentelemetry_proto::tonic::common::v1::any_value;
    use opentelemetry_proto::tonic::metrics::v1::metric::Data;
    use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
    use prost::Message as _;
    use serde::Serialize;

    use super::super::json_scalar::Wire;
    use super::super::schema::{Form, Shape};
    use super::*;
    use phasemeter_otlp::wire::push_field;

    const LIMIT: usize = 4 << 20;

    fn metrics(points: &str) -> Result<ExportMetricsServiceRequest, RequestError> {
        let body = format!(
            r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{{"name":"m",{points}}}]}}]}}]}}"#
        );
        let protobuf = to_protobuf(Signal::Metrics, body.as_bytes(), LIMIT)?;
        Ok(ExportMetricsServiceRequest::decode(&protobuf[..]).unwrap())
    }

    fn data(points: &str) -> Data {
        let request = metrics(points).unwrap();
        request.resource_metrics[0].scope_metrics[0].metrics[0].data.clone().unwrap()
    }

    #[test]
    fn lists_without_values_are_empty() {
        let body = br#"{"resourceLogs":[{"resource":{"attributes":[
            {"key":"a","value":{"arrayValue":{}}},{"key":"b","value":{"kvlistValue":{}}},
            {"key":"c","value":{"arrayValue":{"values":[{"arrayValue":{}}]}}}]}}]}"#;
        let protobuf = to_protobuf(Signal::Logs, body, LIMIT).unwrap();
        let request = ExportLogsServiceRequest::decode(&protobuf[..]).unwrap();
        let attributes = &request.resource_logs[0].resource.as_ref().unwrap().attributes;
        let lengths = attributes.iter().map(|attribute| {
            match attribute.value.as_ref().unwrap().value.as_ref().unwrap() {
                any_value::Value::ArrayValue(list) => list.values.len(),
                any_value::Value::KvlistValue(list) => list.values.len(),
                other => panic!("{other:?}"),
            }
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [0, 0, 1]);
    }

    /// Guarantee: each form of a number that proto3's JSON has costs no point.
    #[test]
    fn numbers_are_read_in_all_forms() {
        for (json, expected) in [
            (r#""asDouble":"NaN""#, Some(Value::AsDouble(f64::NAN))),
            (r#""asDouble":"Infinity""#, Some(Value::AsDouble(f64::INFINITY))),
            (r#""asDouble":"-Infinity""#, Some(Value::AsDouble(f64::NEG_INFINITY))),
            (r#""asDouble":"0.5""#, Some(Value::AsDouble(0.5))),
            (r#""asDouble":0"#, Some(Value::AsDouble(0.0))),
            (r#""asDouble":-7"#, Some(Value::AsDouble(-7.0))),
            (r#""asInt":"-9223372036854775808""#, Some(Value::AsInt(i64::MIN))),
            (r#""asInt":0"#, Some(Value::AsInt(0))),
            (r#""asInt":1.2e1"#, Some(Value::AsInt(12))),
            (r#""asInt":null,"later":[{"a":1}]"#, None),
        ] {
            let points = format!(r#""gauge":{{"dataPoints":[{{{json}}},{{"asInt":"3"}}]}}"#);
            let Data::Gauge(gauge) = data(&points) else { panic!() };
            let values: Vec<_> = gauge.data_points.iter().map(|point| point.value).collect();
            assert_eq!(format!("{values:?}"), format!("{:?}", [expected, Some(Value::AsInt(3))]));
        }
        let points = r#""histogram":{"dataPoints":[{"sum":0,"min":"-Infinity","count":"2",
            "bucketCounts":["1",1,0],"explicitBounds":[0.5,"Infinity"]}]}"#;
        let Data::Histogram(histogram) = data(points) else { panic!() };
        let point = &histogram.data_points[0];
        assert_eq!((point.sum, point.min, point.max), (Some(0.0), Some(f64::NEG_INFINITY), None));
        assert_eq!((point.count, &point.bucket_counts[..]), (2, &[1, 1, 0][..]));
        assert_eq!(point.explicit_bounds, [0.5, f64::INFINITY]);
    }

    #[test]
    fn invalid_value_is_rejected_with_its_place() {
        for (json, reason) in [
            (r#""asDouble":"inf""#, "expected a number"),
            (r#""asDouble":"1e999""#, "expected a number"),
            (r#""asInt":1.5"#, "expected a whole number"),
            (r#""asInt":"18446744073709551615""#, "expected a whole number"),
            (r#""timeUnixNano":-1"#, "expected a whole number"),
            (r#""flags":4294967296"#, "expected a whole number"),
            (r#""attributes":{}"#, "expected a list"),
            (r#""exemplars":[{"traceId":"abc"}]"#, "hexadecimal"),
            (r#""exemplars":[{"traceId":"zz"}]"#, "hexadecimal"),
            (r#""attributes":[{"value":{"bytesValue":"a"}}]"#, "base64"),
            (r#""attributes":[{"value":{"boolValue":1}}]"#, "expected true or false"),
            (r#""attributes":[{"key":1}]"#, "expected text"),
            (r#""attributes":[null]"#, "expected an object"),
        ] {
            let read = metrics(&format!(r#""gauge":{{"dataPoints":[{{{json}}}]}}"#));
            let error = read.unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("line 1"), "{json}: {error}");
        }
        for body in ["", "[]", "1", "{", "{}}", "\u{feff}{}", "null"] {
            let read = to_protobuf(Signal::Traces, body.as_bytes(), LIMIT);
            assert!(matches!(read, Err(RequestError::Malformed { .. })), "{body}");
        }
    }

    #[test]
    fn bytes_are_base64_in_both_alphabets() {
        for (text, expected) in [
            ("", &[][..]),
            ("AQ==", &[1]),
            ("AQ", &[1]),
            ("-_8=", &[251, 255]),
            ("+/8", &[251, 255]),
        ] {
            let body = format!(
                r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{{"bytesValue":"{text}"}}}}]}}]}}]}}"#
            );
            let protobuf = to_protobuf(Signal::Logs, body.as_bytes(), LIMIT).unwrap();
            let request = ExportLogsServiceRequest::decode(&protobuf[..]).unwrap();
            let record = &request.resource_logs[0].scope_logs[0].log_records[0];
            let value = record.body.clone().unwrap().value.unwrap();
            assert_eq!(value, any_value::Value::BytesValue(expected.to_vec()), "{text}");
        }
    }

    /// A message with a value in each field, nested this deep. Of fields that exclude each other the last one counts:
    /// with another `first` field, another one.
    fn sample(shape: &Shape, first: usize, depth: u32) -> Vec<u8> {
        let mut out = Vec::new();
        let count = shape.fields.len();
        for field in shape.fields.iter().cycle().skip(first % count).take(count) {
            let tag = field.tag;
            let mut push = |number: Wire| {
                prost::encoding::encode_key(tag, number.wire_type(), &mut out);
                number.encode(&mut out);
            };
            let distinct = u64::from(tag) + 1;
            match field.form {
                Form::Message(shape) | Form::Messages(shape) => {
                    // Values contain themselves.
                    if depth > 0 {
                        let depth = if shape.size == 0 { depth - 1 } else { depth };
                        push_field(tag, &sample(shape, first, depth), &mut out);
                    }
                }
                Form::Text | Form::Texts => push_field(tag, field.name.as_bytes(), &mut out),
                Form::Id | Form::Bytes => push_field(tag, &[7, 0xfe], &mut out),
                Form::Bool => push(Wire::Varint(1)),
                Form::Double => push(Wire::Fixed64(0.5_f64.to_bits())),
                Form::Fixed64 | Form::SFixed64 => push(Wire::Fixed64(distinct)),
                Form::Fixed32 => push(Wire::Fixed32(9)),
                Form::Varint => push(Wire::Varint(1)),
                Form::Int64 | Form::SInt32 => push(Wire::Varint(distinct)),
                Form::Doubles => push_field(tag, &0.5_f64.to_le_bytes().repeat(2), &mut out),
                Form::Fixed64s => push_field(tag, &distinct.to_le_bytes().repeat(2), &mut out),
                Form::Varints => push_field(tag, &[1, 2], &mut out),
            }
        }
        out
    }

    /// Guarantee: the table has every field, with its tag and its form: what the messages' own writer makes of a
    /// request is read back as the same.
    #[test]
    fn every_field_is_read_as_it_is_written() {
        fn check<T: prost::Message + Default + PartialEq + Debug + Serialize>(signal: Signal) {
            for first in 0..16 {
                let protobuf = sample(schema::request(signal), first, 4);
                let request = T::decode(&protobuf[..]).unwrap();
                let json = serde_json::to_vec(&request).unwrap();
                let read = to_protobuf(signal, &json, LIMIT).unwrap();
                assert_eq!(T::decode(&read[..]).unwrap(), request);
            }
        }
        check::<ExportTraceServiceRequest>(Signal::Traces);
        check::<ExportMetricsServiceRequest>(Signal::Metrics);
        check::<ExportLogsServiceRequest>(Signal::Logs);
    }

    #[test]
    fn request_that_is_large_as_protobuf_is_rejected() {
        let numbers = "1,".repeat(1 << 20);
        let points = format!(r#""histogram":{{"dataPoints":[{{"bucketCounts":[{numbers}1]}}]}}"#);
        assert_eq!(metrics(&points).unwrap_err(), RequestError::TooLarge { limit: LIMIT });
    }
}
