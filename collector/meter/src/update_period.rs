//! Update period: the median time between value changes of a source, whatever the polling rate.
//!
//! A driver holds its utilization for a while; faster polling reads the same value again.

use crate::median::DurationMedian;
use crate::units::{Nanos, Timestamp, Utilization};

/// Minimum number of changes for a median.
const MIN_CHANGES: u64 = 10;

/// Measures the time between changes of one value.
#[derive(Clone, Debug, Default)]
pub struct UpdatePeriod {
    value: Option<Utilization>,
    changed: Option<Timestamp>,
    changes: u64,
    periods: DurationMedian,
}

impl UpdatePeriod {
    /// Records the value at this instant. Returns whether it changed.
    #[inline]
    pub fn observe(&mut self, at: Timestamp, value: Utilization) -> bool {
        let before = self.value.replace(value);
        if before == Some(value) {
            return false;
        }
        if before.is_some() {
            self.changes += 1;
            if let Some(changed) = self.changed.replace(at) {
                self.periods.add(at.since(changed));
            }
        }
        true
    }

    /// Discards the current period after a gap in observations.
    pub fn interrupt(&mut self) {
        self.value = None;
        self.changed = None;
    }

    /// The median time between changes; `None` if there are fewer than ten changes.
    #[must_use]
    pub fn median(&self) -> Option<Nanos> {
        if self.changes < MIN_CHANGES { None } else { self.periods.median() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_independent_of_polling_rate() {
        let mut period = UpdatePeriod::default();
        for tick in 0..60_u64 {
            let value = Utilization::from_percent(u32::try_from(tick / 5 % 2).unwrap()).unwrap();
            assert!(tick > 50 || period.median().is_none());
            period.observe(Timestamp::from_millis(tick * 100).unwrap(), value);
        }
        assert_eq!(period.median(), Some(Nanos::from_millis(500)));
    }
}
