//! Until when the time of GPUs is claimed, so that after a restart every second is claimed once, in a sum or as a gap: the
//! ledger, and what is kept of it.

#![forbid(unsafe_code)]

mod format;
mod ledger;
#[cfg(test)]
mod tests;

pub use self::format::{Content, InstantFormat, Restored, State};
pub use self::ledger::Ledger;
