//! The binary: what each command does with the engine and the report.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod command;
pub mod log;
mod log_limit;
pub mod usage;
pub mod variables;
mod version;

pub use phasemeter_process::standard_error;
