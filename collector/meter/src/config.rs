//! How a GPU is metered: what a user may decide, and what holds where they do not.

use crate::hold::MaxHold;
use crate::phase::Thresholds;
use crate::reading::Basis;
use crate::units::Nanos;

/// How a GPU is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeterConfig {
    /// Where one phase ends and the next begins.
    pub thresholds: Thresholds,
    /// How late a reading may come.
    pub lateness: Nanos,
    /// How long a reading holds.
    pub max_hold: MaxHold,
    /// The shortest phase span.
    pub min_span: Nanos,
    /// The measure that the bill is made from; what polling reads where it says nothing.
    pub basis: Basis,
    /// The observer is told of the state at multiples of this, whole seconds; zero for never.
    pub boundary_every: Nanos,
}

impl MeterConfig {
    /// How late a reading in a log may be.
    pub const LOG_LATENESS: Nanos = Nanos::from_secs(2);

    /// How late a live reading may be: a driver's ring of samples is drained every 10 s.
    pub const LIVE_LATENESS: Nanos = Nanos::from_secs(15);

    /// The shortest span a person wants to see.
    pub const MIN_SPAN: Nanos = Nanos::from_secs(5);
}

/// As for logs; no boundaries.
impl Default for MeterConfig {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            lateness: Self::LOG_LATENESS,
            max_hold: MaxHold::Estimated,
            min_span: Self::MIN_SPAN,
            basis: Basis::NvmlGpu,
            boundary_every: Nanos::ZERO,
        }
    }
}
