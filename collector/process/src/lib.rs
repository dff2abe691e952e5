//! Signals and child processes, for a program that runs another one as if it were not there, its local
//! time, the state of its clock, its resident pages, its standard error, and the command lines and launchers of other
//! processes.
//!
//! The standard library neither blocks nor receives signals, changes what a command inherits, and waits for its own
//! children only; it has no time zones, and releases no pages. A crate of its own, so that the sidecar forbids unsafe code.

#![allow(unsafe_code, reason = "calls C functions, and one of its own before main")]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod children;
mod clock_state;
mod launch;
mod launcher;
mod local_time;
mod program_pages;
mod search;
mod signals;
#[allow(clippy::disallowed_methods, reason = "what others use instead")]
pub mod standard_error;
mod table;

pub use children::{is_in_own_group, reap_others};
pub use clock_state::ClockState;
pub use launch::{inherit_launch, is_ignored_at_launch};
pub use launcher::{Launched, Launcher};
pub use local_time::utc_offset;
pub use program_pages::release_program_pages;
pub use search::{LaunchedProcess, LauncherSearch};
pub use signals::{ReceivedSignal, SignalSet, die_by, end_now, send};
pub use table::{ProcessId, ProcessTable};

/// The result of a C function that returns -1 and sets `errno` on failure.
fn check(result: libc::c_int) -> std::io::Result<libc::c_int> {
    if result == -1 { Err(std::io::Error::last_os_error()) } else { Ok(result) }
}
