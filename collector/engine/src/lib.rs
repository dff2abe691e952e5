//! What runs: it samples, meters, prices, evaluates policies, exports, and describes itself.
//!
//! ```text
//! source (sampler, gateway) → pipeline → requests, results
//!                             └ policies, pricing ┘
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod alert_rules;
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
#[cfg(feature = "live")]
pub mod live;
pub mod pipeline;
pub mod policies;
pub mod pricing;
pub mod resource;
#[cfg(feature = "live")]
pub mod sampler;
#[cfg(feature = "live")]
pub mod slot;
#[cfg(feature = "live")]
pub mod slurm;
#[cfg(feature = "live")]
pub mod telemetry;
pub mod work;

/// The name of the service that Phasemeter is.
const NAME: &str = "phasemeter";
