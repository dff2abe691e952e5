//! Median of any number of durations, in bounded memory.
//!
//! Resolution: 1 ms below ten seconds, four digits above. It is halved whenever there are more than 512 different
//! durations.

use crate::units::Nanos;

/// Durations below this many milliseconds have a slot per millisecond; each decade above has
/// `STEPS`.
const EXACT: u64 = 10_000;
const STEPS: u64 = EXACT - EXACT / 10;

/// Maximum number of slots with a count.
const SLOTS: usize = 512;

/// Durations in 2^`halvings` adjacent slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    /// The slot of the durations, without its last `halvings` bits.
    slot: u32,
    count: u32,
}

/// Counts of durations. The default has none.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// In ascending order of slots.
    counts: Vec<Count>,
    /// How often the resolution was halved.
    halvings: u32,
    total: u64,
}

/// Counts per duration at an instant. The default is the state before the first duration.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Counts);

/// Counts durations and computes their median.
#[derive(Clone, Debug, Default)]
pub struct DurationMedian {
    all: Counts,
    /// The index of the last count: durations repeat.
    last: usize,
}

impl DurationMedian {
    /// Adds a duration.
    pub fn add(&mut self, duration: Nanos) {
        let slot = slot_of(duration) >> self.all.halvings;
        self.all.total += 1;
        match self.all.counts.get_mut(self.last) {
            Some(last) if last.slot == slot => last.count = last.count.saturating_add(1),
            _ => self.last = self.all.add(slot),
        }
    }

    /// Number of durations.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.all.total
    }

    /// The median, the upper of two; `None` if there are no durations.
    #[must_use]
    pub fn median(&self) -> Option<Nanos> {
        self.median_since(&Snapshot::default())
    }

    /// Like [`Self::median`], for durations added since a snapshot.
    #[must_use]
    pub fn median_since(&self, Snapshot(earlier): &Snapshot) -> Option<Nanos> {
        let halvings = self.all.halvings;
        let coarser = halvings - earlier.halvings;
        let mut before = earlier.counts.iter().peekable();
        let mut sum = 0;
        let median = self.all.counts.iter().find(|all| {
            sum += u64::from(all.count);
            while let Some(earlier) = before.next_if(|it| it.slot >> coarser == all.slot) {
                sum -= u64::from(earlier.count);
            }
            sum > (self.all.total - earlier.total) / 2
        })?;
        Some(duration_of(median.slot << halvings))
    }

    /// Number of durations added since a snapshot.
    #[must_use]
    pub const fn count_since(&self, Snapshot(earlier): &Snapshot) -> u64 {
        self.all.total - earlier.total
    }

    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.all.clone())
    }
}

impl Counts {
    /// Counts a duration in `slot`, at the current resolution. Returns the index of its count.
    fn add(&mut self, mut slot: u32) -> usize {
        loop {
            match self.counts.binary_search_by_key(&slot, |count| count.slot) {
                Ok(index) => {
                    let count = &mut self.counts[index].count;
                    *count = count.saturating_add(1);
                    return index;
                }
                Err(index) if self.counts.len() < SLOTS => {
                    self.counts.insert(index, Count { slot, count: 1 });
                    return index;
                }
                Err(_) => {
                    self.halve_resolution();
                    slot >>= 1;
                }
            }
        }
    }

    fn halve_resolution(&mut self) {
        self.halvings += 1;
        self.counts.iter_mut().for_each(|count| count.slot >>= 1);
        self.counts.dedup_by(|next, kept| {
            let same = next.slot == kept.slot;
            if same {
                kept.count = kept.count.saturating_add(next.count);
            }
            same
        });
    }
}

fn slot_of(duration: Nanos) -> u32 {
    let mut millis = (duration.0 + 500_000) / 1_000_000;
    let mut decade = 0;
    while millis >= EXACT {
        millis /= 10;
        decade += 1;
    }
    u32::try_from(decade * STEPS + millis).unwrap_or(u32::MAX)
}

fn duration_of(slot: u32) -> Nanos {
    let mut millis = u64::from(slot);
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
    fn median_is_upper_of_two() {
        let mut median = DurationMedian::default();
        assert_eq!(median.median(), None);
        for millis in [170, 10, 1_000, 171] {
            median.add(Nanos::from_millis(millis));
        }
        assert_eq!(median.median(), Some(Nanos::from_millis(171)));
    }

    /// As exact as memory allows, in any order, and since any snapshot.
    #[test]
    fn resolution_is_halved_as_often_as_necessary() {
        let every_2_ms = || (0..1_000).map(|count| Nanos::from_millis(count * 2));
        let mut ascending = DurationMedian::default();
        every_2_ms().take(512).for_each(|duration| ascending.add(duration));
        assert_eq!(
            (ascending.all.halvings, ascending.median()),
            (0, Some(Nanos::from_millis(512)))
        );
        let snapshot = ascending.snapshot();
        every_2_ms().skip(512).for_each(|duration| ascending.add(duration));
        // Two different durations per slot of 4 ms.
        assert_eq!((ascending.all.halvings, ascending.all.counts.len()), (2, 500));
        assert_eq!(ascending.median(), Some(Nanos::from_millis(1_000)));
        assert_eq!(ascending.median_since(&snapshot), Some(Nanos::from_millis(1_512)));
        let mut descending = DurationMedian::default();
        let mut all: Vec<_> = every_2_ms().collect();
        all.reverse();
        all.into_iter().for_each(|duration| descending.add(duration));
        assert_eq!(descending.all.counts, ascending.all.counts);
    }

    proptest! {
        /// A duration is restored to within 1 ms, or a thousandth of itself.
        #[test]
        fn duration_keeps_four_digits(nanos in 0_u64..9_000_000_000_000_000_000) {
            let back = duration_of(slot_of(Nanos(nanos)));
            prop_assert!(back.0.abs_diff(nanos) <= 500_000.max(nanos / 1_000));
        }
    }
}
