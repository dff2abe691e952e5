//! Periods in which no GPU of an instance works.

use phasemeter_diagnoses::{QuietTime, SIMILAR, Unit, share, shows_holder, time};
use phasemeter_policy::{Window, Workload};

use crate::Settings;

/// Difference of instants, as a share of the length, up to which they are the same: the first and the last reading
/// may be of another second than those of other GPUs. An assumption.
const NEAR: f64 = 0.001;

/// Shortest period without work before the first work and after the last, and of a session, in seconds. An assumption.
pub(crate) const MIN_END_SECONDS: f64 = 1_200.0;

/// Periods without work on a unit.
pub(crate) struct Idle {
    /// (start, end) in seconds since the start of the metered time.
    pub(crate) periods: Vec<(f64, f64)>,
    /// Metered time in seconds.
    pub(crate) length: f64,
    /// All periods of ten minutes or more.
    all: Vec<(f64, f64)>,
    /// Whether a process or memory holds the GPUs for most of the time without work.
    pub(crate) is_held: bool,
    /// Whether it is known for most of its idle time whether something holds the GPUs.
    pub(crate) is_known: bool,
    /// The longest time without work for which a GPU is held.
    pub(crate) held_seconds: f64,
    /// Share of the window in which none works or is held, at least.
    pub(crate) free: f64,
    /// Share of the window in which none works, at most.
    pub(crate) quiet: f64,
    /// The same with utilization below 10%.
    pub(crate) below: f64,
    longest: f64,
}

/// When the periods are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum When {
    /// All the time.
    Always,
    /// Before the first work only.
    Before,
    /// After the last work only.
    After,
    /// Before the first work and after the last.
    Around,
    /// Between work.
    Between,
}

impl Idle {
    /// Periods of at least this length; less before the first work and after the last.
    pub(crate) fn of(unit: &Unit<'_>, window: &Window, min_seconds: f64) -> Self {
        let time = QuietTime::of(unit, window);
        let held = || unit.gpus.iter().map(|gpu| gpu.activity.quiet.held_seconds);
        let quiet = || unit.gpus.iter().map(|gpu| gpu.activity.quiet.seconds);
        let below = unit.gpus.iter().map(|gpu| gpu.accounts.idle().seconds);
        let longest = unit.gpus.iter().map(|gpu| gpu.activity.longest_seconds);
        // GPUs that are held for equally long are held by one job; others may be one after another.
        let (least, most) = (held().fold(time.length, f64::min), held().fold(0.0, f64::max));
        let any_held = if most - least <= SIMILAR * most { most } else { held().sum() };
        let is_known = unit.gpus.iter().all(|gpu| shows_holder(gpu));
        let common_quiet = quiet().fold(time.length, f64::min);
        let share = |seconds: f64| if time.length > 0.0 { seconds / time.length } else { 0.0 };
        Self {
            periods: time.at_least(unit, min_seconds, MIN_END_SECONDS),
            all: time.at_least(unit, time::LASTING, time::LASTING),
            free: if is_known { share(f64::max(common_quiet - any_held, 0.0)) } else { 0.0 },
            quiet: share(common_quiet),
            below: share(below.fold(time.length, f64::min)),
            is_known,
            held_seconds: most,
            is_held: held().sum::<f64>() > share::MOST * quiet().sum::<f64>(),
            longest: if time.draws() { time.length } else { longest.fold(time.length, f64::min) },
            length: time.length,
        }
    }

    pub(crate) fn seconds(&self) -> f64 {
        length(&self.periods)
    }

    /// Share of the window in these periods.
    pub(crate) fn share(&self) -> f64 {
        self.saved(0.0)
    }

    pub(crate) fn longest(&self) -> f64 {
        let periods = self.periods.iter().map(|period| period.1 - period.0);
        periods.fold(0.0, f64::max).min(self.longest)
    }

    /// Share of the window that is saved if the unit is given back `after` seconds without work.
    pub(crate) fn saved(&self, after: f64) -> f64 {
        self.without(&self.periods, after)
    }

    /// The same with the shorter ones.
    pub(crate) fn all_saved(&self, after: f64) -> f64 {
        self.without(&self.all, after)
    }

    /// Time without work after which the instance is given back, in seconds. What is held may be somebody's work; a
    /// service is started again by its next request.
    pub(crate) fn ends_after(&self, workload: Workload, settings: &Settings) -> f64 {
        match self.is_held && workload != Workload::Serving {
            true => settings.end_after_seconds,
            false => settings.release_after_seconds,
        }
    }

    /// Whether work follows most of the time without it: what a job holds meanwhile is that of its next step.
    pub(crate) fn is_followed(&self) -> bool {
        let ends = |period: &&(f64, f64)| period.1 < (1.0 - NEAR) * self.length;
        let followed = self.periods.iter().filter(ends).map(|period| period.1 - period.0);
        followed.sum::<f64>() > share::MOST * self.seconds()
    }

    fn without(&self, periods: &[(f64, f64)], after: f64) -> f64 {
        let saved = periods.iter().map(|period| f64::max(period.1 - period.0 - after, 0.0));
        if self.length > 0.0 { saved.sum::<f64>() / self.length } else { 0.0 }
    }

    pub(crate) fn when(&self) -> When {
        let near = |a: f64, b: f64| (a - b).abs() <= NEAR * self.length;
        match self.periods.as_slice() {
            [all] if near(all.0, 0.0) && near(all.1, self.length) => When::Always,
            [first] if near(first.0, 0.0) => When::Before,
            [last] if near(last.1, self.length) => When::After,
            [first, last] if near(first.0, 0.0) && near(last.1, self.length) => When::Around,
            _ => When::Between,
        }
    }
}

fn length(periods: &[(f64, f64)]) -> f64 {
    periods.iter().map(|period| period.1 - period.0).sum()
}
