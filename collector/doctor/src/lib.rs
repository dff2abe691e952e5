//! What `phasemeter doctor` finds: facts, problems and notes about driver, backend, disk and machine, and their page.
//!
//! Most of it is pure: the commands ask the driver and the backend, and this crate says what their answers mean.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod billed;
pub mod calls;
pub mod clock;
mod control_group;
pub mod data;
pub mod endpoint;
pub mod findings;
pub mod holders;
pub mod limits;
pub mod page;
pub mod seen;
pub mod workload;
