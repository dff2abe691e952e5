//! Advice: which policies are in use, what they are shown, and what they say.
//!
//! ```text
//! Shelf → Policies ─one generation→ Verdicts → report, OTLP
//! meters → Window ──────────────────┘
//! ```
//!
//! A policy that fails costs its verdict, and says so; readings and the bill never depend on one.
//! This room must not know how advice is shown, nor what the savings add up to.

mod choice;
mod in_use;
mod policies;
mod quotes;
mod shelf;
mod shipped;
mod tally;
mod verdict;
mod window;
mod worker;

pub use choice::{Cache, Choice, OpenError};
pub use in_use::{InUse, Watched};
pub use policies::Policies;
pub use quotes::{Answer, Asked, QuoteEnd, Quoted, Quotes};
pub use tally::{Member, Tallies, Tally};
pub use verdict::{Verdict, Verdicts};
pub use window::{Shown, window};
pub use worker::Worker;
