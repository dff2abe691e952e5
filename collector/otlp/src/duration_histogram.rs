//! A histogram of durations in constant memory, written by one thread and read by any, without a
//! lock.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use phasemeter_meter::units::Nanos;

/// Buckets per power of two: a quantile is at most one eighth above the truth.
const IN_DOUBLING: u64 = 8;

/// Up to 2^40 ns, 18 minutes; longer durations count as that.
const BUCKETS: usize = 8 * 38;

/// A histogram of durations.
#[derive(Debug)]
pub struct Durations {
    counts: [AtomicU32; BUCKETS],
    max: AtomicU64,
}

/// The counts of a histogram at one instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counts([u64; BUCKETS]);

/// Summary of a distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantiles {
    /// Median, to one eighth.
    pub p50: Nanos,
    /// 99th percentile, to one eighth.
    pub p99: Nanos,
    /// Maximum, exact.
    pub max: Nanos,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: [const { AtomicU32::new(0) }; BUCKETS], max: AtomicU64::new(0) }
    }
}

impl Durations {
    /// Records a duration.
    pub fn add(&self, length: Nanos) {
        if let Some(count) = self.counts.get(bucket(length.0)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.max.fetch_max(length.0, Ordering::Relaxed);
    }

    /// The maximum, exact; zero if empty.
    pub fn max(&self) -> Nanos {
        Nanos(self.max.load(Ordering::Relaxed))
    }
}

/// The quantiles of several histograms together; zero if all are empty.
pub fn quantiles<'a>(all: impl Iterator<Item = &'a Durations> + Clone) -> Quantiles {
    let max = all.clone().map(Durations::max).max().unwrap_or_default();
    let Counts(counts) = Counts::of(all);
    let total: u64 = counts.iter().sum();
    let at = |percent: u64| {
        let rank = (total * percent).div_ceil(100).max(1);
        let mut below = 0;
        let bucket = counts.iter().position(|count| {
            below += count;
            below >= rank
        });
        Nanos(bucket.map_or(0, end)).min(max)
    };
    Quantiles { p50: at(50), p99: at(99), max }
}

impl Default for Counts {
    fn default() -> Self {
        Self([0; BUCKETS])
    }
}

impl Counts {
    /// The sum of the counts, now.
    pub fn of<'a>(all: impl Iterator<Item = &'a Durations>) -> Self {
        let mut counts = Self::default();
        for durations in all {
            for (sum, count) in counts.0.iter_mut().zip(&durations.counts) {
                *sum += u64::from(count.load(Ordering::Relaxed));
            }
        }
        counts
    }

    /// The number of durations.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Counts since `before`: a representative duration, within one sixteenth of the truth, and how
    /// often it occurred.
    pub fn since<'a>(&'a self, before: &'a Self) -> impl Iterator<Item = (Nanos, u64)> + 'a {
        let more = self.0.iter().zip(&before.0).map(|(now, before)| now.saturating_sub(*before));
        more.enumerate()
            .filter(|(_, count)| *count > 0)
            .map(|(place, count)| (middle(place), count))
    }
}

/// Small numbers have a bucket each; others are indexed by the three bits after the first.
fn bucket(nanos: u64) -> usize {
    let doubling = u64::from(nanos.max(IN_DOUBLING).ilog2()) - u64::from(IN_DOUBLING.ilog2());
    let bucket = doubling * IN_DOUBLING + (nanos >> doubling);
    usize::try_from(bucket).unwrap_or(usize::MAX).min(BUCKETS - 1)
}

/// The largest number of a bucket.
fn end(bucket: usize) -> u64 {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    let doubling = (bucket / IN_DOUBLING).saturating_sub(1);
    ((bucket - doubling * IN_DOUBLING + 1) << doubling) - 1
}

/// The midpoint of a bucket.
fn middle(bucket: usize) -> Nanos {
    let before = bucket.checked_sub(1).map_or(0, |before| end(before) + 1);
    Nanos(before.midpoint(end(bucket)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_one_eighth_wide_without_gaps() {
        let mut before = 0;
        for place in 0..BUCKETS - 1 {
            let last = end(place);
            assert_eq!(bucket(last), place);
            assert_eq!(bucket(last + 1), place + 1);
            assert!(last - before <= 1.max(last / 8), "{before}..{last}");
            before = last;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_merge_histograms() {
        let (one, other) = (Durations::default(), Durations::default());
        assert_eq!(quantiles([&one].into_iter()), Quantiles::default());
        for micros in 1..=900 {
            one.add(Nanos(micros * 1_000));
        }
        for micros in 901..=1_000 {
            other.add(Nanos(micros * 1_000));
        }
        let Quantiles { p50, p99, max } = quantiles([&one, &other].into_iter());
        assert!((500_000..=562_500).contains(&p50.0), "{p50:?}");
        assert!((990_000..=1_000_000).contains(&p99.0), "{p99:?}");
        assert_eq!(max.0, 1_000_000);
    }

    #[test]
    fn since_returns_each_duration_once_within_a_sixteenth() {
        let durations = Durations::default();
        let counts = || Counts::of(std::iter::once(&durations));
        let mut before = counts();
        for nanos in [0, 7, 8, 1_000, 123_456_789] {
            for _ in 0..3 {
                durations.add(Nanos(nanos));
            }
            let now = counts();
            let [(length, 3)] = now.since(&before).collect::<Vec<_>>()[..] else {
                panic!("{nanos}: {:?}", now.since(&before).collect::<Vec<_>>())
            };
            assert!(length.0.abs_diff(nanos) <= nanos / 16, "{nanos}: {length:?}");
            before = now;
        }
        assert_eq!(before.total(), 15);
    }
}
