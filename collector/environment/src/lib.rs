//! The environment of this process: its variables, the machine, container and pod that it runs in, which GPUs are its
//! own, and by what it is identified.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

#[cfg(feature = "full")]
pub mod detectors;
#[cfg(feature = "full")]
pub mod host;
#[cfg(feature = "full")]
pub mod instance;
#[cfg(feature = "full")]
pub mod job;
pub mod location;
#[cfg(feature = "full")]
pub mod own_gpus;
pub mod resource;
#[cfg(feature = "full")]
pub mod slot;
pub mod variables;

/// The name of the service that Phasemeter is.
pub const NAME: &str = "phasemeter";
