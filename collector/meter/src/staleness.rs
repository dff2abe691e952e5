//! Staleness: how long a polled reading represents the present.
//!
//! A value polled at t covers the time to the GPU's next reading, but at most `stale_after`; the
//! rest is unobserved.

use crate::units::{Nanos, Timestamp};

/// Intervals used to estimate the reading interval of a log.
pub const SAMPLED_INTERVALS: usize = 101;

/// An interval shorter than the upper quartile divided by this is within one tick: rows are written
/// twice, or by two loggers.
const MAX_SPREAD: u64 = 10;

/// A reading is stale after this many reading intervals.
const INTERVALS_UNTIL_STALE: u64 = 3;

/// Lower bound of `stale_after`, however short the reading interval.
const MIN_STALE_AFTER: Nanos = Nanos::SECOND;

/// How `stale_after` is determined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleAfter {
    /// 3 × the median of the first 101 intervals between ticks, at least 1 s: for logs, which do not
    /// state their reading interval.
    Estimated,
    /// As configured.
    Fixed(Nanos),
}

impl StaleAfter {
    /// For readings polled every `interval`.
    #[must_use]
    pub fn from_interval(interval: Nanos) -> Self {
        Self::Fixed(from_interval(interval))
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
/// first 101 intervals (the upper of two medians), at least 1 s. Intervals below a tenth of the one
/// at ⌊3n/4⌋ of n sorted do not count.
#[must_use]
pub fn estimate(times: impl Iterator<Item = Timestamp> + Clone) -> Nanos {
    let later = times.clone().skip(1);
    from_intervals(times.zip(later).map(|(a, b)| b.since(a)).take(SAMPLED_INTERVALS).collect())
}

/// Like [`estimate`], from the first intervals between readings.
#[must_use]
pub fn from_intervals(mut intervals: Vec<Nanos>) -> Nanos {
    intervals.sort_unstable();
    let upper_quartile = intervals.get(intervals.len() * 3 / 4).copied().unwrap_or_default();
    let within_tick =
        intervals.partition_point(|interval| interval.saturating_mul(MAX_SPREAD) < upper_quartile);
    let between_ticks = intervals.get(within_tick..).unwrap_or_default();
    from_interval(between_ticks.get(between_ticks.len() / 2).copied().unwrap_or_default())
}

/// `stale_after` of readings at this interval: 3 × the interval, at least 1 s.
#[must_use]
pub fn from_interval(interval: Nanos) -> Nanos {
    interval.saturating_mul(INTERVALS_UNTIL_STALE).max(MIN_STALE_AFTER)
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
    fn intervals_within_tick_do_not_count() {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        // Each row is written by two loggers 150 ms apart, or three times.
        let loggers = (0..120).map(|row| at(row / 2 * 30_000 + row % 2 * 150));
        assert_eq!(estimate(loggers), Nanos::from_millis(3 * 29_850));
        let repeated = (0..120).map(|row| at(row / 3 * 30_000));
        assert_eq!(estimate(repeated), Nanos::from_secs(90));
        // A tenth of the upper quartile is not below it.
        assert_eq!(
            estimate([0, 1, 2, 3, 13].map(|s| at(s * 1_000)).into_iter()),
            Nanos::from_secs(3)
        );
        assert_eq!(
            estimate([0, 1, 12, 23].map(|s| at(s * 1_000)).into_iter()),
            Nanos::from_secs(33)
        );
    }

    #[test]
    fn estimate_uses_first_101_intervals() {
        let fast = (0..=51_u64).map(|s| s * 2);
        let slow = (1..=500_u64).map(|s| 102 + s * 20);
        let all: Vec<u64> = fast.chain(slow).collect();
        assert_eq!(estimate_of(&all), Nanos::from_secs(6));
    }
}
