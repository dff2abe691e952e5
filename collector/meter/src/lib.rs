//! The pure core of Phasemeter: readings become phases, phases become dollars.
//!
//! ```text
//! Reading → (order, hold) → Timeline → Piece → Tariff → Ledger, Spans
//! ```
//!
//! It does no I/O, reads no clock, logs nothing and waits for nothing: time is an argument, and
//! the same readings give the same accounts. It cannot fail but on bad input, which its
//! constructors refuse. Memory does not grow with the length of a run.

pub mod gpu_facts;
pub mod money;
pub mod percent;
pub mod price;
pub mod projection;
pub mod reading;
mod table;
pub mod tariff;
pub mod units;
