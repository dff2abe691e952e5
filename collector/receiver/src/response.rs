//! Responses of OTLP/HTTP, and what both transports report.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, Full};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;
use serde_json::json;
use tonic_types::pb;

use super::decompress::Encoding;
use super::error::RequestError;
use super::inspect::Rejected;
use super::limits::Limits;
use phasemeter_otlp::Signal;

/// The body of any response.
pub(super) type ResponseBody = BoxBody<Bytes, Infallible>;

/// The format of a request and of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Protobuf,
    Json,
}

impl Format {
    const fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        })
    }
}

/// No body.
pub(super) fn empty() -> ResponseBody {
    Empty::new().boxed()
}

/// The message of a response. Those of the three signals are identical on the wire. How many items
/// were in a malformed element is unknown, so each counts as one.
pub(super) fn accepted(rejected: Option<&Rejected>) -> ExportTraceServiceResponse {
    let partial_success = rejected.map(|rejected| ExportTracePartialSuccess {
        rejected_spans: i64::try_from(rejected.elements).unwrap_or(i64::MAX),
        error_message: format!("malformed: {}", rejected.reason),
    });
    ExportTraceServiceResponse { partial_success }
}

/// A successful response.
pub(super) fn response(
    signal: Signal,
    format: Format,
    message: &ExportTraceServiceResponse,
) -> Response<ResponseBody> {
    let body = match format {
        Format::Protobuf => message.encode_to_vec(),
        Format::Json => json_response(signal, message),
    };
    with_body(StatusCode::OK, format, body)
}

fn json_response(signal: Signal, message: &ExportTraceServiceResponse) -> Vec<u8> {
    let response = match &message.partial_success {
        None => json!({}),
        Some(partial) => json!({"partialSuccess": {
            signal.rejected_field(): partial.rejected_spans.to_string(),
            "errorMessage": partial.error_message,
        }}),
    };
    response.to_string().into_bytes()
}

/// The response to a rejected request.
pub(super) fn rejection(
    error: &RequestError,
    format: Format,
    limits: &Limits,
) -> Response<ResponseBody> {
    let (status, code) = error.status();
    let (code, message) = (code as i32, error.to_string());
    let body = match format {
        Format::Protobuf => pb::Status { code, message, details: Vec::new() }.encode_to_vec(),
        Format::Json => json!({"code": code, "message": message}).to_string().into_bytes(),
    };
    let mut response = with_body(status, format, body);
    let headers = response.headers_mut();
    if error.is_retryable() {
        // In whole seconds, at least one.
        headers.insert(RETRY_AFTER, HeaderValue::from(limits.retry_after.as_secs().max(1)));
    }
    match error {
        RequestError::Unauthorized => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        RequestError::Encoding => {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(Encoding::NAMES));
        }
        _ => {}
    }
    response
}

fn with_body(status: StatusCode, format: Format, body: Vec<u8>) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(Bytes::from(body)).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, format.content_type());
    response
}
