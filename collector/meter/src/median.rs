//! Median of any number of durations, in constant memory.
//!
//! Resolution: 1 ms below ten seconds, four digits above. Must not depend on the meaning of the
//! durations.

use crate::units::Nanos;

/// Durations below this many milliseconds have a bin per millisecond; each decade above has
/// `STEPS`.
const EXACT: u64 = 10_000;
const STEPS: u64 = EXACT - EXACT / 10;

/// Counts per duration at an instant. The default is the state before the first duration.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    counts: Vec<(u32, u32)>,
    total: u64,
}

/// Counts durations and computes their median.
#[derive(Clone, Debug, Default)]
pub struct DurationMedian {
    /// Counts per duration, up to the longest so far: at most 0.4 MB, usually a few hundred bytes.
    counts: Vec<u32>,
    total: u64,
}

impl DurationMedian {
    /// Adds a duration.
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

    /// Number of durations.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.total
    }

    /// The median, the upper of two; `None` if there are no durations.
    #[must_use]
    pub fn median(&self) -> Option<Nanos> {
        self.median_since(&Snapshot::default())
    }

    /// Like [`Self::median`], for durations added since a snapshot.
    #[must_use]
    pub fn median_since(&self, snapshot: &Snapshot) -> Option<Nanos> {
        let mut earlier = snapshot.counts.iter().copied().peekable();
        let mut before = 0;
        let slot = (0..).zip(&self.counts).position(|(slot, count)| {
            let earlier = earlier.next_if(|(earlier, _)| *earlier == slot).map_or(0, |(_, it)| it);
            before += u64::from(*count - earlier);
            before > (self.total - snapshot.total) / 2
        })?;
        Some(duration_of(slot))
    }

    /// Number of durations added since a snapshot.
    #[must_use]
    pub const fn count_since(&self, snapshot: &Snapshot) -> u64 {
        self.total - snapshot.total
    }

    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let counts = (0..).zip(&self.counts).filter(|(_, count)| **count > 0);
        let counts = counts.map(|(slot, count)| (slot, *count)).collect();
        Snapshot { counts, total: self.total }
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
    fn median_is_upper_of_two() {
        let mut median = DurationMedian::default();
        assert_eq!(median.median(), None);
        for millis in [170, 10, 1_000, 171] {
            median.add(Nanos::from_millis(millis));
        }
        assert_eq!(median.median(), Some(Nanos::from_millis(171)));
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
