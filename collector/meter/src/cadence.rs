//! How often a value changes: the update period of a source, whatever the rate of polling.
//!
//! A driver holds its utilization for a window; polling faster reads the same value again. This
//! room must not know what the value means.

use crate::median::DurationMedian;
use crate::units::{Nanos, Timestamp, Utilization};

/// Fewer changes than this tell no period.
const CHANGES: u64 = 10;

/// Watches one value for changes.
#[derive(Clone, Debug, Default)]
pub struct UpdatePeriod {
    value: Option<Utilization>,
    changed: Option<Timestamp>,
    changes: u64,
    periods: DurationMedian,
}

impl UpdatePeriod {
    /// The value at this instant; whether it is another than before.
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

    /// Nothing is known for a while: the time to the next change can't be told.
    pub fn interrupt(&mut self) {
        self.value = None;
        self.changed = None;
    }

    /// The median time between changes; `None` under ten changes.
    #[must_use]
    pub fn median(&self) -> Option<Nanos> {
        if self.changes < CHANGES { None } else { self.periods.median() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polling_faster_does_not_shorten_it() {
        let mut period = UpdatePeriod::default();
        for tick in 0..60_u64 {
            let value = Utilization::from_percent(u32::try_from(tick / 5 % 2).unwrap()).unwrap();
            assert!(tick > 50 || period.median().is_none());
            period.observe(Timestamp::from_millis(tick * 100).unwrap(), value);
        }
        assert_eq!(period.median(), Some(Nanos::from_millis(500)));
    }
}
