//! Pauses of a GPU between work: how many, how long, how regular, and whether memory is held in them.
//!
//! `activity` has them exactly if a GPU does nothing at all in a pause. If a driver reports a percent or two then, they
//! are counted in the column, and last as long as the idle time. Must not depend on what causes them.

use phasemeter_policy::{Accounts, Gpu};

/// Readings in a pause of mean length, so that it is seen. An assumption.
const READINGS_PER_PAUSE: f64 = 3.0;

/// The longest of regular pauses, relative to the shortest. An assumption.
const REGULAR: f64 = 1.5;

/// Shares of the times from one pause to the next between which they are regular if they are alike. An assumption.
const MIDDLE: (f64, f64) = (0.2, 0.8);

/// Share of the idle time between work in exact pauses, from which these are all. An assumption.
const EXACT: f64 = 0.5;

/// Utilization of a point with a pause, relative to that of work, at most. An assumption.
const DIP: f64 = 0.9;

/// Idle time that dips of the column show, relative to the idle time, at least and at most: other dips are no
/// pauses. An assumption.
const SHOWN: (f64, f64) = (0.5, 2.0);

/// Mean utilization of idle time above which it is light load and no pause: drivers report a percent or two while a
/// job waits. An assumption.
const LIGHT_LOAD: f64 = 0.03;

/// Shortest mean pause, in seconds: shorter waits are those for input. An assumption.
const MIN_MEAN_SECONDS: f64 = 60.0;

/// Pauses of one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holes {
    pub(crate) count: f64,
    pub(crate) seconds: f64,
    /// Share of it in which a process or memory holds the GPU.
    pub(crate) held: f64,
    /// The median time from one pause to the next, in seconds; infinite if there are fewer than two.
    pub(crate) period: f64,
    pub(crate) is_regular: bool,
}

impl Holes {
    /// `None` if there are none, or readings are too far apart to see them.
    pub(crate) fn of(gpu: &Gpu, step_seconds: f64) -> Option<Self> {
        let activity = &gpu.activity;
        let ends = activity.before_work.seconds + activity.after_work.seconds;
        let idle = gpu.share(Accounts::idle) * gpu.accounts.observed().seconds;
        let between = (idle - ends).max(0.0);
        let dips = Dips::of(gpu, step_seconds);
        let interval = activity.interval_seconds?;
        let exact = activity.pauses;
        let found = if exact.count > 0 && exact.quiet.seconds >= EXACT * between {
            let longest = exact.longest_seconds - interval - interval;
            Self {
                count: f64::from(exact.count),
                seconds: exact.quiet.seconds,
                held: exact.quiet.held_seconds / exact.quiet.seconds.max(1.0),
                period: dips.period,
                is_regular: longest <= REGULAR * exact.shortest_seconds || dips.is_regular,
            }
        } else {
            let shown = SHOWN.0 * between..=SHOWN.1 * between;
            let is_light_load = gpu.accounts.idle().level() > LIGHT_LOAD;
            if is_light_load || dips.count < 1.0 || !shown.contains(&dips.seconds) {
                return None;
            }
            let held = gpu.accounts.idle_held.seconds / idle.max(1.0);
            Self {
                count: dips.count,
                seconds: between,
                held,
                period: dips.period,
                is_regular: dips.is_regular,
            }
        };
        let is_seen = READINGS_PER_PAUSE * interval <= found.mean();
        (is_seen && found.mean() >= MIN_MEAN_SECONDS).then_some(found)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.seconds / self.count.max(1.0)
    }
}

/// Runs of points below the utilization of work.
struct Dips {
    count: f64,
    seconds: f64,
    period: f64,
    is_regular: bool,
}

impl Dips {
    fn of(gpu: &Gpu, step_seconds: f64) -> Self {
        let level = gpu.accounts.busy().level().max(f64::MIN_POSITIVE);
        let (mut starts, mut seconds, mut was_low) = (Vec::new(), 0.0, true);
        for (point, utilization) in gpu.utilization.iter().enumerate() {
            let is_low = *utilization < DIP * level;
            if is_low && !was_low {
                starts.push(point as f64 * step_seconds);
            }
            if is_low && !starts.is_empty() {
                seconds += (1.0 - utilization / level) * step_seconds;
            }
            was_low = is_low;
        }
        let mut periods: Vec<_> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
        periods.sort_by(f64::total_cmp);
        let at = |share: f64| periods.get((share * periods.len() as f64) as usize).copied();
        let alike = at(MIDDLE.0).zip(at(MIDDLE.1));
        Self {
            count: starts.len() as f64,
            seconds,
            period: at(0.5).unwrap_or(f64::INFINITY),
            // The start of a dip is known to a point.
            is_regular: alike.is_some_and(|(low, high)| high - step_seconds <= REGULAR * low)
                && periods.len() > 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::gpu;

    use super::*;

    #[test]
    fn pauses_with_a_percent_of_load_are_seen_in_the_column() {
        let level = |second: usize| match second % 1_410 {
            ..1_320 => 0.96,
            second => 0.01 * (second % 3) as f64,
        };
        let gpu = gpu(PatternKind::Mixed, 40 * 3_600, level);
        assert_eq!(gpu.activity.pauses.count, 0);
        let holes = Holes::of(&gpu, 256.0).unwrap();
        assert!((holes.count - 102.0).abs() <= 1.0 && holes.is_regular, "{holes:?}");
        assert!((holes.mean() - 90.0).abs() < 2.0, "{holes:?}");
        assert!((holes.period - 1_410.0).abs() <= 256.0, "{holes:?}");
    }

    #[test]
    fn varying_load_has_no_pauses() {
        let level = |second: usize| if second % 600 < 300 { 0.9 } else { 0.5 };
        assert!(Holes::of(&gpu(PatternKind::Mixed, 7_200, level), 16.0).is_none());
    }
}
