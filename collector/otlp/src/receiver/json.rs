//! Requests of http/json: converted to protobuf, in which they are queued and sent.
//!
//! Must not depend on the transport.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::RequestError;
use super::limits::Limits;
use crate::signal::Signal;

/// The memory of an object or array: that of a span. Most are far smaller.
const VALUE_BYTES: usize = 384;

/// The memory of an object or array before it becomes a message.
const TREE_BYTES: usize = 1_024;

/// The protobuf of a request.
pub(super) fn to_protobuf(
    signal: Signal,
    body: &[u8],
    limits: &Limits,
) -> Result<Vec<u8>, RequestError> {
    // Every value in memory begins with one of these, and a text contains few.
    let values = body.iter().filter(|byte| matches!(byte, b'{' | b'[')).count();
    if values.saturating_mul(VALUE_BYTES) > limits.decoded_bytes {
        return Err(RequestError::TooComplex);
    }
    // serde also reads a message from the array of its fields.
    if !body.trim_ascii_start().starts_with(b"{") {
        return Err(RequestError::malformed("invalid JSON: expected an object"));
    }
    let is_small = values.saturating_mul(TREE_BYTES) <= limits.decoded_bytes;
    match signal {
        Signal::Traces => convert::<ExportTraceServiceRequest>(body, is_small),
        Signal::Metrics => convert::<ExportMetricsServiceRequest>(body, is_small),
        Signal::Logs => convert::<ExportLogsServiceRequest>(body, is_small),
    }
}

fn convert<T: DeserializeOwned + Message>(
    body: &[u8],
    is_small: bool,
) -> Result<Vec<u8>, RequestError> {
    let read = serde_json::from_slice(body);
    let read: Result<T, _> = match read {
        // The messages' own parser requires what may be omitted, as the SDK for Python does.
        Err(error) if is_small => {
            serde_json::from_slice(body).map_err(|_| error).and_then(|mut tree: Value| {
                complete_lists(&mut tree);
                serde_json::from_value(tree)
            })
        }
        read => read,
    };
    let request =
        read.map_err(|error| RequestError::malformed(format!("invalid JSON: {error}")))?;
    Ok(request.encode_to_vec())
}

/// Adds the values of lists that have none.
fn complete_lists(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(complete_lists),
        Value::Object(fields) => {
            for (key, field) in fields {
                if let ("arrayValue" | "kvlistValue", Value::Object(list)) =
                    (key.as_str(), &mut *field)
                {
                    list.entry("values").or_insert_with(|| Value::Array(Vec::new()));
                }
                complete_lists(field);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::any_value;

    use super::*;

    #[test]
    fn lists_without_values_are_empty() {
        let body = br#"{"resourceLogs":[{"resource":{"attributes":[
            {"key":"a","value":{"arrayValue":{}}},{"key":"b","value":{"kvlistValue":{}}},
            {"key":"c","value":{"arrayValue":{"values":[{"arrayValue":{}}]}}}]}}]}"#;
        let protobuf = to_protobuf(Signal::Logs, body, &Limits::default()).unwrap();
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
}
