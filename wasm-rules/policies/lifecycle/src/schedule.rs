//! The hours in which a unit did nothing on any day, as a schedule to stop it by.

use phasemeter_diagnoses::{MIN_HOURS, Unit, are_separate, is_credible, share};
use phasemeter_policy::format::{DAY, HOUR};
use phasemeter_policy::{Gpu, Remediation, Window, groups};

use crate::idle::Idle;

/// Days observed from which hours are a schedule, of working days and of weekends, and days with work; the last reading
/// of a log covers nothing. An assumption.
const MIN_DAYS: f64 = 1.9;

/// Share of an hour of the week that is idle if the hour is: ten seconds of work are none. An assumption.
const IDLE_HOUR: f64 = 0.997;

/// Hours of a day, from midnight.
type Hours = [bool; 24];

/// Hours in which nothing ran on any day.
pub(crate) struct Schedule {
    /// Of working days, and of weekends if they were observed.
    workday: Hours,
    weekend: Option<Hours>,
    /// Share of the observed time.
    pub(crate) share: f64,
    /// How often a unit is started again, per second of the observed time.
    starts: f64,
    /// Observed days.
    pub(crate) days: f64,
}

impl Schedule {
    /// `None` if no hours are idle on every day, or all are.
    pub(crate) fn of(unit: &Unit<'_>) -> Option<Self> {
        let week = &unit.gpus.first()?.activity.week;
        if week.iter().map(|hour| hour.observed_seconds).sum::<f64>() < MIN_DAYS * DAY {
            return None;
        }
        let days = |days: std::ops::Range<usize>| {
            let hours = days.flat_map(|day| day * 24..(day + 1) * 24);
            hours.map(|hour| observed(&unit.gpus, hour)).sum::<f64>() / DAY
        };
        let (workdays, weekends) = (days(0..5), days(5..7));
        let works = |hour: usize| observed(&unit.gpus, hour) > 0.0 && !is_idle(&unit.gpus, hour);
        let used = (0..7).filter(|day| (day * 24..(day + 1) * 24).any(works)).count();
        if workdays < MIN_DAYS || (used as f64) < MIN_DAYS {
            return None;
        }
        let workday = idle_hours(&unit.gpus, 0..5);
        let weekend = (weekends >= MIN_DAYS).then(|| idle_hours(&unit.gpus, 5..7));
        let is_all = |hours: &Hours| hours.iter().all(|hour| *hour);
        let all = weekend.unwrap_or(workday);
        let is_none = !workday.contains(&true) && !weekend.is_some_and(|it| it.contains(&true));
        if is_none || is_all(&workday) && is_all(&all) {
            return None;
        }
        let off = |hours: &Hours, days: f64| {
            let count = hours.iter().filter(|hour| **hour).count();
            let starts = if is_all(hours) { 0.5 } else { runs(hours).count() as f64 };
            (count as f64 * HOUR / DAY * days, starts * days)
        };
        let (days_off, starts) = off(&workday, workdays);
        let (weekend_off, weekend_starts) = weekend.map_or((0.0, 0.0), |it| off(&it, weekends));
        let days = workdays + weekends;
        Some(Self {
            workday,
            weekend,
            share: (days_off + weekend_off) / days,
            starts: (starts + weekend_starts) / (days * DAY),
            days,
        })
    }

    /// Whether both stop in the same hours.
    pub(crate) fn has_hours_of(&self, other: &Self) -> bool {
        self.workday == other.workday && self.weekend == other.weekend
    }

    /// Whether nothing runs in these hours: utilization below 10% may be a few requests. A window of one day may be a
    /// day with less idle time than others.
    pub(crate) fn is_quiet(&self, idle: &Idle) -> bool {
        idle.quiet >= share::NEARLY_ALL * f64::min(self.share, idle.below)
    }

    /// Whether it is of a longer time than the window, as that of a sidecar.
    pub(crate) fn is_longer(&self, idle: &Idle) -> bool {
        (self.days - 1.0) * DAY > idle.length
    }

