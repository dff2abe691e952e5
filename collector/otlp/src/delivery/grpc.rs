//! OTLP over gRPC. The request is already encoded: gRPC only frames it.

use std::error::Error;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes};
use http::HeaderMap;
use http::uri::PathAndQuery;
use hyper_util::client::legacy;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceResponse;
use prost::Message;
use tonic::body::Body;
use tonic::codec::{Codec, CompressionEncoding, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Status, client};
use tonic_types::StatusExt;

use super::config::{Compression, Target};
use super::connector::Connector;
use super::operations::{Attempt, CONNECTION_ERROR, ResponseStatus};
use super::response::{ExportResponse, printable};
use crate::signal::Signal;

/// The service of one signal on one backend.
pub(super) struct Grpc {
    client: client::Grpc<legacy::Client<Connector, Body>>,
    method: PathAndQuery,
    timeout: Duration,
    hint: Option<&'static str>,
}

impl Grpc {
    pub(super) fn new(
        signal: Signal,
        target: &Target,
        client: legacy::Client<Connector, Body>,
    ) -> Self {
        let client = client::Grpc::with_origin(client, target.endpoint.uri.clone());
        let client = match target.compression {
            Compression::None => client,
            Compression::Gzip => client.send_compressed(CompressionEncoding::Gzip),
        };
        Self {
            client: client.accept_compressed(CompressionEncoding::Gzip),
            method: PathAndQuery::from_static(signal.grpc_method()),
            timeout: target.timeout,
            hint: target.hint(),
        }
    }

    pub(super) async fn send(&mut self, body: Bytes, headers: &HeaderMap) -> Attempt {
        if let Err(error) = self.client.ready().await {
            let response = ExportResponse::unreachable(&error, self.hint);
            return Attempt::unanswered(response, CONNECTION_ERROR);
        }
        let mut request = Request::new(body);
        *request.metadata_mut() = MetadataMap::from_headers(headers.clone());
        request.set_timeout(self.timeout);
        match self.client.unary(request, self.method.clone(), Encoded).await {
            Ok(response) => {
                let response = response.into_inner().map_or_else(
                    || ExportResponse::unreadable(name(Code::Ok), "malformed protobuf"),
                    ExportResponse::accepted,
                );
                Attempt::answered(response, ResponseStatus::Grpc(name(Code::Ok)))
            }
            Err(status) => match classify(&status, self.hint) {
                response if status.source().is_some() => {
                    Attempt::unanswered(response, CONNECTION_ERROR)
                }
                response => Attempt::answered(response, ResponseStatus::Grpc(name(status.code()))),
            },
        }
    }
}

/// The protocol's list of retryable codes.
const RETRYABLE: [Code; 6] = [
    Code::Cancelled,
    Code::DeadlineExceeded,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unavailable,
    Code::DataLoss,
];

/// Classifies a status by its code.
fn classify(status: &Status, hint: Option<&str>) -> ExportResponse {
    // A status with a source was created on this side: the connection failed before the response.
    if let Some(error) = status.source() {
        return ExportResponse::unreachable(error, hint);
    }
    let reason = match printable(status.message()) {
        message if message.is_empty() => format!("{:?}", status.code()),
        message => format!("{:?}: {message}", status.code()),
    };
    let retry_info = status.get_details_retry_info();
    // ResourceExhausted with RetryInfo means that the backend expects to recover.
    let is_retryable = match status.code() {
        Code::ResourceExhausted => retry_info.is_some(),
        code => RETRYABLE.contains(&code),
    };
    if is_retryable {
        ExportResponse::Retry { after: retry_info.and_then(|info| info.retry_delay), reason }
    } else {
        ExportResponse::Rejected { reason }
    }
}

/// The name of a code in the protocol.
const fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
        Code::Cancelled => "CANCELLED",
        Code::Unknown => "UNKNOWN",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::DeadlineExceeded => "DEADLINE_EXCEEDED",
        Code::NotFound => "NOT_FOUND",
        Code::AlreadyExists => "ALREADY_EXISTS",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::ResourceExhausted => "RESOURCE_EXHAUSTED",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::Aborted => "ABORTED",
        Code::OutOfRange => "OUT_OF_RANGE",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Internal => "INTERNAL",
        Code::Unavailable => "UNAVAILABLE",
        Code::DataLoss => "DATA_LOSS",
        Code::Unauthenticated => "UNAUTHENTICATED",
    }
}

/// Requests are already encoded, responses are not.
#[derive(Clone, Copy)]
struct Encoded;

impl Codec for Encoded {
    type Encode = Bytes;
    type Decode = Option<ExportTraceServiceResponse>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Encoded {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, body: Bytes, frame: &mut EncodeBuf<'_>) -> Result<(), Status> {
        frame.reserve(body.len());
        frame.put(body);
        Ok(())
    }
}

impl Decoder for Encoded {
    /// `None` if the message is malformed.
    type Item = Option<ExportTraceServiceResponse>;
    type Error = Status;

    fn decode(&mut self, frame: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let message = frame.copy_to_bytes(frame.remaining());
        Ok(Some(ExportTraceServiceResponse::decode(message).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Code, ExportResponse, classify};
    use std::time::Duration;
    use tonic::Status;
    use tonic_types::{ErrorDetails, StatusExt};

    #[test]
    fn retryable_statuses_match_specification() {
        let retryable: Vec<Code> = (0..17)
            .map(Code::from_i32)
            .filter(|&code| {
                matches!(classify(&Status::new(code, ""), None), ExportResponse::Retry { .. })
            })
            .collect();
        let listed = [
            Code::Cancelled,
            Code::DeadlineExceeded,
            Code::Aborted,
            Code::OutOfRange,
            Code::Unavailable,
            Code::DataLoss,
        ];
        assert_eq!(retryable.len(), listed.len());
        assert!(listed.iter().all(|code| retryable.contains(code)));
    }

    #[test]
    fn resource_exhausted_is_retried_with_retry_info() {
        let exhausted = |details| {
            classify(&Status::with_error_details(Code::ResourceExhausted, "quota\n", details), None)
        };
        let after = Some(Duration::from_millis(1500));
        let reason = "ResourceExhausted: quota".to_owned();
        assert_eq!(
            exhausted(ErrorDetails::with_retry_info(after)),
            ExportResponse::Retry { after, reason: reason.clone() }
        );
        assert_eq!(exhausted(ErrorDetails::new()), ExportResponse::Rejected { reason });
    }
}
