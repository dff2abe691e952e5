//! Delivery: carries encoded OTLP to a backend, over gRPC or HTTP, as protobuf or JSON, as the
//! `OTEL_EXPORTER_OTLP_…` variables configure it.
//!
//! A retry sends identical bytes; a backend can receive a request twice, as the protocol allows.
//!
//! ```no_run
//! # use phasemeter_otlp::EncodedRequest;
//! # use phasemeter_otlp::delivery::{Client, Config, Destination};
//! # use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let request = ExportTraceServiceRequest::default();
//! let env = |name: &str| std::env::var(name).ok();
//! if let Some(config) = Config::read(Destination::Environment, env)? {
//!     let client = Client::start(&config)?;
//!     client.enqueue(EncodedRequest::traces(&request));
//!     let outcome = client.flush(std::time::Duration::from_secs(5));
//!     assert!(outcome.all_sent());
//! }
//! # Ok(())
//! # }
//! ```

mod attempt_log;
mod batch;
mod client;
mod config;
mod connector;
mod credentials;
mod flight;
mod grpc;
mod http;
mod json;
mod losses;
mod operations;
mod outcome;
mod probe;
mod queue;
mod resources;
mod response;
mod retry;
mod sdk;
mod sender;
mod storage;
mod task;
mod transport;
mod worker;

pub use phasemeter_outbox::{DataDirectory, DataError};

pub use self::client::{Client, StartError};
pub use self::config::{
    Batching, Config, ConfigError, ConfigErrors, Destination, HEADERS_FILE, MAX_HEADERS,
    QUEUE_BYTES, Target,
};
pub use self::operations::{Attempt, OperationEnd, ResponseStatus};
pub use self::outcome::{Count, DeliveryCounts, Outcome, Receipt, RequestOutcome};
pub use self::probe::{Probe, ProbeAnswer, probe};
pub use self::retry::Retry;
pub use self::sender::{RequestSender, Stats};
pub use self::storage::{Storage, StorageKind, stored_notes};
pub use self::task::{Delivery, DeliveryHandle};
pub use self::transport::Transport;
