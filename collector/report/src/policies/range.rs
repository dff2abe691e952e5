//! Estimates: low, expected and high.

use phasemeter_meter::money::NanoUsd;
use phasemeter_savings::estimate::Estimate;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::recommendation::Saving;
use serde::Serialize;

use crate::Usd;

/// An estimate: low ≤ expected ≤ high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range<T> {
    /// Pessimistic.
    pub low: T,
    /// Expected.
    pub expected: T,
    /// Optimistic.
    pub high: T,
}

impl From<Saving> for Range<f64> {
    fn from(saving: Saving) -> Self {
        let Estimate { low, expected, high } = saving.map(Fraction::as_f64);
        Self { low, expected, high }
    }
}

impl From<Estimate<NanoUsd>> for Range<Usd> {
    fn from(money: Estimate<NanoUsd>) -> Self {
        let Estimate { low, expected, high } = money.map(Usd);
        Self { low, expected, high }
    }
}
