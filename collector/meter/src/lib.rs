//! The pure core of Phasemeter: readings become phases, phases become dollars.
//!
//! ```text
//! Reading → ReorderBuffer → Timeline → TimeSlice → Accrual → Charge → Accounts, waste, spans
//! ```
//!
//! [`gpu::GpuMeter`] is the whole pipeline of one GPU; its stages are the modules below. There is
//! no I/O, clock, logging or waiting here: time is an argument, and the same readings always give
//! the same accounts. Nothing fails except on invalid input, which constructors reject. Memory does
//! not grow with the length of a run.

#![forbid(unsafe_code)]

// Values and units.
pub mod apportion;
mod basis;
pub mod date;
mod device_means;
pub mod device_meter;
pub mod device_metric;
pub mod device_state;
pub mod device_totals;
mod device_tracker;
mod energy_basis;
pub mod energy_source;
mod gpu_identity;
pub mod holder;
pub mod holder_details;
pub mod instant;
pub mod instrument;
pub mod label_filter;
mod missing_reason;
pub mod money;
pub mod quantity;
pub mod reading;
pub mod rise;
mod share;
#[cfg(feature = "serde")]
mod shared;
pub mod units;
pub mod vendor;
pub mod wall_time;
pub mod work_group;
pub mod work_unit;

// The pipeline: order readings, cut time into seconds, charge it, post it.
pub mod accounts;
pub mod accrual;
mod config;
pub mod gpu;
pub mod holders;
mod ledger;
pub mod periods;
pub mod phase;
pub mod presence;
pub mod reorder;
pub mod span;
pub mod staleness;
pub mod timeline;
pub mod waste;

// Measurements beside the pipeline.
pub mod activity;
pub mod alert;
pub mod contradiction;
pub mod distribution;
pub mod ends;
pub mod energy;
pub mod energy_meter;
pub mod histogram;
pub mod lengths;
pub mod median;
pub mod pattern;
pub mod pauses;
pub mod power_histogram;
pub mod sensors;
pub mod series;
pub mod stillness;
pub mod update_period;
pub mod utilization_feed;

// Prices and specifications.
pub mod csv;
pub mod gpu_specs;
pub mod mig;
pub mod price;

// Inputs of reports and policies.
pub mod columns;
pub mod gpu_name;
pub mod memory_pool;
pub mod projection;
pub mod summary;
mod wall_offset;
