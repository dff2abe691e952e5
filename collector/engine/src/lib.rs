//! What runs: it samples, meters, prices, evaluates policies, exports, and describes itself.
//!
//! ```text
//! source (sampler, gateway) → pipeline → requests, results
//!                             └ policies, pricing ┘
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

#[cfg(feature = "full")]
pub mod agent;
pub mod alert_rules;
#[cfg(feature = "full")]
pub mod detectors;
pub mod environment;
#[cfg(feature = "full")]
pub mod gateway;
#[cfg(feature = "full")]
pub mod health;
#[cfg(feature = "full")]
pub mod host;
#[cfg(feature = "full")]
pub mod instance;
#[cfg(feature = "full")]
pub mod live;
#[cfg(feature = "full")]
pub mod own_gpus;
pub mod pipeline;
pub mod policies;
pub mod pricing;
pub mod resource;
#[cfg(feature = "full")]
pub mod sampler;
#[cfg(feature = "full")]
pub mod slot;
#[cfg(feature = "full")]
pub mod slurm;
#[cfg(feature = "full")]
pub mod telemetry;
pub mod work;

/// The name of the service that Phasemeter is.
const NAME: &str = "phasemeter";
