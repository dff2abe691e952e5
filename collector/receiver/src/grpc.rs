//! Frames of gRPC: one message in, one message out.

use bytes::{BufMut, Bytes};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{BodyExt, Full};
use tonic::Status;
use tonic_types::{ErrorDetails, StatusExt};

use super::decompress::Encoding;
use super::error::RequestError;
use super::limits::Limits;
use super::response::{ResponseBody, empty};

/// A flag and a length.
pub(super) const PREFIX_BYTES: usize = 5;

const GRPC: HeaderValue = HeaderValue::from_static("application/grpc");
const STATUS: &str = "grpc-status";
const ACCEPT_ENCODING: &str = "grpc-accept-encoding";

/// The message of a request, and how it is compressed.
pub(super) fn message(
    mut body: Vec<u8>,
    encoding: Option<&str>,
) -> Result<(Vec<u8>, Encoding), RequestError> {
    let truncated = || RequestError::malformed("truncated gRPC message");
    let (&[flag, a, b, c, d], message) = body.split_first_chunk().ok_or_else(truncated)?;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).map_err(|_| truncated())?;
    if message.len() < length {
        return Err(truncated());
    }
    if message.len() > length {
        return Err(RequestError::malformed("more than one gRPC message"));
    }
    let encoding = match flag {
        0 => Encoding::Identity,
        1 => Encoding::named(encoding)?,
        _ => return Err(RequestError::malformed("invalid gRPC frame")),
    };
    body.drain(..PREFIX_BYTES);
    Ok((body, encoding))
}

/// A successful response.
pub(super) fn response(message: &[u8]) -> Response<ResponseBody> {
    let mut frame = Vec::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).unwrap_or_default());
    frame.put(message);
    let trailers = async {
        let mut trailers = HeaderMap::new();
        trailers.insert(STATUS, HeaderValue::from_static("0"));
        Some(Ok(trailers))
    };
    let body = Full::new(Bytes::from(frame)).with_trailers(trailers).boxed();
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, GRPC);
    response
}

/// The response to a rejected request.
pub(super) fn rejection(error: &RequestError, limits: &Limits) -> Response<ResponseBody> {
    let details = if error.is_retryable() {
        ErrorDetails::with_retry_info(Some(limits.retry_after))
    } else {
        ErrorDetails::new()
    };
    let status = Status::with_error_details(error.status().1, error.to_string(), details);
    let mut response = status.into_http::<()>().map(|()| empty());
    *response.status_mut() = StatusCode::OK;
    if *error == RequestError::Encoding {
        let accepted = HeaderValue::from_static(Encoding::NAMES);
        response.headers_mut().insert(ACCEPT_ENCODING, accepted);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::{Encoding, RequestError, message};

    #[test]
    fn frame_has_exactly_one_message() {
        let frame = |flag: u8, length: u32, body: &[u8]| {
            [&[flag][..], &length.to_be_bytes(), body].concat()
        };
        let read = |frame: Vec<u8>| message(frame, Some("gzip"));
        assert_eq!(read(frame(0, 3, b"abc")).unwrap(), (b"abc".to_vec(), Encoding::Identity));
        assert_eq!(read(frame(1, 3, b"abc")).unwrap().1, Encoding::Gzip);
        for malformed in
            [vec![], vec![0; 4], frame(0, 4, b"abc"), frame(0, 2, b"abc"), frame(2, 0, b"")]
        {
            assert!(matches!(read(malformed), Err(RequestError::Malformed { .. })));
        }
        assert_eq!(message(frame(1, 0, b""), Some("snappy")), Err(RequestError::Encoding));
    }
}
