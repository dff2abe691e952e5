//! OTLP over HTTP, as protobuf or JSON: one POST per request, HTTP/1.1.

use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::Compression as Level;
use flate2::bufread::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_util::client::legacy;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tonic_types::pb;

use super::config::{Compression, Protocol, Target};
use super::connector::Connector;
use super::json;
use super::operations::{Attempt, CONNECTION_ERROR, ResponseStatus};
use super::response::{ExportResponse, printable};
use crate::signal::Signal;

/// Maximum number of bytes read from a response. The protocol's own take a few hundred.
const ANSWER_BYTES: usize = 64 * 1024;
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// One URL on one backend.
pub(super) struct Http {
    signal: Signal,
    is_json: bool,
    client: legacy::Client<Connector, Full<Bytes>>,
    uri: Uri,
    compression: Compression,
    hint: Option<&'static str>,
}

impl Http {
    pub(super) fn new(
        signal: Signal,
        target: &Target,
        client: legacy::Client<Connector, Full<Bytes>>,
    ) -> Self {
        let is_json = target.protocol == Protocol::HttpJson;
        let uri = target.endpoint.uri.clone();
        let (compression, hint) = (target.compression, target.hint());
        Self { signal, is_json, client, uri, compression, hint }
    }

    pub(super) async fn send(&self, body: Bytes, headers: &HeaderMap) -> Attempt {
        let body = match self.encode(body) {
            Ok(body) => body,
            Err(error) => {
                let response = ExportResponse::Rejected { reason: error.to_string() };
                return Attempt::unanswered(response, "encoding_error");
            }
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        let own = request.headers_mut();
        own.clone_from(headers);
        own.insert(CONTENT_TYPE, if self.is_json { JSON } else { PROTOBUF });
        if self.compression == Compression::Gzip {
            own.insert(CONTENT_ENCODING, GZIP);
        }
        match self.client.request(request).await {
            Err(error) => {
                let response = ExportResponse::unreachable(&error, self.hint);
                Attempt::unanswered(response, CONNECTION_ERROR)
            }
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let body = match Limited::new(body, ANSWER_BYTES).collect().await {
                    Ok(body) => body.to_bytes(),
                    // Of an error, the status is enough.
                    Err(_) if !parts.status.is_success() => Bytes::new(),
                    Err(error) if error.is::<LengthLimitError>() => {
                        let status = parts.status.as_str();
                        let response = ExportResponse::unreadable(status, "over 64 KiB");
                        return Attempt::answered(response, response_status(&parts));
                    }
                    Err(error) => {
                        let response = ExportResponse::unreachable(&*error, self.hint);
                        return Attempt::unanswered(response, CONNECTION_ERROR);
                    }
                };
                Attempt::of_http(&parts, &body)
            }
        }
    }

    /// The body of a request, from protobuf. The same request gives the same bytes.
    fn encode(&self, body: Bytes) -> io::Result<Bytes> {
        let body = if self.is_json { json::from_protobuf(self.signal, body)? } else { body };
        match self.compression {
            Compression::None => Ok(body),
            Compression::Gzip => gzip(&body),
        }
    }
}

impl Attempt {
    /// With a response of HTTP.
    #[must_use]
    pub fn of_http(parts: &Parts, body: &Bytes) -> Self {
        Self::answered(classify(parts, body), response_status(parts))
    }
}

const fn response_status(parts: &Parts) -> ResponseStatus {
    ResponseStatus::Http(parts.status.as_u16())
}

/// Classifies a response by the protocol's list of retryable statuses.
fn classify(parts: &Parts, body: &Bytes) -> ExportResponse {
    if parts.status.is_success() {
        return export_response(parts, body).map_or_else(
            || {
                ExportResponse::unreadable(
                    &parts.status.to_string(),
                    &String::from_utf8_lossy(body),
                )
            },
            ExportResponse::accepted,
        );
    }
    let reason = reason(parts, body);
    match parts.status {
        StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => {
            let after = parts.headers.get(RETRY_AFTER);
            ExportResponse::Retry {
                after: after.and_then(|v| retry_after(v, SystemTime::now())),
                reason,
            }
        }
        _ => ExportResponse::Rejected { reason },
    }
}

/// The status, and the message in the body: a `google.rpc.Status`, or any text.
fn reason(parts: &Parts, body: &Bytes) -> String {
    let message = match parts.headers.get(CONTENT_TYPE) {
        Some(kind) if kind == PROTOBUF => {
            Some(pb::Status::decode(body.clone()).unwrap_or_default().message)
        }
        _ if is_json(parts) => json::status_message(body),
        _ => None,
    };
    let message = message.unwrap_or_else(|| String::from_utf8_lossy(body).into_owned());
    match printable(&message) {
        message if message.is_empty() => parts.status.to_string(),
        message => format!("{}: {message}", parts.status),
    }
}

/// The response in the body of a success; `None` if it is not one of OTLP. An empty body is one in any
/// encoding: nothing was rejected.
fn export_response(parts: &Parts, body: &Bytes) -> Option<ExportTraceServiceResponse> {
    let protobuf = || ExportTraceServiceResponse::decode(body.clone()).ok();
    match media_type(parts) {
        _ if body.is_empty() => Some(ExportTraceServiceResponse::default()),
        // A server may not name the type of its JSON.
        Some(kind) if is_json(parts) || kind.starts_with("text/") => json::response(body),
        Some(_) => protobuf(),
        None => protobuf().or_else(|| json::response(body)),
    }
}

