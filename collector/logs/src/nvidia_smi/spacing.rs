//! Typical times between the rows of a log that does not identify its GPUs.

use std::cmp::Reverse;

use phasemeter_meter::units::Nanos;

/// Ticks have distinct pauses if the median pause is at least this many times the median interval
/// between the rows of a tick.
pub(super) const MIN_CONTRAST: u64 = 3;

/// Typical times between rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spacing {
    /// Between rows of the same tick.
    pub(super) within: Nanos,
    /// Between the last row of a tick and the first row of the next.
    pub(super) between: Nanos,
}

impl Spacing {
    /// The upper median of the longest 1/`gpus` of the intervals, and that of the others. `None` if
    /// there are no intervals.
    pub(super) fn of(mut intervals: Vec<Nanos>, gpus: usize) -> Option<Self> {
        intervals.sort_unstable_by_key(|interval| Reverse(*interval));
        let pauses = (intervals.len() / gpus).max(1);
        let (longest, others) = intervals.split_at_checked(pauses)?;
        // Descending: the longer of two middle intervals comes first.
        let median = |sorted: &[Nanos]| sorted.get(sorted.len().saturating_sub(1) / 2).copied();
        Some(Self { within: median(others).unwrap_or_default(), between: median(longest)? })
    }

    /// Whether pauses are much longer than the intervals within ticks.
    pub(super) const fn is_distinct(self) -> bool {
        self.between.0 >= self.within.0.saturating_mul(MIN_CONTRAST)
    }

    /// The shortest interval that counts as a pause.
    pub(super) const fn min_pause(self) -> Nanos {
        Nanos(self.within.0.midpoint(self.between.0).saturating_add(1))
    }

    /// The shortest interval that is as long as pauses between ticks usually are.
    pub(super) const fn regular_pause(self) -> Nanos {
        let regular = self.between.0 - self.between.0 / 10;
        let min = self.min_pause().0;
        Nanos(if regular > min { regular } else { min })
    }

    /// The longest interval that counts as a regular pause. In a longer one the logger was stopped,
    /// between ticks or within one.
    pub(super) const fn max_pause(self) -> Nanos {
        Nanos(self.between.0.saturating_add(self.between.0.saturating_sub(self.min_pause().0)))
    }

    /// The longest interval that certainly is not a pause.
    pub(super) const fn short(self) -> Nanos {
        Nanos(self.between.0 / 4)
    }

    /// The longest interval between rows of a tick without any doubt, even beside one with missing rows.
    pub(super) const fn close(self) -> Nanos {
        Nanos(self.between.0 / 8)
    }
}
