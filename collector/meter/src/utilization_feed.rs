//! Utilization feed: one source of utilization, such as driver samples or hardware counters.
//!
//! Sources measure time ranges and deliver them late. Intervals wait here until the timeline
//! reaches them, so that the meter's state at an instant contains nothing after it.

use std::collections::VecDeque;

use crate::distribution::UtilizationDistribution;
use crate::histogram::Histogram;
use crate::reading::{Basis, Interval};
use crate::units::{Nanos, Timestamp, Utilization};
use crate::update_period::UpdatePeriod;

/// Maximum number of pending intervals: three hours of a driver's samples, 1/6 s each.
const CAPACITY: usize = 65_536;

/// One source of utilization.
#[derive(Clone, Debug)]
pub struct UtilizationFeed {
    basis: Basis,
    /// Intervals not yet final, in time order and without overlaps.
    pending: VecDeque<Interval>,
    /// Watermark: earlier time is final.
    watermark: Timestamp,
    distribution: UtilizationDistribution,
    histogram: Histogram,
    period: UpdatePeriod,
    /// Σ utilization × time, in ppm·ns.
    weighted: u128,
}

impl UtilizationFeed {
    /// An empty feed of this basis.
    #[must_use]
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            pending: VecDeque::new(),
            watermark: Timestamp::default(),
            distribution: UtilizationDistribution::default(),
            histogram: Histogram::default(),
            period: UpdatePeriod::default(),
            weighted: 0,
        }
    }

    /// The basis.
    #[must_use]
    pub const fn basis(&self) -> Basis {
        self.basis
    }

    /// The distribution of its values over time.
    #[must_use]
    pub const fn distribution(&self) -> &UtilizationDistribution {
        &self.distribution
    }

    /// The histogram of its values; each counts once.
    #[must_use]
    pub const fn histogram(&self) -> &Histogram {
        &self.histogram
    }

    /// The median time between changes; `None` if there are fewer than ten changes.
    #[must_use]
    pub fn update_period(&self) -> Option<Nanos> {
        self.period.median()
    }

    /// Whether it covers any finalized time.
    #[must_use]
    pub const fn is_measured(&self) -> bool {
        self.distribution.is_timed()
    }

    /// Σ utilization × time over finalized time, in ppm·ns.
    #[must_use]
    pub const fn weighted(&self) -> u128 {
        self.weighted
    }

    /// Adds the part of an interval that is neither final nor covered already. Returns whether
    /// there was such a part. `watermark`: the meter's.
    pub fn push(&mut self, interval: Interval, watermark: Timestamp) -> bool {
        let covered = self.pending.back().map_or(self.watermark, |last| last.to);
        let from = interval.from.max(covered).max(watermark);
        let accepted = from < interval.to && self.pending.len() < CAPACITY;
        if accepted {
            self.pending.push_back(Interval { from, ..interval });
        }
        accepted
    }

    /// The value at `from`, if there is one, and the instant until which that holds, at most `to`.
    #[must_use]
    pub fn at(&self, from: Timestamp, to: Timestamp) -> (Option<Utilization>, Timestamp) {
        match self.pending.iter().find(|interval| from < interval.to) {
            Some(next) if next.from <= from => (Some(next.utilization), to.min(next.to)),
            Some(next) => (None, to.min(next.from)),
            None => (None, to),
        }
    }

    /// Adds the time `from`..`to` at this utilization.
    #[inline]
    pub(crate) fn add(&mut self, from: Timestamp, to: Timestamp, utilization: Utilization) {
        let time = to.since(from);
        self.distribution.add(utilization, time);
        self.weighted += u128::from(utilization.ppm()) * u128::from(time.0);
    }

    /// Finalizes the time from `from` to `to`.
    pub(crate) fn finalize(&mut self, mut from: Timestamp, to: Timestamp) {
        while from < to
            && let Some(next) = self.pending.front().copied().filter(|next| next.from < to)
        {
            if from < next.from {
                self.period.interrupt();
                from = next.from;
            }
            if from == next.from {
                self.record(from, next.utilization);
            }
            let until = next.to.min(to);
            self.add(from, until, next.utilization);
            if next.to <= to {
                self.pending.pop_front();
            }
            from = until;
        }
        if from < to {
            self.period.interrupt();
        }
        self.watermark = self.watermark.max(to);
    }

    /// Records one value.
    #[inline]
    pub(crate) fn record(&mut self, at: Timestamp, utilization: Utilization) {
        self.histogram.record(utilization);
        self.period.observe(at, utilization);
    }

    /// Marks a gap in observations.
    pub(crate) fn interrupt(&mut self) {
        self.period.interrupt();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::EPOCH;

    fn interval(from: u64, to: u64, percent: u32) -> Interval {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let utilization = Utilization::from_percent(percent).unwrap();
        Interval { basis: Basis::NvmlSamples, from: at(from), to: at(to), utilization }
    }

    /// 50 ms bursts in each second, a utilization of 5% of which a drained buffer misses nothing.
    #[test]
    fn finalize_stops_at_instant() {
        let mut feed = UtilizationFeed::new(Basis::NvmlSamples);
        for second in 0..10 {
            assert!(feed.push(interval(second * 1_000, second * 1_000 + 50, 100), START));
            assert!(feed.push(interval(second * 1_000 + 50, second * 1_000 + 1_000, 0), START));
        }
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        feed.finalize(at(0), at(4_500));
        assert_eq!(feed.weighted(), 4 * 50_000_000 * 1_000_000 + 50_000_000 * 1_000_000);
        assert_eq!(feed.at(at(5_000), at(6_000)).1, at(5_050));
        assert!(!feed.push(interval(1_000, 4_000, 50), START), "final time is rejected");
    }

    #[test]
    fn overlaps_are_cut_and_gaps_kept() {
        let mut feed = UtilizationFeed::new(Basis::GpmSm);
        assert!(feed.push(interval(0, 1_000, 10), START));
        assert!(feed.push(interval(500, 2_000, 20), START));
        assert!(feed.push(interval(3_000, 4_000, 30), START));
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let percent = |n| Utilization::from_percent(n);
        assert_eq!(feed.at(at(0), at(9_000)), (percent(10), at(1_000)));
        assert_eq!(feed.at(at(1_000), at(9_000)), (percent(20), at(2_000)));
        assert_eq!(feed.at(at(2_000), at(9_000)), (None, at(3_000)));
        assert_eq!(feed.at(at(4_000), at(9_000)), (None, at(9_000)));
    }
}
