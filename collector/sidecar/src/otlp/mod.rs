//! What goes on the wire: OTLP requests, made from what the meters say.
//!
//! ```text
//! GpuMeter → Observer of its GPU → Exporter → Request → file, client
//! ```
//!
//! The only place that knows the types of the protocol. A [`Request`] is a value: this room must
//! not know where it goes, and the meters must not know that there is one.

mod accounts;
mod advice;
mod batch;
pub mod client;
mod events;
mod exemplars;
mod exporter;
mod file;
mod gpu;
mod hardware;
mod histogram;
mod instruments;
mod labels;
mod measurements;
mod settings;
mod spans;
mod utilization;
mod values;

pub use events::{EventKind, GpuEvent};
pub use exporter::{Exporter, GpuObserver};
pub use file::OtlpFile;
pub use gpu::GpuExport;
pub use labels::GpuDescription;
pub use settings::{Aggregation, ExportSettings};

use client::Export;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;

/// One export request, as a backend gets it.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Points of metrics.
    Metrics(ExportMetricsServiceRequest),
    /// Spans.
    Traces(ExportTraceServiceRequest),
    /// Events.
    Logs(ExportLogsServiceRequest),
}

impl Request {
    /// As a client keeps and sends it.
    #[must_use]
    pub fn encode(&self) -> Export {
        match self {
            Self::Metrics(request) => Export::metrics(request),
            Self::Traces(request) => Export::traces(request),
            Self::Logs(request) => Export::logs(request),
        }
    }
}
