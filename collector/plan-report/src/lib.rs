//! Results of `phasemeter plan` as text and JSON, and the measured values of reports that they use.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

pub mod json;
mod measured;
mod priced;
mod table;
pub mod text;

pub use measured::{Measured, MeasuredGpu};
pub use priced::PlanPrice;

use phasemeter_plan::worksheet::Worksheet;

/// A result with its question and prices.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanReport {
    /// The question: `commitment`.
    pub question: &'static str,
    /// The result.
    pub worksheet: Worksheet,
    /// The prices of the price book or of a report that it uses.
    pub prices: Vec<PlanPrice>,
}