/// Whether the response is JSON, with any parameters.
fn is_json(parts: &Parts) -> bool {
    media_type(parts).is_some_and(|kind| kind == "application/json")
}

/// The media type of the body in lower case, without parameters.
fn media_type(parts: &Parts) -> Option<String> {
    let kind = parts.headers.get(CONTENT_TYPE)?.to_str().ok()?;
    Some(kind.split(';').next()?.trim().to_ascii_lowercase())
}

/// The delay in seconds, or from `now` to a date.
fn retry_after(value: &HeaderValue, now: SystemTime) -> Option<Duration> {
    let text = value.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

/// Gives the same bytes for the same input: the header holds no time.
fn gzip(body: &[u8]) -> io::Result<Bytes> {
    let mut smaller = Vec::new();
    GzEncoder::new(body, Level::default()).read_to_end(&mut smaller)?;
    Ok(smaller.into())
}

#[cfg(test)]
mod tests {
    use super::{Bytes, ExportResponse, HeaderValue, StatusCode, classify, retry_after};
    use std::time::{Duration, SystemTime};

    fn response(status: StatusCode) -> ExportResponse {
        let response = http::Response::builder().status(status).body(()).unwrap();
        classify(&response.into_parts().0, &Bytes::from_static(b"<h1>no</h1>"))
    }

    #[test]
    fn retryable_statuses_match_specification() {
        let retryable: Vec<u16> = (300..=599)
            .filter(|&code| {
                let status = StatusCode::from_u16(code).unwrap();
                matches!(response(status), ExportResponse::Retry { .. })
            })
            .collect();
        assert_eq!(retryable, [429, 502, 503, 504]);
        let reason = "404 Not Found: <h1>no</h1>".to_owned();
        assert_eq!(response(StatusCode::NOT_FOUND), ExportResponse::Rejected { reason });
    }

    #[test]
    fn json_response_is_read_with_any_parameters() {
        let response = |status, body| {
            let kind = "application/json; charset=utf-8";
            let response = http::Response::builder().status(status).header("content-type", kind);
            classify(&response.body(()).unwrap().into_parts().0, &Bytes::from_static(body))
        };
        for rejected in ["Spans", "DataPoints", "LogRecords"] {
            let body = format!(
                "{{\"partialSuccess\":{{\"rejected{rejected}\":\"3\",\"errorMessage\":\"old\"}}}}"
            );
            let accepted = ExportResponse::Accepted { rejected: 3, message: "old".to_owned() };
            assert_eq!(response(StatusCode::OK, body.leak().as_bytes()), accepted);
        }
        let accepted = ExportResponse::Accepted { rejected: 0, message: String::new() };
        for body in [&b"{}"[..], b"{\"partialSuccess\":{}}", b"{\"partialSuccess\":null}", b""] {
            assert_eq!(response(StatusCode::OK, body), accepted);
        }
        let reason = "400 Bad Request: no such tenant".to_owned();
        let body = b"{\"code\":3,\"message\":\"no such tenant\"}";
        let rejected = ExportResponse::Rejected { reason };
        assert_eq!(response(StatusCode::BAD_REQUEST, body), rejected);
    }

    /// A proxy or a login page answers 200, too.
    #[test]
    fn success_is_accepted_only_if_it_is_one_of_otlp() {
        let response = |kind: Option<&str>, body: &[u8]| {
            let response = http::Response::builder().status(StatusCode::OK);
            let response = kind
                .into_iter()
                .fold(response, |response, kind| response.header("content-type", kind));
            let parts = response.body(()).unwrap().into_parts().0;
            classify(&parts, &Bytes::copy_from_slice(body))
        };
        let accepted = ExportResponse::Accepted { rejected: 0, message: String::new() };
        let kinds =
            [None, Some("application/x-protobuf"), Some("application/json"), Some("text/html")];
        for kind in kinds {
            assert_eq!(response(kind, b""), accepted, "{kind:?}");
            for body in [&b"<html>log in</html>"[..], b"OK", b"[]", b"\xff\xff"] {
                let ExportResponse::Unreadable { reason } = response(kind, body) else {
                    panic!("{kind:?} {body:?}")
                };
                assert!(reason.starts_with("200 OK, but no OTLP response: "), "{reason}");
            }
        }
        assert_eq!(response(None, b"{}"), accepted);
        assert_eq!(response(Some("text/plain; charset=utf-8"), b"{}\n"), accepted);
        for body in [
            &b"{\"partialSuccess\":[]}"[..],
            b"{\"partialSuccess\":{\"rejectedSpans\":\"some\"}}",
            b"{\"partialSuccess\":{\"rejectedSpans\":-1}}",
            b"{",
        ] {
            let response = response(Some("application/json"), body);
            assert!(matches!(response, ExportResponse::Unreadable { .. }), "{response:?}");
        }
    }

    #[test]
    fn retry_after_accepts_seconds_and_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let after = |value| retry_after(&HeaderValue::from_static(value), now);
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:27 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
