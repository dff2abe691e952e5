//! Staleness: how long a polled reading represents the present.
//!
//! A value polled at t covers the time to the GPU's next reading, but at most `stale_after`; the
//! rest is unobserved. Must not depend on the values of readings.

use crate::units::{Nanos, Timestamp};

/// Intervals used to estimate the reading interval of a log.
const SAMPLED_INTERVALS: usize = 101;

/// A reading is stale after this many reading intervals.
const INTERVALS_UNTIL_STALE: u64 = 3;

/// Lower bound of `stale_after`, however short the reading interval.
const MIN_STALE_AFTER: Nanos = Nanos::SECOND;

/// How `stale_after` is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleAfter {
    /// 3 × the median of the first 101 intervals, at least 1 s: for logs, which do not state their
    /// reading interval.
    Estimated,
    /// As configured.
    Fixed(Nanos),
}

impl StaleAfter {
    /// For readings polled every `interval`.
    #[must_use]
    pub fn from_interval(interval: Nanos) -> Self {
        Self::Fixed(interval.saturating_mul(INTERVALS_UNTIL_STALE).max(MIN_STALE_AFTER))
    }

    /// The configured value; `None` if it is estimated.
    #[must_use]
    pub const fn fixed(self) -> Option<Nanos> {
        match self {
            Self::Estimated => None,
            Self::Fixed(stale_after) => Some(stale_after),
        }
    }
}

/// Number of readings after which the result of [`estimate`] is final.
pub const READINGS_NEEDED: usize = SAMPLED_INTERVALS + 1;

/// Estimates `stale_after` from the times of the first readings, in order: 3 × the median of the
/// first 101 intervals (the upper of two medians), at least 1 s.
#[must_use]
pub fn estimate(times: impl Iterator<Item = Timestamp> + Clone) -> Nanos {
    let later = times.clone().skip(1);
    let mut intervals: Vec<_> =
        times.zip(later).map(|(a, b)| b.since(a)).take(SAMPLED_INTERVALS).collect();
    intervals.sort_unstable();
    let median = intervals.get(intervals.len() / 2).copied().unwrap_or_default();
    median.saturating_mul(INTERVALS_UNTIL_STALE).max(MIN_STALE_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate_of(seconds: &[u64]) -> Nanos {
        estimate(seconds.iter().map(|s| Timestamp::from_millis(s * 1_000).unwrap()))
    }

    #[test]
    fn estimate_is_three_upper_medians_and_at_least_one_second() {
        assert_eq!(estimate_of(&[]), Nanos::SECOND);
        assert_eq!(estimate_of(&[5]), Nanos::SECOND);
        assert_eq!(estimate_of(&[0, 10, 20, 30]), Nanos::from_secs(30));
        assert_eq!(estimate_of(&[0, 1, 3]), Nanos::from_secs(6));
        let fast = (0..200).map(|i| Timestamp::from_millis(i * 100).unwrap());
        assert_eq!(estimate(fast), Nanos::SECOND);
    }

    #[test]
    fn estimate_uses_first_101_intervals() {
        let fast = (0..=51_u64).map(|s| s * 2);
        let slow = (1..=500_u64).map(|s| 102 + s * 60);
        let all: Vec<u64> = fast.chain(slow).collect();
        assert_eq!(estimate_of(&all), Nanos::from_secs(6));
    }
}
