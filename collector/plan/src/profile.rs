//! The profile of a measured run: what its GPUs did in each hour, and in each hour of the day.

use std::collections::BTreeMap;

/// Seconds of an hour.
const HOUR: f64 = 3_600.0;

/// Hours of a day.
const DAY: usize = 24;

/// A GPU is in use if its work, at full utilization, takes this part of a period. Below it, nothing that
/// matters runs, or a driver's noise is measured.
const MIN_USE: f64 = 0.01;

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
    /// Seconds above the idle threshold.
    pub working_seconds: f64,
    /// Seconds idle and held by a process, or an allocation.
    pub held_seconds: f64,
    /// Seconds without utilization.
    pub unobserved_seconds: f64,
}

impl Period {
    /// Whether the GPU worked in it.
    fn in_use(&self) -> bool {
        self.effective_seconds.max(self.working_seconds) >= MIN_USE * self.seconds
    }

    /// The hours in which it worked, and those in which it worked or was held, in seconds. Hours are paid for
    /// as a whole; of a longer period it is unknown which they are, so the time itself counts.
    fn used(&self) -> [f64; 2] {
        let observed = self.seconds - self.unobserved_seconds;
        let is_hour = self.seconds <= HOUR;
        let worked = match self.in_use() {
            true if is_hour => observed,
            true => self.working_seconds.max(self.effective_seconds).min(observed),
            false => 0.0,
        };
        let is_held = self.held_seconds >= MIN_USE * self.seconds;
        let held = if is_hour && is_held { observed } else { worked + self.held_seconds };
        [worked, held.clamp(worked, observed.max(worked))]
    }
}

/// How much of its time a run used its GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MeasuredUse {
    /// The part of the hours of all GPUs in which they worked, 0 to 1.
    pub worked: f64,
    /// The same, with hours in which they were idle and held.
    pub held: f64,
    /// The length of the run in hours.
    pub hours: u64,
}

impl MeasuredUse {
    /// Whether it is of a day or more, so that nights are in it.
    #[must_use]
    pub const fn has_day(&self) -> bool {
        self.hours >= DAY as u64
    }
}

/// How much of their time these GPUs were used; `None` if nothing was observed.
#[must_use]
pub fn measured_use(gpus: &[Vec<Period>]) -> Option<MeasuredUse> {
    let periods = || gpus.iter().flatten();
    let observed: f64 = periods().map(|it| it.seconds - it.unobserved_seconds).sum();
    let used = |which: fn([f64; 2]) -> f64| periods().map(|it| which(it.used())).sum::<f64>();
    let whole_hours = hours(gpus).values().filter(|hour| hour.is_representative()).count();
    (observed > 0.0).then(|| MeasuredUse {
        worked: (used(|[worked, _]| worked) / observed).clamp(0.0, 1.0),
        held: (used(|[_, held]| held) / observed).clamp(0.0, 1.0),
        hours: whole_hours as u64,
    })
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
                    known.in_use |= u64::from(period.in_use());
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
        let working_seconds = if busy > 0.0 { seconds } else { 0.0 };
        let (held_seconds, unobserved_seconds) = (0.0, 0.0);
        Period {
            start,
            seconds,
            effective_seconds,
            working_seconds,
            held_seconds,
            unobserved_seconds,
        }
    }

    /// Scenario: two days of a GPU that works from 8 to 20 h and is held in all other hours, by hour and in
    /// periods of six hours; and a GPU that never works.
    #[test]
    fn use_is_that_of_hours_with_work() {
        let hour = |hour: u64| {
            let busy = if (8..20).contains(&(hour % 24)) { 0.5 } else { 0.0 };
            let held_seconds = if busy > 0.0 { 0.0 } else { HOUR };
            Period { held_seconds, ..period(hour as f64 * HOUR, HOUR, busy) }
        };
        let idle = (0..48).map(|hour| period(f64::from(hour) * HOUR, HOUR, 0.0));
        let used = measured_use(&[(0..48).map(hour).collect(), idle.collect()]).unwrap();
        assert!((used.worked - 0.25).abs() < 1e-9 && (used.held - 0.5).abs() < 1e-9, "{used:?}");
        assert!(used.has_day() && used.hours == 48);
        let quarter = |quarter: u32| {
            let worked = [0.0, 4.0, 6.0, 2.0][quarter as usize % 4] * HOUR;
            let whole = period(f64::from(quarter) * 6.0 * HOUR, 6.0 * HOUR, 0.0);
            Period { working_seconds: worked, effective_seconds: worked / 2.0, ..whole }
        };
        let used = measured_use(&[(0..8).map(quarter).collect()]).unwrap();
        assert!((used.worked - 0.5).abs() < 1e-9, "{used:?}");
        // An hour with a little work is an hour; noise is none.
        let little = |busy| measured_use(&[vec![period(0.0, HOUR, busy)]]).unwrap();
        assert!((little(0.02).worked - 1.0).abs() < 1e-9 && !little(0.02).has_day());
        let noise = Period { working_seconds: 0.0, ..period(0.0, HOUR, 0.005) };
        assert!(measured_use(&[vec![noise]]).unwrap().worked < 1e-9);
        let unobserved = Period { unobserved_seconds: HOUR, ..period(0.0, HOUR, 0.0) };
        assert_eq!(measured_use(&[vec![unobserved]]), None);
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
