//! What Phasemeter promises, proved from outside: the binary as users run it.
//!
//! ```text
//! log, made or recorded ─→ phasemeter ─→ report, OTLP file ─┐
//!           └─→ naive reader ─→ oracle ─────────────────────┴─→ the same
//! ```
//!
//! Nothing here may read a log, work out a phase or add up a bill with the product's own code.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a test may fail, and its numbers are small"
)]

// What the tests stand on.
mod calendar;
mod chance;
mod logs;
mod naive;
#[path = "../oracle/mod.rs"]
mod oracle;
#[path = "../otlp/mod.rs"]
mod otlp;
mod phasemeter;
#[path = "../../rules/tests/support/mod.rs"]
mod policies;
mod report;

// What must hold.
mod advice;
mod demo;
mod fixtures;
mod golden;
mod hostile;
mod prices;
mod sameness;
mod seeds;
mod status;
mod trace;
mod truth;
