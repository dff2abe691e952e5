//! The distance of the wall clock from the time of readings.

use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp};

/// Wall time minus the time of the run: whole seconds, so that a second of the run is a UTC second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WallOffset(i64);

impl WallOffset {
    /// The offset if the wall clock shows `wall` at `at`, rounded down: no label is in the future.
    #[must_use]
    pub fn between(at: Timestamp, wall: Timestamp) -> Self {
        let nanos = i128::from(wall.as_nanos()) - i128::from(at.as_nanos());
        // Both are before 2262, so the difference in seconds fits.
        Self(i64::try_from(nanos.div_euclid(i128::from(NANOS_PER_SECOND))).unwrap_or_default())
    }

    /// Seconds by which the wall clock is ahead; negative if it is behind.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0
    }

    /// The wall time of an instant of the run. [`Timestamp::LAST`], which means never, stays as it is.
    #[must_use]
    pub fn wall(self, at: Timestamp) -> Timestamp {
        shift(at, self.0)
    }

    /// The instant of the run with this wall time.
    #[must_use]
    pub fn instant(self, wall: Timestamp) -> Timestamp {
        shift(wall, self.0.saturating_neg())
    }

    /// The last multiple of `every` in wall time at or before `at`.
    #[must_use]
    pub fn floor(self, at: Timestamp, every: Nanos) -> Timestamp {
        let wall = self.wall(at);
        at.saturating_sub(wall.since(wall.floor(every)))
    }
}

fn shift(at: Timestamp, seconds: i64) -> Timestamp {
    let by = Nanos::from_secs(seconds.unsigned_abs());
    match seconds {
        _ if at == Timestamp::LAST => at,
        1.. => at + by,
        _ => at.saturating_sub(by),
    }
}
