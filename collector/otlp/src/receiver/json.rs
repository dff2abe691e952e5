//! Requests of http/json: converted to protobuf, in which they are queued and sent.
//!
//! Must not depend on the transport.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message;
use serde::de::DeserializeOwned;

use super::error::RequestError;
use super::limits::Limits;
use crate::signal::Signal;

/// The memory of an object or array: that of a span. Most are far smaller.
const VALUE_BYTES: usize = 384;

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
    match signal {
        Signal::Traces => convert::<ExportTraceServiceRequest>(body),
        Signal::Metrics => convert::<ExportMetricsServiceRequest>(body),
        Signal::Logs => convert::<ExportLogsServiceRequest>(body),
    }
}

fn convert<T: DeserializeOwned + Message>(body: &[u8]) -> Result<Vec<u8>, RequestError> {
    let request: T = serde_json::from_slice(body)
        .map_err(|error| RequestError::malformed(format!("invalid JSON: {error}")))?;
    Ok(request.encode_to_vec())
}
