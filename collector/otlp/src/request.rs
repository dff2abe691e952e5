//! Export requests, and their encoded form: encoded once, so that a retry sends the same bytes.
//! Must not depend on what the data means.

use bytes::Bytes;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::metrics::v1::Metric;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use prost::Message;

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

/// One encoded request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRequest {
    signal: Signal,
    items: u64,
    body: Bytes,
}

impl EncodedRequest {
    /// A request that is already encoded, and the number of its spans, data points or log records.
    /// A request without items is never sent.
    #[must_use]
    pub const fn new(signal: Signal, items: u64, body: Bytes) -> Self {
        Self { signal, items, body }
    }

    /// Counts spans.
    #[must_use]
    pub fn traces(request: &ExportTraceServiceRequest) -> Self {
        let scopes = request.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        let items = scopes.map(|scope| len(&scope.spans)).sum();
        Self::new(Signal::Traces, items, encode(request))
    }

    /// Counts data points.
    #[must_use]
    pub fn metrics(request: &ExportMetricsServiceRequest) -> Self {
        let scopes = request.resource_metrics.iter().flat_map(|resource| &resource.scope_metrics);
        let items = scopes.flat_map(|scope| &scope.metrics).map(data_points).sum();
        Self::new(Signal::Metrics, items, encode(request))
    }

    /// Counts log records.
    #[must_use]
    pub fn logs(request: &ExportLogsServiceRequest) -> Self {
        let scopes = request.resource_logs.iter().flat_map(|resource| &resource.scope_logs);
        let items = scopes.map(|scope| len(&scope.log_records)).sum();
        Self::new(Signal::Logs, items, encode(request))
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
}

fn encode(request: &impl Message) -> Bytes {
    request.encode_to_vec().into()
}

fn data_points(metric: &Metric) -> u64 {
    match &metric.data {
        None => 0,
        Some(Data::Gauge(gauge)) => len(&gauge.data_points),
        Some(Data::Sum(sum)) => len(&sum.data_points),
        Some(Data::Histogram(histogram)) => len(&histogram.data_points),
        Some(Data::ExponentialHistogram(histogram)) => len(&histogram.data_points),
        Some(Data::Summary(summary)) => len(&summary.data_points),
    }
}

const fn len<T>(items: &[T]) -> u64 {
    items.len() as u64
}
