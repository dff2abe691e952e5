//! What advice promises: to save a fraction of the bill of some GPUs, on a pool of waste or on an
//! axis of its own.
//!
//! This room must not know what is advised, nor whether it is counted.

use super::estimate::Estimate;
use super::fraction::Fraction;
use crate::pool::Pool;

/// Fractions of a bill: 0 ≤ low ≤ expected ≤ high ≤ 1.
pub type Saving = Estimate<Fraction>;

/// What advice acts on: a pool of waste, or an axis of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Waste, of which no more can be saved than there is.
    Pool(Pool),
    /// What an hour gets done.
    Throughput,
    /// What an hour costs.
    Rate,
}

impl Target {
    /// Every target, in the order in which they are counted.
    pub const ALL: [Self; 5] = [
        Self::Pool(Pool::Starvation),
        Self::Pool(Pool::Idle),
        Self::Pool(Pool::Occupancy),
        Self::Throughput,
        Self::Rate,
    ];

    /// As it stands in reports and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pool(pool) => pool.name(),
            Self::Throughput => "throughput",
            Self::Rate => "rate",
        }
    }
}

/// One piece of advice, as far as savings go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advice<'a> {
    /// Who gave it.
    pub policy: &'a str,
    /// What that policy calls it.
    pub code: &'a str,
    /// What it acts on.
    pub target: Target,
    /// What it saves, of the bill of `gpus`.
    pub saving: Saving,
    /// The GPUs it is for.
    pub gpus: &'a [String],
}