    /// Share of the time saved if each start takes so many seconds.
    pub(crate) fn saved(&self, start: f64) -> f64 {
        (self.share - start * self.starts).max(0.0)
    }

    /// The hours of one day to stop in, for automation: none goes beyond midnight.
    pub(crate) fn remediation(&self, window: &Window) -> Remediation {
        let list = |hours: &Hours| {
            let from = (0..24).filter(|hour| hours[*hour] && (*hour == 0 || !hours[hour - 1]));
            let until = |from| (from..24).find(|hour| !hours[*hour]).unwrap_or(24);
            from.map(|from| format!("{from}-{}", until(from))).collect::<Vec<_>>().join(",")
        };
        let all = [("stop_hours", list(&self.workday))];
        let weekend = self.weekend.map(|hours| ("weekend_stop_hours", list(&hours)));
        let offset = window.utc_offset_seconds.unwrap_or(0).to_string();
        let parameters = all.into_iter().chain(weekend).filter(|(_, hours)| !hours.is_empty());
        Remediation::new("instance.schedule", parameters.chain([("utc_offset_seconds", offset)]))
            .unless(
                "work comes at other hours than so far, or capacity may be short in the morning",
            )
    }

    /// Like `from 18:00 to 8:00 UTC+2 on workdays, and at weekends`.
    pub(crate) fn text(&self, window: &Window) -> String {
        let zone = [" ", &*window.time_zone()].concat();
        let text = |hours: &Hours| {
            if !hours.contains(&false) {
                return "all day".to_owned();
            }
            let runs = runs(hours).map(|(from, until)| format!("from {from}:00 to {until}:00"));
            runs.collect::<Vec<_>>().join(" and ") + &zone
        };
        let workday = || text(&self.workday) + " on workdays";
        match &self.weekend {
            Some(weekend) if *weekend == self.workday => text(weekend) + " every day",
            Some(weekend) if !weekend.contains(&true) => workday(),
            Some(weekend) => {
                let at_weekends = if weekend.contains(&false) {
                    text(weekend) + " at weekends"
                } else {
                    "at weekends".to_owned()
                };
                if self.workday.contains(&true) {
                    [&*workday(), ", and ", &at_weekends].concat()
                } else {
                    at_weekends
                }
            }
            None => workday(),
        }
    }
}

/// The GPUs with the same hours, for each set of hours; none if they are all GPUs of the instance.
pub(crate) fn parts<'a>(unit: &Unit<'a>) -> Vec<Unit<'a>> {
    let alone = |gpus| Unit { gpus, is_whole: false, ..*unit };
    let scheduled = unit.gpus.iter().filter(|gpu| is_credible(gpu)).filter_map(|gpu| {
        let schedule = Schedule::of(&alone(vec![*gpu]))?;
        Some((*gpu, schedule))
    });
    let parts = groups(scheduled, |a, b| {
        a.1.has_hours_of(&b.1) && a.0.is_alike(b.0) && !are_separate(a.0, b.0)
    });
    let is_part = |part: &Vec<_>| !unit.is_whole || part.len() < unit.gpus.len();
    let of = |part: Vec<_>| alone(part.into_iter().map(|(gpu, _)| gpu).collect());
    parts.into_iter().filter(is_part).map(of).collect()
}

/// Observed seconds of an hour of the week, on all these GPUs.
fn observed(gpus: &[&Gpu], hour: usize) -> f64 {
    let of = |gpu: &&Gpu| gpu.activity.week.get(hour).map_or(0.0, |hour| hour.observed_seconds);
    gpus.iter().map(of).reduce(f64::min).unwrap_or(0.0)
}

/// Whether an hour of the week is idle on all these GPUs.
fn is_idle(gpus: &[&Gpu], hour: usize) -> bool {
    gpus.iter().all(|gpu| {
        let hour = gpu.activity.week.get(hour);
        hour.is_some_and(|hour| hour.idle_seconds >= IDLE_HOUR * hour.observed_seconds)
    })
}

