//! The pure core of Phasemeter: readings become phases, phases become dollars.
//!
//! ```text
//! Reading → order, hold → Timeline → Piece → Tariff → Charge → Accounts, Pools, Segments
//! ```
//!
//! [`gpu::GpuMeter`] is the whole line of one GPU; each room of it is a module here, in the order
//! in which a reading walks through them. Nothing here does I/O, reads a clock, logs or waits:
//! time is an argument, and the same readings give the same accounts. It cannot fail but on bad
//! input, which constructors refuse. Memory does not grow with the length of a run.

pub mod units;

pub mod reading;

pub mod order;

pub mod hold;

pub mod phase;

pub mod timeline;

pub mod money;

pub mod tariff;

pub mod ledger;

pub mod pattern;

pub mod pool;

pub mod span;

pub mod series;

pub mod distribution;

pub mod median;

pub mod cadence;

pub mod energy;

pub mod summary;

pub mod gpu;
