//! Export requests, split to a maximum size, and their encoded form: encoded once, so that a retry
//! sends the same bytes.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
#[cfg(feature = "full")]
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use prost::{DecodeError, Message};

use crate::items::Items;
use crate::signal::Signal;

/// One export request.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Metrics.
    Metrics(ExportMetricsServiceRequest),
    /// Spans.
    Traces(ExportTraceServiceRequest),
    /// Log records.
    Logs(ExportLogsServiceRequest),
}

impl Request {
    /// The metrics of an SDK.
    #[cfg(feature = "full")]
    #[must_use]
    pub fn from_sdk(metrics: &ResourceMetrics) -> Self {
        Self::Metrics(metrics.into())
    }

    /// Splits the request into the requests to send in its place, in order: each has at most
    /// `most_bytes` when encoded, or a single item, which cannot be split.
    #[must_use]
    pub fn split(self, most_bytes: usize) -> Vec<Self> {
        let mut parts = Vec::new();
        match self {
            Self::Metrics(all) => split(all, most_bytes, &mut |it| parts.push(Self::Metrics(it))),
            Self::Traces(all) => split(all, most_bytes, &mut |it| parts.push(Self::Traces(it))),
            Self::Logs(all) => split(all, most_bytes, &mut |it| parts.push(Self::Logs(it))),
        }
        parts
    }

    /// Encodes the request for the client.
    #[must_use]
    pub fn encode(&self) -> EncodedRequest {
        match self {
            Self::Metrics(request) => EncodedRequest::metrics(request),
            Self::Traces(request) => EncodedRequest::traces(request),
            Self::Logs(request) => EncodedRequest::logs(request),
        }
    }
}

/// One encoded request. A clone shares its bytes. Those of an accepted request count as in flight until the last
/// reference to them is dropped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRequest {
    signal: Signal,
    items: u64,
    body: Bytes,
    note: Bytes,
}

impl EncodedRequest {
    /// A request that is already encoded, and the number of its spans, data points or log records.
    /// A request without items is never sent.
    #[must_use]
    pub const fn new(signal: Signal, items: u64, body: Bytes) -> Self {
        Self { signal, items, body, note: Bytes::new() }
    }

    /// Counts spans.
    #[must_use]
    pub fn traces(request: &ExportTraceServiceRequest) -> Self {
        encode(Signal::Traces, request)
    }

    /// Counts data points.
    #[must_use]
    pub fn metrics(request: &ExportMetricsServiceRequest) -> Self {
        encode(Signal::Metrics, request)
    }

    /// Counts log records.
    #[must_use]
    pub fn logs(request: &ExportLogsServiceRequest) -> Self {
        encode(Signal::Logs, request)
    }

    /// The signal.
    #[must_use]
    pub const fn signal(&self) -> Signal {
        self.signal
    }

    /// Number of spans, data points or log records.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.items
    }

    /// The encoded request, before compression.
    #[must_use]
    pub const fn body(&self) -> &Bytes {
        &self.body
    }

    /// The same without a copy, and the note.
    #[must_use]
    pub fn into_parts(self) -> (Bytes, Bytes) {
        (self.body, self.note)
    }

    /// The same with a note that is stored with it, and not sent: what a later process is to know of it.
    #[must_use]
    pub fn with_note(self, note: Bytes) -> Self {
        Self { note, ..self }
    }

    /// What is stored with it; empty if nothing is.
    #[must_use]
    pub const fn note(&self) -> &Bytes {
        &self.note
    }

    /// Decodes the request. The result takes several times the memory of the body, so decode one request at a
    /// time.
    ///
    /// # Errors
    /// Returns an error if the body is malformed. That of an accepted request is not.
    pub fn decode(&self) -> Result<Request, DecodeError> {
        let body = self.body.clone();
        Ok(match self.signal {
            Signal::Traces => Request::Traces(Message::decode(body)?),
            Signal::Metrics => Request::Metrics(Message::decode(body)?),
            Signal::Logs => Request::Logs(Message::decode(body)?),
        })
    }
}

fn encode(signal: Signal, request: &(impl Items + Message)) -> EncodedRequest {
    EncodedRequest::new(signal, request.count() as u64, request.encode_to_vec().into())
}

/// Halves a request until each part fits.
fn split<T: Items + Message>(mut request: T, most_bytes: usize, emit: &mut impl FnMut(T)) {
    let items = request.count();
    if items <= 1 || request.encoded_len() <= most_bytes {
        return emit(request);
    }
    let second = request.split_after(items / 2);
    split(request, most_bytes, emit);
    split(second, most_bytes, emit);
}