/// The hours that are idle on all these days on which they were observed, in runs that are worth a stop.
fn idle_hours(gpus: &[&Gpu], days: std::ops::Range<usize>) -> Hours {
    let mut hours: Hours = std::array::from_fn(|hour| {
        let of_days = days.clone().map(|day| day * 24 + hour);
        let mut seen = of_days.filter(|hour| observed(gpus, *hour) > 0.0).peekable();
        seen.peek().is_some() && seen.all(|hour| is_idle(gpus, hour))
    });
    for (from, until) in runs(&hours).collect::<Vec<_>>() {
        let length = (until + 24 - from - 1) % 24 + 1;
        if length < MIN_HOURS {
            (from..from + length).for_each(|hour| hours[hour % 24] = false);
        }
    }
    hours
}

/// The first hour of each run, and the first after it; a run may go beyond midnight.
fn runs(hours: &Hours) -> impl Iterator<Item = (usize, usize)> {
    let hours = *hours;
    let from = (0..24).filter(move |hour| hours[*hour] && !hours[(hour + 23) % 24]);
    let length = move |from| (0..24).take_while(|after| hours[(from + after) % 24]).count();
    from.map(move |from| (from, (from + length(from)) % 24))
}

#[cfg(test)]
mod tests {
    use phasemeter_diagnoses::units;
    use phasemeter_policy::HourOfWeek;
    use phasemeter_policy::testing::{steady, window};

    use super::*;

    /// A week in which it works in some hours; `None` if an hour was not observed.
    fn schedule(
        works: impl Fn(usize, usize) -> Option<bool>,
    ) -> (Option<String>, Option<Schedule>) {
        let mut gpu = steady(7_200, 0.0);
        let hour = |hour: usize| match works(hour / 24, hour % 24) {
            None => HourOfWeek { observed_seconds: 0.0, idle_seconds: 0.0 },
            Some(works) => HourOfWeek {
                observed_seconds: 3_600.0,
                idle_seconds: if works { 3_560.0 } else { 3_600.0 },
            },
        };
        gpu.activity.week = (0..168).map(hour).collect();
        let window = window(vec![gpu]);
        let found = Schedule::of(&units(&window)[0]);
        (found.as_ref().map(|found| found.text(&window)), found)
    }

    #[test]
    fn hours_of_every_day_are_stopped_every_day() {
        let (text, found) = schedule(|_, hour| Some((1..5).contains(&hour)));
        assert_eq!(text.unwrap(), "from 5:00 to 1:00 UTC every day");
        let found = found.unwrap();
        assert!((found.share - 20.0 / 24.0).abs() < 1e-9 && found.saved(600.0) > 0.82);
    }

    #[test]
    fn weekends_have_their_own_hours() {
        let office = |day, hour| day < 5 && (8..18).contains(&hour);
        let (text, found) = schedule(|day, hour| Some(office(day, hour)));
        assert_eq!(text.unwrap(), "from 18:00 to 8:00 UTC on workdays, and at weekends");
        let stop = found.unwrap().remediation(&window(vec![]));
        let stop: Vec<_> = stop.parameters.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(stop[..3], ["0-8,18-24", "0-24", "0"]);
        let (text, _) = schedule(|day, hour| (day < 5).then(|| office(day, hour)));
        assert_eq!(text.unwrap(), "from 18:00 to 8:00 UTC on workdays");
        let (text, _) = schedule(|day, _| Some(day < 5));
        assert_eq!(text.unwrap(), "at weekends");
    }

    #[test]
    fn pauses_of_a_day_of_use_are_not_stopped() {
        // Cells at 9, 12 and 16 o'clock: no hour between them is off.
        let (text, _) = schedule(|_, hour| Some([9, 12, 16].contains(&hour)));
        assert_eq!(text.unwrap(), "from 17:00 to 9:00 UTC every day");
        assert!(schedule(|_, hour| Some(hour % 4 == 0)).0.is_none());
        assert!(schedule(|_, _| Some(false)).0.is_none(), "all of the day");
        assert!(schedule(|day, hour| Some(day == 0 && hour == 9)).0.is_none(), "used once");
        assert!(schedule(|day, hour| (day == 0).then_some(hour > 8)).0.is_none(), "a day");
    }
}
