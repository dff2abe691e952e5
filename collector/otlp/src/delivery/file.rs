//! OTLP in a file: JSON, one export request a line, as the file exporter of the Collector writes.
//!
//! Whatever `opentelemetry-proto` writes against the protocol is put right here. This room must
//! not know what is in a request.

use std::io::{self, Write};

use serde_json::Value;

use crate::request::Request;

/// Writes requests to a file.
#[derive(Debug)]
pub struct OtlpFile<W>(W);

impl<W: Write> OtlpFile<W> {
    /// Writes to `out`, which should be buffered.
    pub const fn new(out: W) -> Self {
        Self(out)
    }

    /// Writes one line.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn write(&mut self, request: &Request) -> io::Result<()> {
        let mut json = match request {
            Request::Metrics(request) => serde_json::to_value(request)?,
            Request::Traces(request) => serde_json::to_value(request)?,
            Request::Logs(request) => serde_json::to_value(request)?,
        };
        leave_out_defaults(&mut json);
        serde_json::to_writer(&mut self.0, &json)?;
        self.0.write_all(b"\n")
    }

    /// All is written.
    ///
    /// # Errors
    /// Where it cannot be written.
    pub fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Leaves out what says nothing. The derived JSON has `null` for an optional number without a
/// value, which the Collector refuses, and names every field that is empty, zero or false.
/// 64-bit numbers are text there, and stay but for times; so does what a choice holds: the members
/// of `AnyValue` all end in `Value`.
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

/// Doubles are never left out: zero is a value of theirs.
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
