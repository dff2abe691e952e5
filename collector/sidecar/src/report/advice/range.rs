//! What is not known but estimated: low, expected and high.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::savings::estimate::Estimate;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::recommendation::Saving;
use serde::Serialize;

use crate::report::Usd;

/// Three values of one kind: low ≤ expected ≤ high.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range<T> {
    /// At least, if all goes badly.
    pub low: T,
    /// What to count on.
    pub expected: T,
    /// At most, if all goes well.
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
