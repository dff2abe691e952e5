//! Until when the time of GPUs is claimed, so that after a restart every second is claimed once, in a sum or as a gap: the
//! ledger, what is kept of it in the data directory, and what a run does with it.
//!
//! A request that claims time is stored with what it claims, a note, by delivery. What notes say is in a file, too, since they are
//! removed once their requests are delivered.

#![forbid(unsafe_code)]

mod earlier;
mod file;
mod format;
mod ledger;
mod run;
#[cfg(test)]
mod tests;

pub use self::earlier::keep_notes;
pub use self::file::{ClaimsError, NAME, Writing};
pub use self::format::{Content, InstantFormat, Restored, State};
pub use self::run::{Claims, HeldRequests};
