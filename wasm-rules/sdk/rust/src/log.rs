//! The one thing a policy may ask of the host: to write a line to its log.
//!
//! In a native test the lines go to standard error.

/// For whoever develops the policy.
pub fn debug(message: &str) {
    write(Level::Debug, message);
}

/// What an operator may want to know: what could not be judged, and for lack of what.
pub fn info(message: &str) {
    write(Level::Info, message);
}

/// What an operator should look at.
pub fn warn(message: &str) {
    write(Level::Warn, message);
}

use crate::bindings::prices::phasemeter::policy::log::Level;

#[cfg(target_arch = "wasm32")]
fn write(level: Level, message: &str) {
    crate::bindings::prices::phasemeter::policy::log::log(level, message);
}

#[cfg(not(target_arch = "wasm32"))]
fn write(level: Level, message: &str) {
    eprintln!("{level:?}: {message}");
}
