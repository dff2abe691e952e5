//! Why a request is rejected, and its status in both protocols.

use http::StatusCode;
use tonic::Code;

/// Maximum length of a reason.
const REASON_CHARS: usize = 200;

/// Why a request is rejected. One clear sentence for the client.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RequestError {
    #[error("authorization: missing or wrong; send the header authorization: Bearer TOKEN")]
    Unauthorized,
    #[error(
        "path: not an OTLP service; expected /v1/traces, /v1/metrics, /v1/logs or a gRPC Export"
    )]
    NotFound,
    #[error("method: not allowed; use POST")]
    Method,
    #[error(
        "content-type: not supported; use application/x-protobuf, application/json or application/grpc"
    )]
    MediaType,
    #[error("compression: not supported; use gzip, zstd or none")]
    Encoding,
    #[error(
        "request: larger than {limit} bytes; send smaller batches, or raise --max-request-body-size"
    )]
    TooLarge { limit: usize },
    #[error("request: takes too much memory when decoded; send smaller batches")]
    TooComplex,
    #[error("request: malformed: {reason}")]
    Malformed { reason: String },
    #[error("request: not received in time; send it faster")]
    Timeout,
    #[error("receiver: out of capacity; retry later")]
    Exhausted,
    #[error("receiver: shutting down; retry later")]
    Closed,
}

impl RequestError {
    /// The reason may quote the request: it is shortened to one line.
    pub(super) fn malformed(reason: impl AsRef<str>) -> Self {
        let reason = reason.as_ref().chars().take(REASON_CHARS);
        let reason = reason.map(|c| if c.is_control() { ' ' } else { c });
        Self::Malformed { reason: reason.collect() }
    }

    /// Whether the client should send the request again, after a delay.
    pub(super) const fn is_retryable(&self) -> bool {
        matches!(self, Self::Exhausted | Self::Closed)
    }

    /// Its status in HTTP and in gRPC. `RESOURCE_EXHAUSTED` alone means that a retry is pointless; with `RetryInfo` it
    /// is not. What is too large has none.
    pub(super) const fn status(&self) -> (StatusCode, Code) {
        match self {
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, Code::Unauthenticated),
            Self::NotFound => (StatusCode::NOT_FOUND, Code::Unimplemented),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, Code::Unimplemented),
            Self::MediaType | Self::Encoding => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, Code::Unimplemented)
            }
            Self::TooLarge { .. } | Self::TooComplex => {
                (StatusCode::PAYLOAD_TOO_LARGE, Code::ResourceExhausted)
            }
            Self::Malformed { .. } => (StatusCode::BAD_REQUEST, Code::InvalidArgument),
            Self::Timeout => (StatusCode::REQUEST_TIMEOUT, Code::DeadlineExceeded),
            Self::Exhausted => (StatusCode::TOO_MANY_REQUESTS, Code::ResourceExhausted),
            Self::Closed => (StatusCode::SERVICE_UNAVAILABLE, Code::Unavailable),
        }
    }
}
