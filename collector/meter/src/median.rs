//! The median of many durations, in memory that does not grow with their number.
//!
//! To the millisecond below ten seconds, to four digits above. This room must not know what the
//! durations are of.

use crate::units::Nanos;

/// Milliseconds told apart one by one; above, each decade has as many steps of its own.
const EXACT: u64 = 10_000;
const STEPS: u64 = EXACT - EXACT / 10;

/// How often each duration was counted at an instant; by default, before everything.
#[derive(Clone, Debug, Default)]
pub struct Mark {
    counts: Vec<(u32, u32)>,
    total: u64,
}

/// Counts durations and tells their median.
#[derive(Clone, Debug, Default)]
pub struct DurationMedian {
    /// A count a duration, up to the longest seen: at most 0.4 MB, mostly a few hundred bytes.
    counts: Vec<u32>,
    total: u64,
}

impl DurationMedian {
    /// Counts a duration.
    pub fn add(&mut self, duration: Nanos) {
        let slot = slot_of(duration);
        if slot >= self.counts.len() {
            self.counts.resize(slot + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(slot) {
            *count = count.saturating_add(1);
            self.total += 1;
        }
    }

    /// How many were counted.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The median, the upper one of two; `None` where nothing was counted.
    #[must_use]
    pub fn median(&self) -> Option<Nanos> {
        self.median_since(&Mark::default())
    }

    /// As [`Self::median`], of what was counted since a mark of it.
    #[must_use]
    pub fn median_since(&self, mark: &Mark) -> Option<Nanos> {
        let mut marked = mark.counts.iter().copied().peekable();
        let mut before = 0;
        let slot = (0..).zip(&self.counts).position(|(slot, count)| {
            let earlier = marked.next_if(|(marked, _)| *marked == slot).map_or(0, |(_, it)| it);
            before += u64::from(*count - earlier);
            before > (self.total - mark.total) / 2
        })?;
        Some(duration_of(slot))
    }

    /// How many were counted since a mark of it.
    #[must_use]
    pub const fn count_since(&self, mark: &Mark) -> u64 {
        self.total - mark.total
    }

    /// What was counted so far.
    #[must_use]
    pub fn mark(&self) -> Mark {
        let counts = (0..).zip(&self.counts).filter(|(_, count)| **count > 0);
        let counts = counts.map(|(slot, count)| (slot, *count)).collect();
        Mark { counts, total: self.total }
    }
}

fn slot_of(duration: Nanos) -> usize {
    let mut millis = (duration.0 + 500_000) / 1_000_000;
    let mut decade = 0;
    while millis >= EXACT {
        millis /= 10;
        decade += 1;
    }
    usize::try_from(decade * STEPS + millis).unwrap_or(usize::MAX)
}

fn duration_of(slot: usize) -> Nanos {
    let mut millis = slot as u64;
    let mut unit = 1;
    while millis >= EXACT {
        millis -= STEPS;
        unit *= 10;
    }
    Nanos::from_millis(millis * unit)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_upper_one_of_two() {
        let mut median = DurationMedian::default();
        assert_eq!(median.median(), None);
        for millis in [170, 10, 1_000, 171] {
            median.add(Nanos::from_millis(millis));
        }
        assert_eq!(median.median(), Some(Nanos::from_millis(171)));
    }

    proptest! {
        /// A duration comes back to a millisecond, or to a thousandth of itself.
        #[test]
        fn four_digits_are_kept(nanos in 0_u64..9_000_000_000_000_000_000) {
            let back = duration_of(slot_of(Nanos(nanos)));
            prop_assert!(back.0.abs_diff(nanos) <= 500_000.max(nanos / 1_000));
        }
    }
}
