//! What a workload reports: work done, checkpoints and experiments; and notices of interruptions.
//!
//! ```text
//! line of the socket → Message ──────────────────────────────┐
//!                                                            ├─→ WorkLedger → totals, by hour,
//! point of a counter → WorkMappings → WorkCounters → HeldWork ┘   since the last checkpoint
//!
//! answer of a metadata service → Watch → Notice
//! ```
//!
//! Pure like the meter: no I/O, no clock, no logging. Time is an argument, and memory is limited.

#![forbid(unsafe_code)]

pub mod counter;
pub mod counters;
pub mod held;
pub mod interruption;
pub mod ledger;
pub mod mapping;
pub mod message;
