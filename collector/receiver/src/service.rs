//! Serves one request: finds its service, reads and inspects it, and hands it over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response};
use hyper::body::Incoming;
use prost::Message;

use super::accept::{LargeRequests, ReadRequest};
use super::body::PendingBody;
use super::budget::{Budget, Reservation};
use super::decompress::Encoding;
use super::error::RequestError;
use super::grpc;
use super::inspect::Rejected;
use super::limits::Limits;
use super::response::{self, Format, ResponseBody};
use super::security::BearerToken;
use super::stats::ReceiverStats;
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::Signal;

const GRPC_ENCODING: &str = "grpc-encoding";

/// What all connections share.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) limits: Limits,
    pub(super) token: Option<BearerToken>,
    pub(super) budget: Budget,
    pub(super) requests: Sender<EncodedRequest>,
    pub(super) stats: Arc<ReceiverStats>,
    /// Number of requests that are being read.
    pub(super) reading: AtomicUsize,
    pub(super) large: LargeRequests,
}

/// The transport of a request, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Transport {
    Grpc,
    Http(Format),
}

impl Service {
    /// Serves a request. `admit` is called if its client may send.
    pub(super) async fn serve(
        &self,
        request: Request<Incoming>,
        admit: &(dyn Fn() + Sync),
    ) -> Response<ResponseBody> {
        let (parts, body) = request.into_parts();
        let transport = transport(&parts.headers);
        let outcome = match transport {
            None => Err(without_transport(&parts)),
            Some(transport) => self.accept(transport, &parts, body, admit).await,
        };
        self.stats.count(&outcome);
        match (outcome, transport) {
            (Ok((_, rejected)), Some(Transport::Grpc)) => {
                grpc::response(&response::accepted(rejected.as_ref()).encode_to_vec())
            }
            (Ok((signal, rejected)), Some(Transport::Http(format))) => {
                response::response(signal, format, &response::accepted(rejected.as_ref()))
            }
            (Err(error), Some(Transport::Grpc)) => grpc::rejection(&error, &self.limits),
            (Err(error), Some(Transport::Http(format))) => {
                response::rejection(&error, format, &self.limits)
            }
            (outcome, None) => {
                let error = outcome.err().unwrap_or(RequestError::MediaType);
                response::rejection(&error, Format::Json, &self.limits)
            }
        }
    }

    async fn accept(
        &self,
        transport: Transport,
        parts: &Parts,
        body: Incoming,
        admit: &(dyn Fn() + Sync),
    ) -> Result<(Signal, Option<Rejected>), RequestError> {
        let path = parts.uri.path();
        let find = |is: &dyn Fn(Signal) -> bool| Signal::ALL.into_iter().find(|it| is(*it));
        let signal = match transport {
            Transport::Grpc => find(&|signal| signal.grpc_method() == path),
            Transport::Http(_) => find(&|signal| signal.http_path() == path),
        };
        let signal = signal.ok_or(RequestError::NotFound)?;
        if parts.method != Method::POST {
            return Err(RequestError::Method);
        }
        if self.token.as_ref().is_some_and(|token| !token.permits(&parts.headers)) {
            return Err(RequestError::Unauthorized);
        }
        admit();
        let limit = self.limits.request_bytes
            + match transport {
                Transport::Grpc => grpc::PREFIX_BYTES,
                Transport::Http(_) => 0,
            };
        let body = PendingBody::begin(body, limit, &self.limits).await?;
        let _reading = self.begin_reading().ok_or(RequestError::Exhausted)?;
        let reservation = self.budget.begin().ok_or(RequestError::Exhausted)?;
        let request = self.read(signal, transport, parts, body, reservation).await?;
        let (parts, rejected) = request.accept_in_turn(&self.limits, &self.large).await?;
        for received in parts.into_iter().filter(|it| it.items() > 0) {
            self.requests.send(received).map_err(|_| RequestError::Closed)?;
        }
        Ok((signal, rejected))
    }

    /// The request, decompressed.
    async fn read(
        &self,
        signal: Signal,
        transport: Transport,
        parts: &Parts,
        body: PendingBody,
        mut reservation: Reservation,
    ) -> Result<ReadRequest, RequestError> {
        // What cannot be decompressed is not read.
        let named = match transport {
            Transport::Grpc => None,
            Transport::Http(_) => Some(Encoding::named(header(parts, CONTENT_ENCODING.as_str()))?),
        };
        let body = body.read(&self.limits, &mut reservation).await?;
        let (body, encoding) = match named {
            Some(encoding) => (body, encoding),
            None => grpc::message(body, header(parts, GRPC_ENCODING))?,
        };
        let body = encoding.decompress(body, self.limits.request_bytes, &mut reservation)?;
        let format = match transport {
            Transport::Grpc => Format::Protobuf,
            Transport::Http(format) => format,
        };
        Ok(ReadRequest { signal, format, body, reservation })
    }

    /// Counts a request as being read, until the result is dropped; `None` if there are too many.
    fn begin_reading(&self) -> Option<Reading<'_>> {
        let reading = Reading(&self.reading);
        let before = self.reading.fetch_add(1, Ordering::Relaxed);
        (before < self.limits.concurrent_requests).then_some(reading)
    }
}

/// A request that is being read.
struct Reading<'a>(&'a AtomicUsize);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The transport by content type, with any parameters.
fn transport(headers: &HeaderMap) -> Option<Transport> {
    let kind = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/grpc" | "application/grpc+proto" => Some(Transport::Grpc),
        "application/x-protobuf" => Some(Transport::Http(Format::Protobuf)),
        "application/json" => Some(Transport::Http(Format::Json)),
        _ => None,
    }
}

/// Why a request without a known content type is rejected: a browser or a probe asks for a page, most often.
fn without_transport(parts: &Parts) -> RequestError {
    let path = parts.uri.path();
    if !Signal::ALL.into_iter().any(|it| it.http_path() == path || it.grpc_method() == path) {
        RequestError::NotFound
    } else if parts.method != Method::POST {
        RequestError::Method
    } else {
        RequestError::MediaType
    }
}

fn header<'a>(parts: &'a Parts, name: &str) -> Option<&'a str> {
    // A value that is not text names an unknown encoding.
    parts.headers.get(name).map(|value| value.to_str().unwrap_or("unreadable"))
}
