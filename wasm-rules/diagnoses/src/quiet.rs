//! Time in which no GPU of a unit works: periods from the columns, as long in total as the exact times of the GPUs.
//!
//! Points of columns are up to 17 minutes long, so the columns show when a unit was quiet, and `activity` shows for
//! how long.

use phasemeter_policy::format::MINUTE;
use phasemeter_policy::{Gpu, HOUR, Window, Workload};

use crate::{Unit, share};

/// Utilization below which nothing runs, as in the contract's `activity`.
pub(crate) const QUIET: f64 = 0.01;

/// Utilization up to which a GPU of a session may draw a screen: drivers report 1%. An assumption.
const SCREEN: f64 = 0.015;

/// Ten minutes: after a minute, and before an hour, the stretches of which `activity` has the exact time.
const TEN_MINUTES: f64 = 10.0 * MINUTE;

/// Periods in which no GPU of a unit works.
#[derive(Clone, Debug, PartialEq)]
pub struct QuietTime {
    /// (start, end) in seconds since the start of the metered time, each cut to it.
    pub periods: Vec<(f64, f64)>,
    /// Metered time, observed or not, in seconds: the window begins up to a step earlier.
    pub length: f64,
    /// Whether these are of a session that draws a screen: the exact times do not show it.
    draws: bool,
}

impl QuietTime {
    /// Of the columns: a point with little work is quiet in part. Periods shorter than ten minutes are left out.
    pub fn of(unit: &Unit<'_>, window: &Window) -> Self {
        let end = window.end.saturating_sub(window.start) as f64 / 1e9;
        let metered =
            |gpu: &&Gpu| gpu.accounts.observed().seconds + gpu.accounts.unobserved.seconds;
        let length = unit.gpus.iter().map(metered).fold(0.0, f64::max).min(end);
        let (step, lead) = (window.step_seconds, end - length);
        let points = unit.gpus.iter().map(|gpu| gpu.utilization.len()).min().unwrap_or(0);
        let columns: Vec<_> = unit.gpus.iter().map(|gpu| &gpu.utilization[..points]).collect();
        let draws = unit.workload() == Workload::Interactive
            && unit.gpus.iter().any(|gpu| draws_a_screen(gpu));
        let bound = if draws { SCREEN } else { QUIET };
        let is_quiet = |point: usize| columns.iter().all(|column| column[point] < bound);
        let busy: Vec<f64> = unit.gpus.iter().map(|gpu| gpu.accounts.busy().level()).collect();
        // The part of a point in which none works, if each works at its mean level.
        let part = |point: usize| {
            let parts = columns.iter().zip(&busy).map(|(column, busy)| {
                let level = column[point];
                if level < *busy { 1.0 - level / busy } else { 0.0 }
            });
            parts.fold(1.0, f64::min)
        };
        let ends = |from: usize, to: usize| {
            // A point between two periods is quiet at both of its ends.
            let at = |point: usize, other: Option<usize>| {
                let is_shared = other.is_some_and(|other| other < points && is_quiet(other));
                if is_shared { 0.5 * part(point) } else { part(point) }
            };
            let before = from.checked_sub(1).map_or(0.0, |point| at(point, point.checked_sub(1)));
            let after = if to < points { at(to, Some(to + 1)) } else { 0.0 };
            let from = (from as f64 - before) * step - lead;
            let to = (to as f64 + after) * step - lead;
            (from.clamp(0.0, length), to.clamp(0.0, length))
        };
        let shortest = TEN_MINUTES - tolerance(TEN_MINUTES);
        let (mut periods, mut from) = (Vec::new(), 0);
        for to in 0..=points {
            if to < points && is_quiet(to) {
                continue;
            }
            // Up to two points longer than its whole points.
            if to > from && (to - from + 2) as f64 * step >= shortest {
                let period = ends(from, to);
                if period.1 - period.0 >= shortest {
                    periods.push(period);
                }
            }
            from = to + 1;
        }
        Self { periods, length, draws }
    }

    /// Whether these are of a session that draws a screen, so that the longest stretch without work is shorter.
    pub fn draws(&self) -> bool {
        self.draws
    }

    /// Those of at least this length, and of `min_end` before the first work or after the last. Together they are
    /// as long as the stretches of a single GPU are, and no longer than those of any of several GPUs.
    pub fn at_least(&self, unit: &Unit<'_>, min: f64, min_end: f64) -> Vec<(f64, f64)> {
        // A start and an end occur once; a period in between may be a pause.
        let is_end = |period: &(f64, f64)| (period.0 <= 0.0) != (period.1 >= self.length);
        let keep = |period: &&(f64, f64)| {
            let min = if is_end(period) { min.min(min_end) } else { min };
            period.1 - period.0 >= min - tolerance(min)
        };
        let mut periods: Vec<_> = self.periods.iter().filter(keep).copied().collect();
        if self.draws {
            return periods;
        }
        let total: f64 = periods.iter().map(|period| period.1 - period.0).sum();
        let bounds = unit.gpus.iter().map(|gpu| bounds(gpu, min, min_end));
        let (least, most) = bounds.fold((0.0, self.length), |sum, gpu| {
            let least = if unit.gpus.len() == 1 { gpu.0 } else { 0.0 };
            (least, f64::min(sum.1, gpu.1))
        });
        let scale = total.clamp(f64::min(least, most), most) / total.max(f64::MIN_POSITIVE);
        for period in &mut periods {
            // An end stays where it is.
            let length = f64::min((period.1 - period.0) * scale, self.length);
            if period.1 >= self.length {
                period.0 = self.length - length;
            } else {
                period.1 = period.0 + length;
            }
        }
        periods.retain(|period| period.1 > period.0);
        periods
    }
}

