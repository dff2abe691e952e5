//! The total of a counter whose sender reports increases.
//!
//! Each moment counts once: an increase since before the end of the last one is of another sender, or repeated.

use phasemeter_meter::units::{Nanos, Timestamp};

/// By how much an increase may begin before the end of the last one: clocks are read one after another.
const OVERLAP: Nanos = Nanos::from_millis(500);

/// The sum of increases in time order.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Increases {
    total: u64,
    /// The end of the last increase.
    until: Option<Timestamp>,
}

impl Increases {
    /// Adds what was counted from `start`, if that is known, until `at`. Returns the total; `None` if a part of that
    /// time has been counted before.
    pub(super) fn add(
        &mut self,
        start: Option<Timestamp>,
        at: Timestamp,
        count: u64,
    ) -> Option<u64> {
        let overlaps = |(start, until): (Timestamp, Timestamp)| until.since(start) > OVERLAP;
        if start.zip(self.until).is_some_and(overlaps) {
            return None;
        }
        self.until = Some(at);
        self.total = self.total.saturating_add(count);
        Some(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_moment_counts_once() {
        let second = |seconds: u64| Timestamp::from_millis(seconds * 1_000).unwrap();
        let mut sum = Increases::default();
        assert_eq!(sum.add(Some(second(0)), second(60), 100), Some(100));
        assert_eq!(sum.add(Some(second(60)), second(120), 110), Some(210));
        assert_eq!(sum.add(Some(second(90)), second(150), 120), None, "of another sender");
        assert_eq!(sum.add(Some(second(120)), second(180), 90), Some(300));
        assert_eq!(sum.add(Some(second(240)), second(300), 5), Some(305), "one was lost");
        assert_eq!(sum.add(None, second(360), 5), Some(310), "without a start");
    }
}
