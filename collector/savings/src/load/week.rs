//! Time at each level of a load, by hour of the week in local time.

use super::distribution::{Distribution, LoadLevel};
use phasemeter_meter::units::Nanos;

/// Hours of a week.
const HOURS: i64 = 168;

/// 1970-01-01T00:00:00Z was a Thursday: hours since Monday at 00:00.
const FIRST_HOUR: i64 = 72;

/// Seconds of an hour.
const HOUR: i64 = 3_600;

/// Maximum number of levels of an hour, so that all fit into 56 KiB.
const LEVELS: usize = 64;

/// The load of each hour of the week.
#[derive(Clone, Debug, Default)]
pub(super) struct Week {
    /// From Monday at 00:00; empty before the first time.
    hours: Vec<Distribution>,
    /// Local time in seconds east of the clock of the load.
    local: i64,
}

/// The load in one hour of the week.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadHour {
    /// From Monday at 00:00 local time: below 168.
    pub hour: u32,
    /// Time at each level, ascending.
    pub levels: Vec<LoadLevel>,
}

impl Week {
    /// Sets local time, for time that is added from now on.
    pub(super) const fn set_local(&mut self, local: i64) {
        self.local = local;
    }

    /// Forgets all time.
    pub(super) fn clear(&mut self) {
        self.hours.clear();
    }

    /// Counts consecutive means of a load in ppm, each of `seconds` and of the hour in which it begins.
    pub(super) fn add(&mut self, ppm: u64, from: u64, means: u64, seconds: u64) {
        if self.hours.is_empty() {
            self.hours = (0..HOURS).map(|_| Distribution::new(LEVELS)).collect();
        }
        let (mut at, mut left) = (from, means);
        while left > 0 {
            let local = at.cast_signed() + self.local;
            let to_next = (HOUR - local.rem_euclid(HOUR)).unsigned_abs();
            let count = to_next.div_ceil(seconds).min(left);
            let hour = (local.div_euclid(HOUR) + FIRST_HOUR).rem_euclid(HOURS);
            let hour = usize::try_from(hour).ok().and_then(|hour| self.hours.get_mut(hour));
            if let Some(hour) = hour {
                hour.add(ppm, u32::try_from(count).unwrap_or(u32::MAX));
            }
            left -= count;
            at += count * seconds;
        }
    }

    /// The hours with known time, ascending, if each mean is of this length.
    pub(super) fn hours(&self, length: Nanos) -> Vec<LoadHour> {
        let hours = (0..).zip(&self.hours);
        let hours = hours.map(|(hour, of)| LoadHour { hour, levels: of.levels(length).collect() });
        hours.filter(|hour| !hour.levels.is_empty()).collect()
    }

    /// Bytes that it has allocated.
    #[cfg(test)]
    pub(super) fn allocated(&self) -> usize {
        let hours = self.hours.iter().map(Distribution::allocated).sum::<usize>();
        hours + self.hours.capacity() * size_of::<Distribution>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_are_of_the_hour_in_which_they_begin() {
        let mut week = Week::default();
        // Thursday, 00:00 UTC, is 05:30 in India.
        week.set_local(19_800);
        week.add(500_000, 0, 360, 10);
        let found = week.hours(Nanos::from_secs(10));
        let hours: Vec<_> = found.iter().map(|it| (it.hour, it.levels[0].time)).collect();
        assert_eq!(hours, [(77, Nanos::from_secs(1_800)), (78, Nanos::from_secs(1_800))]);
        week.clear();
        // West of Greenwich it is Wednesday.
        week.set_local(-5);
        week.add(500_000, 0, 1, 10);
        assert_eq!(week.hours(Nanos::from_secs(10))[0].hour, 71);
    }
}
