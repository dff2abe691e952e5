//! OTLP: the experiments that telemetry belongs to, the requests made from meters, and their way
//! to a file or a backend.
//!
//! ```text
//! GpuMeter → Observer → encode::Exporter → Request → {OtlpFile, delivery::Client}
//! ```
//!
//! [`encode`] and [`delivery`] must not depend on each other, on where readings come from, or on policies.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(feature = "full")]
pub mod delivery;
pub mod duration_histogram;
pub mod encode;
mod excerpt;
pub mod experiment;
mod exporter_list;
#[cfg(feature = "full")]
pub mod exposition;
mod file;
pub mod items;
mod json;
mod log_limiter;
pub mod names;
mod request;
#[cfg(feature = "full")]
pub mod rotation;
mod signal;
#[cfg(feature = "full")]
pub mod unix_socket;
#[cfg(feature = "full")]
pub mod wire;

pub use excerpt::excerpt;
pub use exporter_list::ExporterList;
pub use file::OtlpFile;
pub use log_limiter::LogLimiter;
pub use request::{EncodedRequest, Request};
pub use signal::{BySignal, Signal};
