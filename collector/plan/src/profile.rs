//! The profile of a measured run: what its GPUs did in each hour, and in each hour of the day.
//!
//! Must not depend on the format of a report.

use std::collections::BTreeMap;

/// Seconds of an hour.
const HOUR: f64 = 3_600.0;

/// Hours of a day.
const DAY: usize = 24;

/// The least part of an hour that is representative of it.
const MIN_PART: f64 = 0.5;

/// A period of one GPU: an hour, or longer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Period {
    /// Its start, in seconds since the epoch.
    pub start: f64,
    /// Its length in seconds, above zero.
    pub seconds: f64,
    /// Σ utilization × seconds.
    pub effective_seconds: f64,
    /// Whether the GPU was in use: at work, or held by a process.
    pub in_use: bool,
}

/// What all GPUs did in one UTC hour.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Hour {
    /// Seconds of it that are in the run.
    pub covered: f64,
    /// Σ utilization × seconds.
    pub effective: f64,
    /// GPUs that were in use at any time in it.
    pub in_use: u64,
}

/// The hours of a run, by their number since the epoch.
#[must_use]
pub fn hours(gpus: &[Vec<Period>]) -> BTreeMap<u64, Hour> {
    let mut hours: BTreeMap<u64, Hour> = BTreeMap::new();
    for periods in gpus {
        let mut own: BTreeMap<u64, Hour> = BTreeMap::new();
        for period in periods {
            let end = period.start + period.seconds;
            for hour in whole(period.start / HOUR)..=whole(end / HOUR) {
                let begin = hour as f64 * HOUR;
                let covered = end.min(begin + HOUR) - period.start.max(begin);
                if covered > 0.0 {
                    let known = own.entry(hour).or_default();
                    known.covered += covered;
                    known.effective += period.effective_seconds * covered / period.seconds;
                    known.in_use |= u64::from(period.in_use);
                }
            }
        }
        for (hour, own) in own {
            let known = hours.entry(hour).or_default();
            known.covered = known.covered.max(own.covered);
            known.effective += own.effective;
            known.in_use += own.in_use;
        }
    }
    hours
}

/// The highest rate of each hour of the day, from rates of hours; `None` unless all 24 have one.
#[must_use]
pub fn busiest_day(rates: impl IntoIterator<Item = (u64, f64)>) -> Option<Vec<f64>> {
    let mut day: [Option<f64>; DAY] = [None; DAY];
    for (hour, rate) in rates {
        let of_day = usize::try_from(hour % DAY as u64).unwrap_or_default();
        let known = day.get_mut(of_day)?;
        *known = Some(known.map_or(rate, |known| known.max(rate)));
    }
    day.into_iter().collect()
}

impl Hour {
    /// Whether enough of it is in the run.
    #[must_use]
    pub fn is_representative(&self) -> bool {
        self.covered >= MIN_PART * HOUR
    }

    /// GPUs that would suffice if each were fully used: effective seconds per second.
    #[must_use]
    pub fn busy_gpus(&self) -> f64 {
        self.effective / self.covered
    }

    /// A count of the hour per second.
    #[must_use]
    pub fn per_second(&self, count: f64) -> f64 {
        count / self.covered
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "hours since 1970")]
fn whole(hours: f64) -> u64 {
    hours.max(0.0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-07-27T00:00:00Z.
    const MIDNIGHT: f64 = 1_785_110_400.0;

    fn period(start: f64, seconds: f64, busy: f64) -> Period {
        let (start, effective_seconds) = (MIDNIGHT + start, busy * seconds);
        Period { start, seconds, effective_seconds, in_use: busy > 0.0 }
    }

    #[test]
    fn hours_are_sums_over_gpus() {
        let gpus = [
            vec![period(1_800.0, 1_800.0, 0.5), period(3_600.0, 3_600.0, 1.0)],
            vec![period(1_800.0, 5_400.0, 0.0)],
        ];
        let hours: Vec<Hour> = hours(&gpus).into_values().collect();
        assert_eq!(hours[0], Hour { covered: 1_800.0, effective: 900.0, in_use: 1 });
        assert_eq!(hours[1], Hour { covered: 3_600.0, effective: 3_600.0, in_use: 1 });
        assert_eq!(hours.len(), 2);
        assert!((hours[0].busy_gpus() - 0.5).abs() < 1e-9);
        assert!(hours[0].is_representative());
    }

    #[test]
    fn long_period_is_spread_over_its_hours() {
        let hours = hours(&[vec![period(0.0, 4.0 * 3_600.0, 0.25)]]);
        assert_eq!(hours.len(), 4);
        let is_alike = |hour: &Hour| (hour.busy_gpus() - 0.25).abs() < 1e-9 && hour.in_use == 1;
        assert!(hours.values().all(is_alike));
    }

    #[test]
    fn busiest_day_takes_the_highest_of_each_hour_and_needs_all() {
        let first = whole(MIDNIGHT / HOUR);
        let rates = (0..48).map(|hour| (first + hour, if hour == 30 { 9.0 } else { 1.0 }));
        let day = busiest_day(rates).unwrap();
        assert_eq!((day.len(), day[6], day[7]), (24, 9.0, 1.0));
        assert_eq!(busiest_day((0..23).map(|hour| (hour, 1.0))), None);
    }
}
