//! The sidecar: commands, sampling, export and reports, that is everything that blocks or fails. The
//! semantics of phases and costs are in `phasemeter-meter`.
//!
//! ```text
//! source (sampler, clock) → pipeline → otlp, report
//!                           └ policies ┘
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod alert_rules;
pub mod cli;
pub mod command;
#[cfg(feature = "live")]
pub mod detectors;
pub mod environment;
#[cfg(feature = "gateway")]
pub mod gateway;
#[cfg(feature = "gateway")]
pub mod health;
#[cfg(feature = "live")]
pub mod host;
#[cfg(feature = "live")]
pub mod instance;
pub mod log;
mod log_limit;
pub mod pipeline;
#[cfg(feature = "plan")]
pub mod plan;
pub mod policies;
#[cfg(feature = "plan")]
pub mod price_import;
pub mod pricing;
pub mod report;
pub mod resource;
#[cfg(feature = "live")]
pub mod sampler;
#[cfg(feature = "live")]
pub mod slot;
#[cfg(feature = "live")]
pub mod slurm;
#[allow(clippy::disallowed_methods, reason = "what others use instead")]
pub mod standard_error;
#[cfg(feature = "live")]
pub mod telemetry;
pub mod usage;
