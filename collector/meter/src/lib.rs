//! The pure core of Phasemeter: readings become phases, phases become dollars.
//!
//! ```text
//! Reading → order, hold → Timeline → Piece → Tariff → Charge → Accounts, Pools, Segments
//! ```
//!
//! [`gpu::GpuMeter`] is the whole line of one GPU; each room of it is a module here, grouped
//! below. Nothing here does I/O, reads a clock, logs or waits: time is an argument, and the same
//! readings give the same accounts. It cannot fail but on bad input, which constructors refuse.
//! Memory does not grow with the length of a run.

#![forbid(unsafe_code)]

// What everything is said in.
pub mod device_metric;
pub mod money;
pub mod reading;
pub mod units;

// The line: readings in order, covering time, cut into seconds, charged, oracle_account.
pub mod accounts;
pub mod accrual;
mod config;
pub mod gpu;
mod ledger;
pub mod phase;
pub mod reorder;
pub mod span;
pub mod staleness;
pub mod timeline;
pub mod waste;

// What is measured beside it.
pub mod distribution;
pub mod energy;
pub mod median;
pub mod pattern;
pub mod series;
pub mod update_period;
pub mod utilization_feed;

// What things cost.
mod csv;
pub mod date;
pub mod gpu_specs;
pub mod price;

// What reports and policies read.
pub mod columns;
pub mod percent;
pub mod projection;
pub mod savings;
pub mod summary;
