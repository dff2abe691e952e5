//! Bodies of http/json: requests from their protobuf encoding, and responses.
//!
//! Requests are queued as protobuf, a fraction of their size as JSON.

use std::io;

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use serde_json::Value;

use crate::json;
use crate::request::EncodedRequest;
use crate::signal::Signal;

/// The JSON of a request that is encoded as protobuf.
pub(super) fn from_protobuf(signal: Signal, body: Bytes) -> io::Result<Bytes> {
    let mut json = Vec::new();
    json::write(&EncodedRequest::new(signal, 0, body).decode()?, &mut json)?;
    Ok(json.into())
}

/// The response of any signal; `None` if the body is not one.
pub(super) fn response(body: &[u8]) -> Option<ExportTraceServiceResponse> {
    let Ok(Value::Object(response)) = serde_json::from_slice(body) else { return None };
    let partial_success = match response.get("partialSuccess") {
        None | Some(Value::Null) => None,
        Some(Value::Object(partial)) => {
            let rejected = Signal::ALL.iter().find_map(|it| partial.get(it.rejected_field()));
            let message = partial.get("errorMessage").and_then(Value::as_str);
            Some(ExportTracePartialSuccess {
                rejected_spans: rejected.map_or(Some(0), integer)?,
                error_message: message.unwrap_or_default().to_owned(),
            })
        }
        Some(_) => return None,
    };
    Some(ExportTraceServiceResponse { partial_success })
}

/// The message of a `google.rpc.Status`, if the body is one.
pub(super) fn status_message(body: &[u8]) -> Option<String> {
    let json: Value = serde_json::from_slice(body).ok()?;
    Some(json.get("message")?.as_str()?.to_owned())
}

/// An integer as a number, or as a string, as the protocol encodes 64 bits.
fn integer(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.parse().ok())
}
