//! Live sources of readings: NVML, and metrics of other programs.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod clock;
#[cfg(feature = "full")]
pub mod live;
#[cfg(feature = "full")]
pub mod mapping;
