//! The time that live readings are stamped with.
//!
//! Deadlines run on the monotonic clock, stamps are UTC. One is mapped to the other once, so that a
//! clock that is nudged neither stretches nor folds the time between two readings; where the wall
//! clock was set, the mapping follows, and whoever reads stamps is told.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phasemeter_meter::units::{Nanos, Timestamp};

/// A difference from the wall clock that is a step. Daemons slew smaller ones away, and slewing
/// moves both clocks alike.
const MIN_STEP: Nanos = Nanos::from_millis(500);

/// Two clocks that were read further apart than this say nothing of each other: the thread was
/// held up in between.
const MAX_READ_GAP: Duration = Duration::from_millis(10);

/// The wall clock as it was when it was last looked at, carried on by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    wall: Timestamp,
}

/// The wall clock was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What the time would have been.
    pub before: Timestamp,
    /// What it is now. Before `before` where the clock was set back.
    pub after: Timestamp,
}

impl Clock {
    /// Maps the two clocks now.
    #[must_use]
    pub fn start() -> Self {
        Self { instant: Instant::now(), wall: wall() }
    }

    /// The wall time of an instant, since the mapping or before it.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        match instant.checked_duration_since(self.instant) {
            Some(since) => self.wall + Nanos::from(since),
            None => self.wall.saturating_sub(Nanos::from(self.instant - instant)),
        }
    }

    /// The wall time now.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// Looks at the wall clock, and maps anew where it was set. A machine that slept looks the
    /// same: its monotonic clock stood still.
    pub fn detect_step(&mut self) -> Option<Step> {
        let (instant, wall) = (Instant::now(), wall());
        if instant.elapsed() > MAX_READ_GAP {
            return None;
        }
        self.compare(instant, wall)
    }

    fn compare(&mut self, instant: Instant, wall: Timestamp) -> Option<Step> {
        let before = self.at(instant);
        if wall.since(before).max(before.since(wall)) < MIN_STEP {
            return None;
        }
        *self = Self { instant, wall };
        Some(Step { before, after: wall })
    }
}

/// The wall clock. Outside 1970–2261 it says the nearest that can be told.
fn wall() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map(Nanos::from).unwrap_or_default();
    Timestamp::from_nanos(since.0).unwrap_or(Timestamp::LAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock() -> Clock {
        let wall = Timestamp::from_millis(1_767_225_600_000).unwrap();
        Clock { instant: Instant::now(), wall }
    }

    #[test]
    fn time_goes_on_between_looks() {
        let clock = clock();
        let later = clock.instant + Duration::from_secs(60);
        assert_eq!(clock.at(later), clock.wall + Nanos::from_secs(60));
        let mapped = Clock { instant: later, ..clock };
        assert_eq!(mapped.at(clock.instant), clock.wall.saturating_sub(Nanos::from_secs(60)));
    }

    #[test]
    fn a_nudge_is_ignored_and_a_step_is_followed() {
        let mut clock = clock();
        let later = clock.instant + Duration::from_secs(60);
        let due = clock.wall + Nanos::from_secs(60);

        assert_eq!(clock.compare(later, due + Nanos::from_millis(499)), None);
        assert_eq!(clock.at(later), due);

        let ahead = due + Nanos::from_secs(3_600);
        assert_eq!(clock.compare(later, ahead), Some(Step { before: due, after: ahead }));
        assert_eq!(clock.at(later), ahead);

        let behind = due.saturating_sub(Nanos::from_secs(5));
        assert_eq!(clock.compare(later, behind), Some(Step { before: ahead, after: behind }));
        assert_eq!(clock.at(later), behind);
    }
}
