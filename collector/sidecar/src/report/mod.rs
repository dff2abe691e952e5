//! The report: what people see of a run.
//!
//! [`Report::build`] makes it once from what the meters know; [`text`] and [`json`] are two views
//! of the same numbers. This room must not know where readings came from, nor look at a clock, a
//! terminal or the environment.

mod advice;
pub mod bar;
mod build;
#[cfg(test)]
mod fleet;
pub mod json;
mod model;
#[cfg(test)]
mod tests;
pub mod text;
mod value;

pub use advice::{
    Fault, GpuSavings, Policy, PoolSavings, Range, Recommendation, Savings, Source, Step,
};
pub use model::*;
pub use value::{Seconds, Usd, Utc};

use crate::advice::{Asked, Verdicts};
use crate::pricing::EarlierPrices;
use phasemeter_meter::gpu::GpuMeter;
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::{Price, Unpriced};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Bytes;

/// Everything a report is made from.
#[derive(Clone, Debug)]
pub struct Input<'a> {
    /// What was metered: `train.csv`, `3 files`, `standard input`, `demo, seed 7`.
    pub title: String,
    /// Whose run it was.
    pub experiment: Experiment,
    /// Where the meters end one phase and begin the next.
    pub thresholds: Thresholds,
    /// The GPUs, in the order of index or first appearance; their meters have finished.
    pub gpus: Vec<GpuInput<'a>>,
    /// Work done, by unit: `("samples", 200_000)`. Of a unit named twice the last counts.
    pub work: Vec<(String, u64)>,
    /// The first rows that were refused; more than [`MOST_REJECTED_ROWS`] are left out.
    pub rejected_rows: Vec<RejectedRow>,
    /// How many were refused in all.
    pub rejected_total: u64,
    /// What had to be assumed, each a sentence without its full stop.
    pub assumptions: Vec<String>,
    /// What policies said.
    pub advice: AdviceInput<'a>,
}

/// What policies said.
#[derive(Clone, Copy, Debug)]
pub struct AdviceInput<'a> {
    /// Of the last window.
    pub verdicts: &'a Verdicts,
    /// Of prices.
    pub asked: &'a [Asked],
    /// Whether it is told how long they took. Not of a log: its report is the same every time.
    pub timed: bool,
}

/// One GPU of a report.
#[derive(Clone, Copy, Debug)]
pub struct GpuInput<'a> {
    /// Who it is.
    pub identity: &'a GpuIdentity,
    /// What is known of it. Its rate is that of `price`, or none.
    pub meter: &'a GpuMeter,
    /// What it costs now, or why nobody knows.
    pub price: &'a Result<Price, Unpriced>,
    /// What it cost before.
    pub earlier: &'a EarlierPrices,
    /// Its memory as measured: from the driver or the log, never from a table of models.
    pub memory_total: Option<Bytes>,
    /// The name of the power its energy is the integral of, where it has no counter: `power.draw`.
    pub power_basis: Option<&'static str>,
}
