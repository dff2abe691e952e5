//! OTLP over http/protobuf: one POST per request, HTTP/1.1.

use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use flate2::Compression as Level;
use flate2::bufread::GzEncoder;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::response::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::client::legacy;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tonic_types::pb;

use super::config::{Compression, Target};
use super::connector::Connector;
use super::response::{ExportResponse, printable};

/// Maximum number of bytes read from a response. The protocol's own take a few hundred.
const ANSWER_BYTES: usize = 64 * 1024;
const PROTOBUF: HeaderValue = HeaderValue::from_static("application/x-protobuf");
const GZIP: HeaderValue = HeaderValue::from_static("gzip");

/// One URL on one backend.
pub(super) struct Http {
    client: legacy::Client<Connector, Full<Bytes>>,
    uri: Uri,
    headers: HeaderMap,
    compression: Compression,
    hint: Option<&'static str>,
}

impl Http {
    pub(super) fn new(target: &Target, client: legacy::Client<Connector, Full<Bytes>>) -> Self {
        let mut headers = target.headers.clone();
        headers.insert(CONTENT_TYPE, PROTOBUF);
        if target.compression == Compression::Gzip {
            headers.insert(CONTENT_ENCODING, GZIP);
        }
        let uri = target.endpoint.uri.clone();
        Self { client, uri, headers, compression: target.compression, hint: target.hint() }
    }

    pub(super) async fn send(&self, body: Bytes) -> ExportResponse {
        let body = match self.compression {
            Compression::None => body,
            Compression::Gzip => match gzip(&body) {
                Ok(smaller) => smaller,
                Err(error) => return ExportResponse::Rejected { reason: error.to_string() },
            },
        };
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.uri.clone();
        *request.headers_mut() = self.headers.clone();
        match self.client.request(request).await {
            Err(error) => ExportResponse::unreachable(&error, self.hint),
            Ok(response) => {
                let (parts, body) = response.into_parts();
                // The status decides. A truncated body changes nothing.
                let body = Limited::new(body, ANSWER_BYTES).collect().await;
                classify(&parts, &body.map(http_body_util::Collected::to_bytes).unwrap_or_default())
            }
        }
    }
}

/// Classifies a response by the protocol's list of retryable statuses.
fn classify(parts: &Parts, body: &Bytes) -> ExportResponse {
    if parts.status.is_success() {
        return ExportResponse::accepted(
            ExportTraceServiceResponse::decode(body.clone()).unwrap_or_default(),
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
    let message = if parts.headers.get(CONTENT_TYPE) == Some(&PROTOBUF) {
        pb::Status::decode(body.clone()).unwrap_or_default().message
    } else {
        String::from_utf8_lossy(body).into_owned()
    };
    match printable(&message) {
        message if message.is_empty() => parts.status.to_string(),
        message => format!("{}: {message}", parts.status),
    }
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
    fn retry_after_accepts_seconds_and_dates() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        let after = |value| retry_after(&HeaderValue::from_static(value), now);
        assert_eq!(after("120"), Some(Duration::from_secs(120)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:47 GMT"), Some(Duration::from_secs(10)));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:27 GMT"), Some(Duration::ZERO));
        assert_eq!(after("soon"), None);
    }
}
