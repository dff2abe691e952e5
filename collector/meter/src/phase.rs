//! Phases, and the accounts to which time and cost are posted.
//!
//! A phase is the utilization class of one second, by the mean utilization of its observed part.

use std::fmt;

use crate::units::{Nanos, Utilization};

/// The utilization class of one second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// Below 10%.
    Idle,
    /// From 10% to below 70%.
    Underutilized,
    /// From 70% to below 90%.
    Productive,
    /// 90% and above.
    ComputeBound,
}

/// The utilization bounds between phases. Each bound belongs to the higher phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    idle: Utilization,
    productive: Utilization,
    compute_bound: Utilization,
}

/// As configured: `10%, 70%, 90%`.
impl fmt::Display for Thresholds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.idle, self.productive, self.compute_bound)
    }
}

/// The bounds are out of range or not ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected ascending percentages above 0 and up to 100, such as 10,70,90")]
pub struct ThresholdError;

impl Default for Thresholds {
    fn default() -> Self {
        Self { idle: percent(10), productive: percent(70), compute_bound: percent(90) }
    }
}

/// From a percentage known to be valid.
const fn percent(percent: u32) -> Utilization {
    match Utilization::from_percent(percent) {
        Some(utilization) => utilization,
        None => Utilization::FULL,
    }
}

impl Thresholds {
    /// Creates thresholds: idle below the first, underutilized below the second, productive below
    /// the third, compute-bound from there on.
    ///
    /// # Errors
    /// Returns an error unless 0 < `idle` < `productive` < `compute_bound`.
    pub fn new(
        idle: Utilization,
        productive: Utilization,
        compute_bound: Utilization,
    ) -> Result<Self, ThresholdError> {
        if Utilization::ZERO < idle && idle < productive && productive < compute_bound {
            Ok(Self { idle, productive, compute_bound })
        } else {
            Err(ThresholdError)
        }
    }

    /// The bounds: idle below the first, productive from the second, compute-bound from the third.
    #[must_use]
    pub const fn bounds(&self) -> [Utilization; 3] {
        [self.idle, self.productive, self.compute_bound]
    }

    /// The phase of `observed` time whose Σ utilization × time is `weighted` ppm·ns. Exact: nothing
    /// is divided, so a mean just below a bound stays below it.
    #[must_use]
    pub fn classify(&self, weighted: u64, observed: Nanos) -> Phase {
        let below = |bound: Utilization| {
            u128::from(weighted) < u128::from(bound.ppm()) * u128::from(observed.0)
        };
        if below(self.idle) {
            Phase::Idle
        } else if below(self.productive) {
            Phase::Underutilized
        } else if below(self.compute_bound) {
            Phase::Productive
        } else {
            Phase::ComputeBound
        }
    }
}

/// Whether a GPU is held: by a compute process, by more than 1% of its memory in use, or by an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// No reading has reported it.
    Unknown,
    /// Not held.
    Free,
    /// Held.
    Held,
}

/// The leaf accounts. Every nanosecond and every nano-dollar of a GPU is in exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Account {
    /// Idle and held.
    IdleHeld,
    /// Idle and free.
    IdleFree,
    /// Idle, with held or free unknown.
    IdleUnknown,
    /// [`Phase::Underutilized`].
    Underutilized,
    /// [`Phase::Productive`].
    Productive,
    /// [`Phase::ComputeBound`].
    ComputeBound,
    /// Not covered by a reading with utilization. Never counted as idle or zero.
    Unobserved,
}

impl Account {
    /// All accounts, in report order.
    pub const ALL: [Self; 7] = [
        Self::IdleHeld,
        Self::IdleFree,
        Self::IdleUnknown,
        Self::Underutilized,
        Self::Productive,
        Self::ComputeBound,
        Self::Unobserved,
    ];

    /// The accounts of observed time.
    pub const OBSERVED: [Self; 6] = [
        Self::IdleHeld,
        Self::IdleFree,
        Self::IdleUnknown,
        Self::Underutilized,
        Self::Productive,
        Self::ComputeBound,
    ];

    /// The accounts of idle time.
    pub const IDLE: [Self; 3] = [Self::IdleHeld, Self::IdleFree, Self::IdleUnknown];

    /// The accounts of time at work.
    pub const WORKING: [Self; 3] = [Self::Underutilized, Self::Productive, Self::ComputeBound];

    /// The account of a second in this phase.
    #[must_use]
    pub const fn of(phase: Phase, holding: Holding) -> Self {
        match (phase, holding) {
            (Phase::Idle, Holding::Held) => Self::IdleHeld,
            (Phase::Idle, Holding::Free) => Self::IdleFree,
            (Phase::Idle, Holding::Unknown) => Self::IdleUnknown,
            (Phase::Underutilized, _) => Self::Underutilized,
            (Phase::Productive, _) => Self::Productive,
            (Phase::ComputeBound, _) => Self::ComputeBound,
        }
    }

    /// The phase of this account; `None` for unobserved time.
    #[must_use]
    pub const fn phase(self) -> Option<Phase> {
        match self {
            Self::IdleHeld | Self::IdleFree | Self::IdleUnknown => Some(Phase::Idle),
            Self::Underutilized => Some(Phase::Underutilized),
            Self::Productive => Some(Phase::Productive),
            Self::ComputeBound => Some(Phase::ComputeBound),
            Self::Unobserved => None,
        }
    }

    /// The value of the attribute `phasemeter.phase` on metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::IdleHeld => "idle_held",
            Self::IdleFree => "idle_free",
            Self::IdleUnknown => "idle_unknown",
            Self::Underutilized => "underutilized",
            Self::Productive => "productive",
            Self::ComputeBound => "compute_bound",
            Self::Unobserved => "unobserved",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase_of(ppm: u64) -> Phase {
        Thresholds::default().classify(ppm * 1_000_000_000, Nanos::SECOND)
    }

    /// Below 10% idle, below 70% underutilized, below 90% productive.
    #[test]
    fn bounds_belong_to_higher_phase() {
        assert_eq!(phase_of(0), Phase::Idle);
        assert_eq!(phase_of(99_999), Phase::Idle);
        assert_eq!(phase_of(100_000), Phase::Underutilized);
        assert_eq!(phase_of(699_999), Phase::Underutilized);
        assert_eq!(phase_of(700_000), Phase::Productive);
        assert_eq!(phase_of(899_999), Phase::Productive);
        assert_eq!(phase_of(900_000), Phase::ComputeBound);
        assert_eq!(phase_of(1_000_000), Phase::ComputeBound);
    }

    #[test]
    fn thresholds_reject_unordered_bounds() {
        let p = |n| Utilization::from_percent(n).unwrap();
        assert!(Thresholds::new(p(0), p(70), p(90)).is_err());
        assert!(Thresholds::new(p(70), p(70), p(90)).is_err());
        assert!(Thresholds::new(p(5), p(50), p(95)).is_ok());
    }
}
