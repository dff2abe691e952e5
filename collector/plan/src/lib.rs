//! Plans: which GPU, how many, on which payment plan, shared how.
//!
//! ```text
//! request of one question → its typed result → Worksheet → text, JSON
//! ```
//!
//! One file per question. Each result carries what it was computed from, and turns into a
//! [`worksheet::Worksheet`]: values, tables, formulas with the numbers put in, and assumptions. No I/O,
//! no clock, no logging. Money is an integer; physical quantities are doubles.

#![forbid(unsafe_code)]

// Values.
pub mod error;
mod format;
pub mod profile;
pub mod units;
pub mod worksheet;

// Questions.
pub mod batching;
pub mod capacity;
pub mod commitment;
pub mod memory;
pub mod own;
pub mod prices;
pub mod select;
pub mod sharing;
pub mod spot;
