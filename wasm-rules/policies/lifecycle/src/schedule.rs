//! The hours in which a unit did nothing on any day, as a schedule to stop it by.
//!
//! Must not depend on the policy's recommendations.

use phasemeter_policy::{Gpu, Remediation, Window};
use phasemeter_specs::Unit;

pub(crate) const DAY: f64 = 86_400.0;

/// Share of an hour of the week that is idle if the hour is.
const IDLE_HOUR: f64 = 0.95;

/// Hours in which nothing ran on any day.
pub(crate) struct Schedule {
    /// Hours of working days, from midnight.
    daily: [bool; 24],
    /// Whether all of the weekend is among them.
    weekend: bool,
    /// Share of the observed time.
    pub(crate) share: f64,
    /// Number of observed days.
    days: f64,
}

impl Schedule {
    pub(crate) fn of(unit: &Unit<'_>) -> Self {
        let at = |day: usize, hour: usize| idle_hour(&unit.gpus, day * 24 + hour);
        let daily = std::array::from_fn(|hour| {
            let observed = (0..5).filter_map(|day| at(day, hour));
            observed.reduce(|a, b| a && b).unwrap_or(false)
        });
        let weekend = (5..7).flat_map(|day| (0..24).filter_map(move |hour| at(day, hour)));
        let weekend = weekend.reduce(|a, b| a && b).unwrap_or(false);
        let week = unit.gpus.first().map_or(&[][..], |gpu| &gpu.activity.week);
        let (mut off, mut all) = (0.0, 0.0);
        for (hour, of_week) in week.iter().enumerate() {
            all += of_week.observed_seconds;
            if if hour < 120 { daily[hour % 24] } else { weekend } {
                off += of_week.observed_seconds;
            }
        }
        let share = if all > 0.0 { off / all } else { 0.0 };
        Self { daily, weekend, share, days: all / DAY }
    }

    /// Share of the time saved if each day's start takes so many seconds.
    pub(crate) fn saved(&self, start: f64) -> f64 {
        (self.share - start / DAY).max(0.0) * f64::from(u8::from(self.days > 0.0))
    }

    /// The first hour without work of each run of them, and the first hour after it.
    fn runs(&self) -> impl Iterator<Item = (usize, usize)> {
        let from = (0..24).filter(|hour| self.daily[*hour] && !self.daily[(hour + 23) % 24]);
        let length = |from| (0..24).take_while(|after| self.daily[(from + after) % 24]).count();
        from.map(move |from| (from, (from + length(from)) % 24))
    }

    /// The hours of one day to stop in, for automation: none goes beyond midnight.
    pub(crate) fn remediation(&self, window: &Window) -> Remediation {
        let from =
            (0..24).filter(|hour| self.daily[*hour] && (*hour == 0 || !self.daily[hour - 1]));
        let until = |from| (from..24).find(|hour| !self.daily[*hour]).unwrap_or(24);
        let runs = from.map(|from| format!("{from}-{}", until(from)));
        let mut parameters = vec![
            ("workday_hours", runs.collect::<Vec<_>>().join(",")),
            ("weekend", self.weekend.to_string()),
        ];
        let offset = window.utc_offset_seconds.unwrap_or(0);
        parameters.push(("utc_offset_seconds", offset.to_string()));
        Remediation::new("instance.schedule", parameters)
    }

    /// Like `from 18:00 to 8:00 local time, and at weekends`.
    pub(crate) fn text(&self, window: &Window) -> String {
        let runs = self.runs().map(|(from, until)| format!("from {from}:00 to {until}:00"));
        let runs: Vec<_> = runs.collect();
        let zone = match window.utc_offset_seconds {
            None => " UTC",
            Some(_) => " local time",
        };
        let daily = match runs.as_slice() {
            [] if self.weekend => return "at weekends".to_owned(),
            [] => "in the hours without work".to_owned(),
            [one] => [one, zone].concat(),
            [most @ .., last] => [&*most.join(", "), " and ", last, zone].concat(),
        };
        if self.weekend { daily + ", and at weekends" } else { daily }
    }
}

/// Whether an hour of the week was observed, and idle for all these GPUs.
fn idle_hour(gpus: &[&Gpu], hour: usize) -> Option<bool> {
    let mut is_idle = true;
    for gpu in gpus {
        let hour = gpu.activity.week.get(hour)?;
        if hour.observed_seconds <= 0.0 {
            return None;
        }
        is_idle &= hour.idle_seconds >= IDLE_HOUR * hour.observed_seconds;
    }
    Some(is_idle)
}
