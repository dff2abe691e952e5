//! Any response of a backend.

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response};
use phasemeter_otlp::delivery::Attempt;

/// Statuses of each kind.
const STATUSES: [u16; 10] = [200, 202, 204, 301, 400, 401, 404, 429, 500, 503];

/// The response of a backend is accepted, refused, or to be tried again; its message is short and one line. The first byte
/// is its status, then come the type of its content and when to try again, a line each, and its body.
pub(crate) fn backend_response(bytes: &[u8]) {
    let Some((&status, rest)) = bytes.split_first() else { return };
    let mut parts = rest.splitn(3, |byte| *byte == b'\n');
    let mut response = Response::builder().status(STATUSES[usize::from(status) % STATUSES.len()]);
    for header in [CONTENT_TYPE, RETRY_AFTER] {
        if let Some(Ok(value)) = parts.next().map(HeaderValue::from_bytes) {
            response = response.header(header, value);
        }
    }
    let body = Bytes::copy_from_slice(parts.next().unwrap_or_default());
    let (parts, body) = response.body(body).unwrap().into_parts();
    let attempt = Attempt::of_http(&parts, &body);
    let message = attempt.message();
    assert!(!message.chars().any(char::is_control) && message.len() < 2_000, "{message:?}");
    assert!(attempt.is_accepted() || !message.is_empty());
    assert!(parts.status.is_success() || !attempt.is_accepted());
}
