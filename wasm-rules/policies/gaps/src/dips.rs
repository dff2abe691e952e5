//! Dips of a GPU's utilization: runs of points below that of work.

use phasemeter_diagnoses::{REGULAR, share};
use std::ops::Range;

use phasemeter_policy::{Accounts, Gpu};

/// Shares of the times from one dip to the next between which they are regular if they are alike. An assumption.
const MIDDLE: (f64, f64) = (0.2, 0.8);

/// Utilization of a point with a pause, relative to that of work, at most. An assumption.
pub(crate) const DIP: f64 = 0.9;

/// Runs of points below the utilization of work.
#[derive(Debug, Default)]
pub(crate) struct Dips {
    pub(crate) count: f64,
    /// Time without work that they show, in seconds.
    pub(crate) seconds: f64,
    /// Idle time between the first and the last work, in seconds: exact.
    pub(crate) between: f64,
    /// From the start of the first to that of the last, in seconds.
    pub(crate) span: f64,
    pub(crate) is_regular: bool,
    /// Share of them that directly follow unobserved points.
    pub(crate) after_gap: f64,
    /// The mean of their lowest points, relative to the utilization of work.
    lowest: f64,
}

impl Dips {
    pub(crate) fn of(gpu: &Gpu, step_seconds: f64) -> Self {
        let activity = &gpu.activity;
        let (observed, busy) = (gpu.accounts.observed().seconds, gpu.accounts.busy());
        let ends = activity.before_work.seconds + activity.after_work.seconds;
        let between = (gpu.share(Accounts::idle) * observed - ends).max(0.0);
        let level = busy.level().max(f64::MIN_POSITIVE);
        // A pause may be shorter than two points, or the work between two pauses: below the mean of both, points
        // show each of them from two points per cycle on.
        let mean = busy.seconds / (busy.seconds + between).max(1.0);
        let low = level * f64::min(mean, DIP);
        // Each with whether it follows an unobserved point.
        let (mut starts, mut seconds) = (Vec::new(), 0.0);
        let (mut lowest, mut lowest_of_all) = (f64::INFINITY, 0.0);
        let (mut was_low, mut was_observed) = (false, true);
        for point in between_ends(gpu, step_seconds) {
            let utilization = &gpu.utilization[point];
            let is_low = *utilization < low;
            if is_low && !was_low {
                starts.push((point as f64 * step_seconds, !was_observed));
                lowest = f64::INFINITY;
            }
            if *utilization < DIP * level {
                seconds += (1.0 - utilization / level) * step_seconds;
            }
            lowest = f64::min(lowest, *utilization);
            if was_low && !is_low {
                lowest_of_all += lowest / level;
            }
            (was_low, was_observed) = (is_low, !utilization.is_nan());
        }
        let mut periods: Vec<_> = starts.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        periods.sort_by(f64::total_cmp);
        let at = |share: f64| periods.get((share * periods.len() as f64) as usize).copied();
        let alike = at(MIDDLE.0).zip(at(MIDDLE.1));
        let count = starts.len() as f64;
        Self {
            count,
            seconds,
            between,
            span: starts.last().zip(starts.first()).map_or(0.0, |(last, first)| last.0 - first.0),
            // The start of a dip is known to a point.
            is_regular: alike.is_some_and(|(low, high)| high - step_seconds <= REGULAR * low)
                && periods.len() > 2,
            after_gap: starts.iter().filter(|start| start.1).count() as f64 / count.max(1.0),
            lowest: lowest_of_all / count.max(1.0),
        }
    }

    /// The mean time from one to the next, in seconds; infinite if there are fewer than two.
    pub(crate) fn period(&self) -> f64 {
        if self.count > 1.0 { self.span / (self.count - 1.0) } else { f64::INFINITY }
    }

    /// Whether points are short enough to show each of them: a pause of two points has one without work, and a
    /// shorter one takes at least half of its length from a point. Else cycles are shorter than points.
    pub(crate) fn are_resolved(&self, step_seconds: f64) -> bool {
        let mean = self.between / self.count.max(1.0);
        self.lowest <= f64::max(1.0 - 0.5 * mean / step_seconds, 0.0) + share::HARDLY_ANY
    }
}

/// The points without those that have time before the first work or after the last.
pub(crate) fn between_ends(gpu: &Gpu, step_seconds: f64) -> Range<usize> {
    let quiet = |seconds: f64| match seconds / step_seconds {
        points if points >= 1.0 => points.ceil() as usize + 1,
        _ => 0,
    };
    let end = gpu.utilization.len().saturating_sub(quiet(gpu.activity.after_work.seconds));
    quiet(gpu.activity.before_work.seconds).min(end)..end
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::gpu;

    use super::*;

    #[test]
    fn dips_after_unobserved_points_follow_a_gap() {
        let gpu = gpu(PatternKind::Mixed, 7_200, |second| match second % 1_800 {
            ..1_200 => 0.9,
            1_200..1_500 => f64::NAN,
            _ => 0.0,
        });
        let dips = Dips::of(&gpu, 16.0);
        // The last one lasts until the end.
        assert_eq!((dips.count, dips.after_gap), (3.0, 1.0), "{dips:?}");
        assert!((dips.period() - 1_800.0).abs() < 16.0, "{dips:?}");
    }
}
