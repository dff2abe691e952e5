//! Readings that repeat: a monitor that stopped goes on to report its last values.
//!
//! A GPU at part load never draws the same power to the milliwatt, at the same utilization and with the same memory in use, for
//! minutes. One without work may, and so may one that is full at its power limit.

use crate::reading::Reading;
use crate::units::{Bytes, Milliwatts, Nanos, Timestamp, Utilization};

/// Time from which readings that repeat are those of a monitor that stopped, and their number. Both are assumptions.
pub const STILL: Nanos = Nanos::from_secs(600);
const READINGS: u32 = 20;

/// The values that repeat.
type Values = (Utilization, Bytes, Milliwatts);

/// Meters the time in which readings of a GPU at part load repeat.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StillMeter {
    total: Nanos,
    /// What repeats, since when and until when, and how many readings.
    run: Option<(Values, Timestamp, Timestamp, u32)>,
}

impl StillMeter {
    /// All of it.
    pub(crate) fn total(&self) -> Nanos {
        self.total + self.current()
    }

    /// Takes a reading with this memory in use.
    #[inline]
    pub(crate) fn record(&mut self, reading: &Reading, used: Bytes) {
        let values = reading.utilization.ok().zip(reading.power).filter(|(utilization, _)| {
            *utilization > Utilization::ZERO && *utilization < Utilization::FULL
        });
        let values = values.map(|(utilization, power)| (utilization, used, power));
        match (&mut self.run, values) {
            (Some((own, _, until, readings)), Some(values)) if *own == values => {
                (*until, *readings) = (reading.at, readings.saturating_add(1));
            }
            (_, values) => {
                self.total = self.total();
                self.run = values.map(|values| (values, reading.at, reading.at, 1));
            }
        }
    }

    /// The time of readings that still repeat, if it is long enough.
    fn current(&self) -> Nanos {
        let run = self.run.filter(|(.., readings)| *readings >= READINGS);
        let time = run.map_or(Nanos::ZERO, |(_, since, until, _)| until.since(since));
        if time >= STILL { time } else { Nanos::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of readings, their percent, and the milliwatts of each.
    type Stage = (u64, u32, fn(u64) -> u32);

    /// Seconds in which these readings, one each 5 seconds, repeat.
    fn still(stages: &[Stage]) -> u64 {
        let (mut meter, mut millis) = (StillMeter::default(), 0);
        for (count, percent, milliwatts) in stages {
            for number in 0..*count {
                let at = Timestamp::from_millis(millis).expect("within a day");
                let mut reading = Reading::at(at);
                let utilization = Utilization::from_percent(*percent);
                reading.utilization = Ok(utilization.expect("a percentage"));
                reading.power = Milliwatts::new(milliwatts(number));
                meter.record(&reading, Bytes::new(1 << 30).expect("a GiB"));
                millis += 5_000;
            }
        }
        meter.total().0 / 1_000_000_000
    }

    const VARIES: fn(u64) -> u32 = |number| 50_000 + u32::try_from(number % 7).unwrap_or(0);
    const SAME: fn(u64) -> u32 = |_| 51_400;

    #[test]
    fn readings_that_repeat_at_part_load_are_of_a_monitor_that_stopped() {
        assert_eq!(still(&[(600, 40, VARIES), (300, 64, SAME), (600, 40, VARIES)]), 1_495);
        assert_eq!(still(&[(300, 64, SAME)]), 1_495, "up to now");
        assert_eq!(still(&[(300, 64, SAME), (9, 30, VARIES), (480, 31, SAME)]), 1_495 + 2_395);
    }

    #[test]
    fn idle_and_full_gpus_and_short_coincidences_are_not() {
        assert_eq!(still(&[(3_000, 0, SAME)]), 0);
        assert_eq!(still(&[(3_000, 100, SAME)]), 0);
        assert_eq!(still(&[(100, 40, SAME), (100, 41, SAME)]), 0, "eight minutes each");
        assert_eq!(still(&[(3_000, 40, VARIES)]), 0);
    }
}
