//! Pauses of a GPU between work: how many, how long, how regular, and what is held in them.
//!
//! `activity` has them exactly if a GPU does nothing at all in a pause. If a driver reports a percent or two then, they
//! are counted in the column, and last as long as the idle time.

use phasemeter_diagnoses::{NO_WORK, REGULAR, share};

use phasemeter_policy::Gpu;

use crate::dips::Dips;

/// Readings in a pause of mean length, so that it is seen: unrelated readings that are idle three times in four show pauses of
/// four. An assumption.
const READINGS_PER_PAUSE: f64 = 5.0;

/// Idle time that dips of the column show, relative to the idle time, at least and at most: other dips are no
/// pauses. An assumption.
const SHOWN: (f64, f64) = (0.5, 2.0);

/// Pauses of one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holes {
    pub(crate) count: f64,
    pub(crate) seconds: f64,
    /// Share of it in which a process or memory holds the GPU.
    pub(crate) held: f64,
    /// Share of them that directly follow time without readings.
    pub(crate) after_gap: f64,
    /// The mean time from one pause to the next, in seconds; infinite if there are fewer than two.
    pub(crate) period: f64,
    pub(crate) is_regular: bool,
}

impl Holes {
    /// `None` if there are none, or readings are too far apart to see them.
    pub(crate) fn of(gpu: &Gpu, dips: &Dips, step_seconds: f64) -> Option<Self> {
        let interval = gpu.activity.interval_seconds?;
        let exact = gpu.activity.pauses;
        let share = exact.quiet.seconds / dips.between.max(f64::MIN_POSITIVE);
        let counted = || {
            let longest = exact.longest_seconds - interval - interval;
            let count = f64::from(exact.count);
            Self {
                count,
                seconds: exact.quiet.seconds,
                held: exact.quiet.held_seconds / exact.quiet.seconds.max(1.0),
                // Of the column if it shows them, with the exact number.
                period: if dips.count > 1.0 && count > 1.0 {
                    dips.span / (count - 1.0)
                } else {
                    f64::INFINITY
                },
                is_regular: longest <= REGULAR * exact.shortest_seconds || dips.is_regular,
                ..Self::shown(gpu, dips)
            }
        };
        let has_exact = |least: f64| exact.count > 0 && share >= least;
        let found = if has_exact(share::NEARLY_ALL) {
            counted()
        } else if is_shown(gpu, dips, step_seconds) {
            Self::shown(gpu, dips)
        } else if has_exact(share::MOST) {
            counted()
        } else {
            return None;
        };
        (READINGS_PER_PAUSE * interval <= found.mean()).then_some(found)
    }

    /// As the column shows them.
    fn shown(gpu: &Gpu, dips: &Dips) -> Self {
        Self {
            count: dips.count,
            seconds: dips.between,
            held: gpu.accounts.idle_held.seconds / gpu.accounts.idle().seconds.max(1.0),
            after_gap: dips.after_gap,
            period: dips.period(),
            is_regular: dips.is_regular,
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        self.seconds / self.count.max(1.0)
    }
}

/// Whether dips of the column are the pauses.
fn is_shown(gpu: &Gpu, dips: &Dips, step_seconds: f64) -> bool {
    let shown = SHOWN.0 * dips.between..=SHOWN.1 * dips.between;
    dips.count >= 1.0
        && shown.contains(&dips.seconds)
        && gpu.accounts.idle().level() <= NO_WORK
        && dips.are_resolved(step_seconds)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::gpu;

    use super::*;

    fn of(gpu: &Gpu, step_seconds: f64) -> Option<Holes> {
        Holes::of(gpu, &Dips::of(gpu, step_seconds), step_seconds)
    }

    #[test]
    fn pauses_with_a_percent_of_load_are_seen_in_the_column() {
        let level = |second: usize| match second % 1_410 {
            ..1_320 => 0.96,
            second => 0.01 * (second % 3) as f64,
        };
        let gpu = gpu(PatternKind::Mixed, 40 * 3_600, level);
        assert_eq!(gpu.activity.pauses.count, 0);
        let holes = of(&gpu, 256.0).unwrap();
        assert!((holes.count - 102.0).abs() <= 1.0 && holes.is_regular, "{holes:?}");
        assert!((holes.mean() - 90.0).abs() < 2.0, "{holes:?}");
        assert!((holes.period - 1_410.0).abs() <= 5.0, "{holes:?}");
    }

    #[test]
    fn varying_load_has_no_pauses() {
        let level = |second: usize| if second % 600 < 300 { 0.9 } else { 0.5 };
        assert!(of(&gpu(PatternKind::Mixed, 7_200, level), 16.0).is_none());
    }

    /// Works for `work` of `cycle` seconds; a driver reports 1% now and then in between.
    fn with_percents(hours: usize, work: usize, cycle: usize) -> Gpu {
        gpu(PatternKind::Mixed, hours * 3_600, move |second| {
            if second % cycle < work { 0.95 } else { 0.01 * (second % 2) as f64 }
        })
    }

    #[test]
    fn pauses_of_two_points_are_all_counted() {
        for (work, pause) in [(76.0, 54.0), (54.0, 76.0)] {
            let holes = of(&with_percents(5, work as usize, 130), 32.0).unwrap();
            assert!((holes.count - 138.5).abs() <= 1.0, "{holes:?}");
            assert!((holes.mean() - pause).abs() <= 1.0, "{holes:?}");
            assert!((holes.period - 130.0).abs() <= 0.5, "{holes:?}");
        }
    }

    #[test]
    fn pauses_shorter_than_points_are_not_counted() {
        // Points of 128 s, in which cycles of 130 s only beat.
        assert!(of(&with_percents(20, 76, 130), 128.0).is_none());
    }
}
