//! How long a polled reading holds: a reading covers an interval, not an instant.
//!
//! A value polled at t covers the time to the next reading of that GPU, but at most `max_hold`:
//! after that nothing is known. This room must not know what the readings say.

use crate::units::{Nanos, Timestamp};

/// The intervals from which the cadence of a log is told.
const INTERVALS: usize = 101;

/// A reading holds this many times the cadence.
const CADENCES: u64 = 3;

/// A reading holds at least this long, however fast the cadence.
const LEAST: Nanos = Nanos::SECOND;

/// How `max_hold` is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxHold {
    /// Three times the median of the first 101 intervals, at least one second: for logs, whose
    /// cadence nobody stated.
    Estimated,
    /// As stated.
    Fixed(Nanos),
}

impl MaxHold {
    /// Of readings polled every `cadence`.
    #[must_use]
    pub fn of_cadence(cadence: Nanos) -> Self {
        Self::Fixed(cadence.saturating_mul(CADENCES).max(LEAST))
    }

    /// Where it is known from the start.
    #[must_use]
    pub const fn stated(self) -> Option<Nanos> {
        match self {
            Self::Estimated => None,
            Self::Fixed(hold) => Some(hold),
        }
    }
}

/// The number of readings to wait for before [`estimate`] says its last word.
pub const READINGS: usize = INTERVALS + 1;

/// `max_hold` as estimated from the times of the first readings, in order: 3 × the median of the
/// first 101 intervals (the upper one where there are two), at least 1 s.
#[must_use]
pub fn estimate(times: impl Iterator<Item = Timestamp> + Clone) -> Nanos {
    let later = times.clone().skip(1);
    let mut intervals: Vec<_> = times.zip(later).map(|(a, b)| b.since(a)).take(INTERVALS).collect();
    intervals.sort_unstable();
    let median = intervals.get(intervals.len() / 2).copied().unwrap_or_default();
    median.saturating_mul(CADENCES).max(LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_seconds(seconds: &[u64]) -> Nanos {
        estimate(seconds.iter().map(|s| Timestamp::from_millis(s * 1_000).unwrap()))
    }

    #[test]
    fn three_times_the_upper_median_but_at_least_a_second() {
        assert_eq!(of_seconds(&[]), Nanos::SECOND);
        assert_eq!(of_seconds(&[5]), Nanos::SECOND);
        assert_eq!(of_seconds(&[0, 10, 20, 30]), Nanos::from_secs(30));
        assert_eq!(of_seconds(&[0, 1, 3]), Nanos::from_secs(6));
        let fast = (0..200).map(|i| Timestamp::from_millis(i * 100).unwrap());
        assert_eq!(estimate(fast), Nanos::SECOND);
    }

    #[test]
    fn only_the_first_101_intervals_count() {
        let fast = (0..=51_u64).map(|s| s * 2);
        let slow = (1..=500_u64).map(|s| 102 + s * 60);
        let all: Vec<u64> = fast.chain(slow).collect();
        assert_eq!(of_seconds(&all), Nanos::from_secs(6));
    }
}
