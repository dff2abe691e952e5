//! Logs through the host, the only function that a policy may import.
//!
//! Native tests log to standard error.

use crate::bindings::pricer::phasemeter::policy::log::Level;

/// Logs for the author of the policy.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// Logs for operators: what was skipped, and which data was missing.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// Logs what an operator should investigate.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

#[cfg(target_arch = "wasm32")]
fn write(level: Level, message: &str) {
    crate::bindings::pricer::phasemeter::policy::log::log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: Level, message: &str) {
    eprintln!("{level:?}: {message}");
}
