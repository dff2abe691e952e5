//! The clock for timestamps of live readings.
//!
//! Deadlines use the monotonic clock, timestamps use UTC. One is mapped to the other once, so that
//! slewing the wall clock does not change the time between two readings. If the wall clock is set,
//! the mapping follows and the step is reported.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use phasemeter_meter::units::{Nanos, Timestamp};

/// Minimum difference from the wall clock that counts as a step. NTP daemons slew smaller ones,
/// which affects both clocks alike.
const MIN_STEP: Nanos = Nanos::from_millis(500);

/// Maximum time between reading the two clocks for a valid comparison; otherwise the thread was
/// suspended in between.
const MAX_READ_GAP: Duration = Duration::from_millis(10);

/// The wall clock at the last mapping, continued by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    instant: Instant,
    wall: Timestamp,
}

/// A step of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The time without the step.
    pub before: Timestamp,
    /// The time after the step. Earlier than `before` if the clock was set back.
    pub after: Timestamp,
}

impl Clock {
    /// Maps the two clocks.
    #[must_use]
    pub fn start() -> Self {
        Self { instant: Instant::now(), wall: wall() }
    }

    /// The wall time of an instant before or after the mapping.
    #[must_use]
    pub fn at(&self, instant: Instant) -> Timestamp {
        match instant.checked_duration_since(self.instant) {
            Some(since) => self.wall + Nanos::from(since),
            None => self.wall.saturating_sub(Nanos::from(self.instant - instant)),
        }
    }

    /// The current wall time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.at(Instant::now())
    }

    /// Detects whether the wall clock was set, and maps it again if so. Suspending the machine
    /// looks the same, because it stops the monotonic clock.
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

/// The wall clock, clamped to 1970–2261.
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
    fn mapping_continues_between_checks() {
        let clock = clock();
        let later = clock.instant + Duration::from_secs(60);
        assert_eq!(clock.at(later), clock.wall + Nanos::from_secs(60));
        let mapped = Clock { instant: later, ..clock };
        assert_eq!(mapped.at(clock.instant), clock.wall.saturating_sub(Nanos::from_secs(60)));
    }

    #[test]
    fn slew_is_ignored_and_step_is_followed() {
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
