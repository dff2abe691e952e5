//! The spans of a sweep, and when each begins and ends.

use phasemeter_meter::units::Timestamp;

use crate::adjusted_count::AdjustedCount;

/// A span that may be active.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// Weight ÷ duration; `None` if it takes the mean.
    pub(crate) rate: Option<f64>,
    /// The number of spans that it represents, which share the time with it.
    pub(crate) count: AdjustedCount,
    /// Indices of the candidates that it is nested in.
    pub(crate) ancestors: Vec<usize>,
}

impl Candidate {
    /// Units of a single span.
    pub(crate) const UNITS: u128 = 1 << AdjustedCount::UNIT_BITS;

    /// The spans that it represents, in units of an [`AdjustedCount`].
    pub(crate) fn units(&self) -> u128 {
        self.count.units().into()
    }
}

/// The start or end of a candidate. Ends precede starts of the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) at: Timestamp,
    pub(crate) is_start: bool,
    pub(crate) index: usize,
}
