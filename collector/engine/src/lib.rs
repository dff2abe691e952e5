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
pub mod gateway;
#[cfg(feature = "full")]
pub mod health;
#[cfg(feature = "full")]
pub mod live;
pub mod pipeline;
pub mod policies;
pub mod pricing;
#[cfg(feature = "full")]
pub mod sampler;
#[cfg(feature = "full")]
#[cfg(feature = "full")]
pub mod telemetry;
pub mod work;
