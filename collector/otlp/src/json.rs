//! The JSON encoding of requests.
//!
//! Corrects what `opentelemetry-proto` serializes differently from the protocol.

use std::io::{self, Write};

use serde_json::Value;

use crate::request::Request;

/// Writes a request without line breaks.
pub(crate) fn write(request: &Request, out: impl Write) -> io::Result<()> {
    let mut json = match request {
        Request::Metrics(request) => serde_json::to_value(request)?,
        Request::Traces(request) => serde_json::to_value(request)?,
        Request::Logs(request) => serde_json::to_value(request)?,
    };
    leave_out_defaults(&mut json);
    Ok(serde_json::to_writer(out, &json)?)
}

/// Omits fields with default values. The derived JSON has `null` for a missing optional number,
/// which the Collector rejects, and contains every empty, zero or false field. 64-bit numbers are
/// strings there and stay, except for timestamps; so do members of a oneof: those of `AnyValue` all
/// end in `Value`.
fn leave_out_defaults(json: &mut Value) {
    match json {
        Value::Object(fields) => {
            fields.retain(|name, value| match name {
                _ if name.ends_with("Value") => true,
                _ if name.ends_with("UnixNano") => value != "0",
                _ => !is_default(value),
            });
            fields.values_mut().for_each(leave_out_defaults);
        }
        Value::Array(elements) => elements.iter_mut().for_each(leave_out_defaults),
        _ => {}
    }
}

/// Doubles are kept: zero is a valid value.
fn is_default(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(value) => value.as_u64() == Some(0),
        Value::String(value) => value.is_empty(),
        Value::Array(value) => value.is_empty(),
        Value::Object(_) => false,
    }
}
