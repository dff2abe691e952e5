//! Periods in which no GPU of an instance works. Must not depend on what is recommended.

use phasemeter_policy::Window;
use phasemeter_specs::{Unit, quiet_runs};

use crate::HOUR;
use crate::schedule::DAY;

/// Share of the time without work in which a process holds the GPUs, from which one does. An assumption.
const HELD: f64 = 0.5;

/// Difference of the times for which GPUs are held, as a share of the longest, up to which one job holds them. An
/// assumption.
const TOGETHER: f64 = 0.1;

/// Shortest period without work before the first work and after the last, in seconds. An assumption.
const MIN_END_SECONDS: f64 = 1_200.0;

/// Periods of one day are a schedule from this number on, on different days.
const SCHEDULED_PERIODS: usize = 2;

/// Minimum length of such a period, in hours.
const SCHEDULED_HOURS: f64 = 3.0;

/// Periods without work on a unit.
pub(crate) struct Idle {
    /// (start, end) in seconds since the start of the window.
    pub(crate) periods: Vec<(f64, f64)>,
    /// Length of the window in seconds.
    pub(crate) length: f64,
    /// Share of the time in which each GPU had stretches without work of ten minutes or more: they are
    /// of whole seconds, and periods of points.
    pub(crate) stretches: f64,
    /// Whether a process or memory holds the GPUs for most of that time.
    pub(crate) is_held: bool,
    /// The longest time without work for which a GPU is held.
    pub(crate) held_seconds: f64,
    /// Share of the window in which none works or is held, at least.
    pub(crate) free: f64,
}

/// When the periods are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// All the time.
    Always,
    /// On several days.
    Daily,
    /// Before the first work only.
    Before,
    /// Before the first work, after the last, or once in between.
    Once,
}

impl Idle {
    /// Periods of at least this length; less before the first work and after the last.
    pub(crate) fn of(unit: &Unit<'_>, window: &Window, min_seconds: f64) -> Self {
        let length = window.end.saturating_sub(window.start) as f64 / 1e9;
        // A start and an end occur once; a period in between may be a pause.
        let is_end = |period: &(f64, f64)| {
            (period.0 <= window.step_seconds) != (period.1 + window.step_seconds >= length)
        };
        let long = |period: &(f64, f64)| {
            let min = if is_end(period) { min_seconds.min(MIN_END_SECONDS) } else { min_seconds };
            period.1 - period.0 >= min
        };
        let held = || unit.gpus.iter().map(|gpu| gpu.activity.quiet.held_seconds);
        let quiet = || unit.gpus.iter().map(|gpu| gpu.activity.quiet.seconds);
        let stretches = unit.gpus.iter().map(|gpu| gpu.activity.ten_minutes_seconds);
        let stretches = stretches.fold(length, f64::min);
        let periods: Vec<_> = quiet_runs(unit, window).into_iter().filter(long).collect();
        // GPUs that are held for equally long are held by one job; others may be one after another.
        let (least, most) = (held().fold(length, f64::min), held().fold(0.0, f64::max));
        let any_held = if most - least <= TOGETHER * most { most } else { held().sum() };
        let share = |seconds: f64| if length > 0.0 { seconds / length } else { 0.0 };
        Self {
            free: share(f64::max(quiet().fold(length, f64::min) - any_held, 0.0)),
            held_seconds: most,
            stretches: share(stretches),
            is_held: held().sum::<f64>() > HELD * quiet().sum::<f64>(),
            periods,
            length,
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.periods.iter().map(|period| period.1 - period.0).sum()
    }

    pub(crate) fn longest(&self) -> f64 {
        self.periods.iter().map(|period| period.1 - period.0).fold(0.0, f64::max)
    }

    /// Share of the window that is saved if the unit is given back `after` seconds without work.
    pub(crate) fn saved(&self, after: f64) -> f64 {
        let saved = self.periods.iter().map(|period| f64::max(period.1 - period.0 - after, 0.0));
        if self.length > 0.0 { saved.sum::<f64>() / self.length } else { 0.0 }
    }

    pub(crate) fn when(&self, step: f64) -> When {
        let scheduled = |period: &&(f64, f64)| period.1 - period.0 >= SCHEDULED_HOURS * HOUR;
        let is_first = |period: &(f64, f64)| period.0 <= step;
        match self.periods.as_slice() {
            [all] if is_first(all) && all.1 + step >= self.length => When::Always,
            [first] if is_first(first) => When::Before,
            periods
                if self.length >= DAY
                    && periods.iter().filter(scheduled).count() >= SCHEDULED_PERIODS =>
            {
                When::Daily
            }
            _ => When::Once,
        }
    }
}