/// Whether a GPU is idle, but hardly ever without work: drivers report a percent of one that draws a screen.
fn draws_a_screen(gpu: &Gpu) -> bool {
    gpu.activity.quiet.seconds < share::NEARLY_ALL * gpu.accounts.idle().seconds
}

/// How much shorter a period of this length may seem in the columns, in seconds.
fn tolerance(seconds: f64) -> f64 {
    f64::min(MINUTE, share::HARDLY_ANY * seconds)
}

/// The least and the most time of a GPU in stretches without work of at least `min` seconds, and of `min_end` before
/// its first work and after its last.
fn bounds(gpu: &Gpu, min: f64, min_end: f64) -> (f64, f64) {
    let activity = &gpu.activity;
    let classes = [
        (0.0, activity.quiet.seconds),
        (MINUTE, activity.minutes_seconds),
        (TEN_MINUTES, activity.ten_minutes_seconds),
        (HOUR, activity.hours_seconds),
    ];
    let least = classes.iter().find(|class| class.0 >= min).map_or(0.0, |class| class.1);
    let most = classes.iter().rfind(|class| class.0 <= min).map_or(0.0, |class| class.1);
    // Longer ends are among them.
    let ends = [activity.before_work.seconds, activity.after_work.seconds];
    let short: f64 = ends.into_iter().filter(|end| (min_end..min).contains(end)).sum();
    (least + short, most + short)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, window};

    use super::*;

    fn unit(window: &Window) -> Unit<'_> {
        let gpus = window.gpus.iter().collect();
        Unit { gpus, is_whole: true, has_known_size: true, is_committed: false }
    }

    #[test]
    fn unit_is_quiet_only_if_all_its_gpus_are() {
        let from = |from: usize, to: usize| {
            let level = move |second: usize| if (from..to).contains(&second) { 0.0 } else { 0.5 };
            gpu(PatternKind::Mixed, 6_000, level)
        };
        let mut window = window(vec![from(0, 4_000), from(1_000, 6_000)]);
        let periods = |window: &Window| QuietTime::of(&unit(window), window).periods;
        assert_eq!(periods(&window), [(1_000.0, 4_000.0)]);
        window.gpus.truncate(1);
        window.end = window.start + 3_999_500_000_000;
        assert_eq!(periods(&window), [(0.0, 3_999.5)], "none is longer than the window");
    }

    #[test]
    fn screen_that_is_drawn_is_not_work_of_a_session() {
        // Six hours of work, and nine of a screen, every other reading of which is of a percent.
        let level = |second: usize| match second {
            ..21_600 => 0.95,
            second => 0.01 * (second / 10 % 2) as f64,
        };
        let quiet = |workload| {
            let gpu = Gpu { workload, ..gpu(PatternKind::Mixed, 54_000, level) };
            let window = window(vec![gpu]);
            let found = QuietTime::of(&unit(&window), &window);
            let periods = found.at_least(&unit(&window), HOUR, HOUR);
            periods.iter().map(|it| it.1 - it.0).sum::<f64>()
        };
        assert!((quiet(Workload::Interactive) - 32_400.0).abs() < 200.0);
        assert!(quiet(Workload::Serving) < 1.0, "it may answer requests");
    }

    #[test]
    fn long_points_have_the_exact_time() {
        // Points of 512 s, and 40 minutes of work in two hours.
        let level = |second: usize| if second % 7_200 < 2_400 { 0.9 } else { 0.0 };
        let window = window(vec![gpu(PatternKind::Mixed, 40 * 7_200, level)]);
        assert_eq!(window.step_seconds, 512.0);
        let quiet = QuietTime::of(&unit(&window), &window);
        let total = |periods: &[(f64, f64)]| periods.iter().map(|it| it.1 - it.0).sum::<f64>();
        let long = quiet.at_least(&unit(&window), 3_600.0, 1_200.0);
        assert_eq!(long.len(), 40);
        assert!((total(&long) - 40.0 * 4_800.0).abs() < 1.0, "{}", total(&long));
        // Of columns alone, within a minute per period.
        assert!((total(&quiet.periods) - 40.0 * 4_800.0).abs() < 40.0 * 60.0);
        assert!(long.iter().all(|period| period.1 <= quiet.length));
    }

    #[test]
    fn short_work_in_a_long_point_ends_a_stretch() {
        // A burst of 3 s every 20 minutes is less than 1% of its point.
        let level = |second: usize| if second % 1_200 < 3 { 0.9 } else { 0.0 };
        let window = window(vec![gpu(PatternKind::Idle, 400_000, level)]);
        let quiet = QuietTime::of(&unit(&window), &window);
        assert!(quiet.at_least(&unit(&window), 3_600.0, 1_200.0).is_empty());
    }
}
