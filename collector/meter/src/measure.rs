//! One measure of utilization among several: what the driver's samples or the hardware's counters
//! say, beside what polling reads.
//!
//! A source measures stretches of time and tells of them late. They wait here until the timeline
//! gets to them, so that what a meter knows at an instant is what was true of it. This room must
//! not know which measure the bill is made from.

use std::collections::VecDeque;

use crate::cadence::UpdatePeriod;
use crate::distribution::UtilizationDistribution;
use crate::reading::{Basis, Interval};
use crate::units::{Nanos, Timestamp, Utilization};

/// The most intervals that wait: at the 1/6 s of a driver's ring, three hours of them.
const CAPACITY: usize = 65_536;

/// One measure of utilization.
#[derive(Clone, Debug)]
pub struct Measure {
    basis: Basis,
    /// Intervals not settled yet; they rise and do not overlap.
    waiting: VecDeque<Interval>,
    /// Nothing before this is taken any more.
    settled: Timestamp,
    distribution: UtilizationDistribution,
    period: UpdatePeriod,
    /// Σ utilization × time in ppm·ns.
    weighted: u128,
}

impl Measure {
    /// Of this basis, with nothing measured yet.
    #[must_use]
    pub fn new(basis: Basis) -> Self {
        Self {
            basis,
            waiting: VecDeque::new(),
            settled: Timestamp::default(),
            distribution: UtilizationDistribution::default(),
            period: UpdatePeriod::default(),
            weighted: 0,
        }
    }

    /// What it is a measure of.
    #[must_use]
    pub const fn basis(&self) -> Basis {
        self.basis
    }

    /// How it was distributed.
    #[must_use]
    pub const fn distribution(&self) -> &UtilizationDistribution {
        &self.distribution
    }

    /// The median time between changes; `None` under ten changes.
    #[must_use]
    pub fn update_period(&self) -> Option<Nanos> {
        self.period.median()
    }

    /// Whether it covers any time that is settled.
    #[must_use]
    pub fn is_measured(&self) -> bool {
        self.distribution.is_timed()
    }

    /// Σ utilization × time of all that is settled, in ppm·ns.
    #[must_use]
    pub const fn weighted(&self) -> u128 {
        self.weighted
    }

    /// Takes an interval in, or what of it is not settled and not told already; whether that is
    /// anything. All before `settled` is.
    pub fn push(&mut self, interval: Interval, settled: Timestamp) -> bool {
        let told = self.waiting.back().map_or(self.settled, |last| last.to);
        let from = interval.from.max(told).max(settled);
        let taken = from < interval.to && self.waiting.len() < CAPACITY;
        if taken {
            self.waiting.push_back(Interval { from, ..interval });
        }
        taken
    }

    /// What is measured at `from`, and up to where that is so, at most `to`.
    #[must_use]
    pub fn at(&self, from: Timestamp, to: Timestamp) -> (Option<Utilization>, Timestamp) {
        match self.waiting.iter().find(|interval| from < interval.to) {
            Some(next) if next.from <= from => (Some(next.utilization), to.min(next.to)),
            Some(next) => (None, to.min(next.from)),
            None => (None, to),
        }
    }

    /// A stretch held this utilization.
    pub(crate) fn add(&mut self, from: Timestamp, to: Timestamp, utilization: Utilization) {
        let time = to.since(from);
        self.distribution.add(utilization, time);
        self.weighted += u128::from(utilization.ppm()) * u128::from(time.0);
    }

    /// Settles the time from `from` to `to`.
    pub(crate) fn settle(&mut self, mut from: Timestamp, to: Timestamp) {
        while from < to
            && let Some(next) = self.waiting.front().copied().filter(|next| next.from < to)
        {
            if from < next.from {
                self.period.interrupt();
                from = next.from;
            }
            if from == next.from {
                self.hear(from, next.utilization);
            }
            let until = next.to.min(to);
            self.add(from, until, next.utilization);
            if next.to <= to {
                self.waiting.pop_front();
            }
            from = until;
        }
        if from < to {
            self.period.interrupt();
        }
        self.settled = self.settled.max(to);
    }

    /// It was measured once.
    pub(crate) fn hear(&mut self, at: Timestamp, utilization: Utilization) {
        self.distribution.count(utilization);
        self.period.observe(at, utilization);
    }

    /// Nothing is known for a while.
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

    /// 50 ms bursts in each second, of which a ring that is drained misses none: 5 %.
    #[test]
    fn what_waits_is_settled_up_to_the_instant_and_not_beyond() {
        let mut measure = Measure::new(Basis::NvmlSamples);
        for second in 0..10 {
            assert!(measure.push(interval(second * 1_000, second * 1_000 + 50, 100), START));
            assert!(measure.push(interval(second * 1_000 + 50, second * 1_000 + 1_000, 0), START));
        }
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        measure.settle(at(0), at(4_500));
        assert_eq!(measure.weighted(), 4 * 50_000_000 * 1_000_000 + 50_000_000 * 1_000_000);
        assert_eq!(measure.at(at(5_000), at(6_000)).1, at(5_050));
        assert!(!measure.push(interval(1_000, 4_000, 50), START), "that is settled");
    }

    #[test]
    fn overlaps_are_cut_and_gaps_are_gaps() {
        let mut measure = Measure::new(Basis::GpmSm);
        assert!(measure.push(interval(0, 1_000, 10), START));
        assert!(measure.push(interval(500, 2_000, 20), START));
        assert!(measure.push(interval(3_000, 4_000, 30), START));
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let percent = |n| Utilization::from_percent(n);
        assert_eq!(measure.at(at(0), at(9_000)), (percent(10), at(1_000)));
        assert_eq!(measure.at(at(1_000), at(9_000)), (percent(20), at(2_000)));
        assert_eq!(measure.at(at(2_000), at(9_000)), (None, at(3_000)));
        assert_eq!(measure.at(at(4_000), at(9_000)), (None, at(9_000)));
    }
}
