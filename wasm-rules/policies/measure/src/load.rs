//! What the load of a GPU looks like: full, at part load, or faster than its readings.

use phasemeter_diagnoses::{FREQUENT, MATTERS, SEES_BURSTS, SMALL_MEMORY, share};
use phasemeter_policy::{Account, Gpu, Memory, PatternKind, Window, Workload};

/// Standard deviation of the utilization of readings from which they differ as idle and busy do. An assumption.
const DIFFERENT: f64 = 0.15;

/// Mean squared change from one reading to the next, relative to the variance, from which phases
/// have so few readings that they may be an illusion: 2 if readings are unrelated, 4 ÷ n if each
/// phase has n. An assumption.
const UNRELATED: f64 = 0.7;

/// Length of a reading, in points of a column, from which each point is of one or two readings.
const OWN_POINTS: f64 = 0.6;

fn has_pattern(gpu: &Gpu, kinds: &[PatternKind]) -> bool {
    gpu.pattern.is_some_and(|pattern| kinds.contains(&pattern.kind))
}

pub(crate) fn is_steady_part_load(gpu: &Gpu, window: &Window) -> bool {
    let (level, bounds) = (gpu.accounts.observed().level(), window.thresholds());
    gpu.is_steady() && (bounds.idle..bounds.productive).contains(&level)
}

/// Whether it works below full load, steadily or not, and much is lost by that.
pub(crate) fn is_part_load(gpu: &Gpu, window: &Window) -> bool {
    let is_varying = has_pattern(gpu, &[PatternKind::Mixed])
        && gpu.accounts.busy().level() < window.thresholds().productive
        && gpu.lost_underload() >= MATTERS;
    is_steady_part_load(gpu, window) || is_varying
}

/// A session that works again and again, and holds more memory than GPUs are shared with.
pub(crate) fn is_large_session(gpu: &Gpu) -> bool {
    let holds_most = || gpu.memory_share().is_some_and(|share| share > SMALL_MEMORY);
    gpu.workload == Workload::Interactive && gpu.activity.stretches >= FREQUENT && holds_most()
}

/// A batch job that seems to do nothing, but is never quiet.
pub(crate) fn is_idle_batch(gpu: &Gpu) -> bool {
    gpu.workload == Workload::Batch
        && has_pattern(gpu, &[PatternKind::Idle])
        && gpu.quiet_share() < share::MOST
}

/// Whether the memory is a block of constant size, which may be preallocated.
pub(crate) fn has_pool(gpu: &Gpu, window: &Window) -> bool {
    // Most GPUs have none, and the rise takes a pass over the column.
    gpu.memory_pool().is_some() && matches!(gpu.memory_use(window.step_seconds), Memory::Pool(_))
}

/// Whether readings jump between idle and busy from one to the next, so that what happens between them is
/// unknown. Phases of many readings are seen, however slow these are.
pub(crate) fn is_undersampled(gpu: &Gpu, window: &Window) -> bool {
    let long = gpu.activity.ten_minutes_seconds > share::MOST * gpu.activity.quiet.seconds;
    let interval = gpu.activity.interval_seconds.filter(|interval| *interval > SEES_BURSTS);
    let Some(interval) = interval else { return false };
    has_pattern(gpu, &[PatternKind::Mixed, PatternKind::Bouncing])
        && !long
        && gpu.workload != Workload::Serving
        && jumps(gpu, interval / window.step_seconds)
}

/// `points` is the length of a reading in points of the column.
fn jumps(gpu: &Gpu, points: f64) -> bool {
    let readings = variance_of_readings(gpu);
    if readings < DIFFERENT * DIFFERENT {
        return false;
    }
    let stride = (points + 0.5).max(1.0) as usize;
    let levels: Vec<_> =
        gpu.utilization.iter().step_by(stride).copied().filter(|it| !it.is_nan()).collect();
    let count = levels.len().max(1) as f64;
    let mean = levels.iter().sum::<f64>() / count;
    let variance = levels.iter().map(|level| (level - mean).powi(2)).sum::<f64>() / count;
    let changes = levels.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum::<f64>() / count;
    if points >= OWN_POINTS {
        changes >= UNRELATED * variance
    } else {
        variance < share::MOST * readings
    }
}

/// The variance of the utilization of readings between the accounts, which is at most that of all.
fn variance_of_readings(gpu: &Gpu) -> f64 {
    let observed = gpu.accounts.observed();
    let (mean, all) = (observed.level(), observed.seconds.max(1.0));
    let accounts = &gpu.accounts;
    let parts =
        [accounts.idle(), accounts.underutilized, accounts.productive, accounts.compute_bound];
    let part = |part: &Account| (part.level() - mean).powi(2) * part.seconds / all;
    parts.iter().filter(|part| part.seconds > 0.0).map(part).sum()
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, window};

    use super::*;

    /// Whether a load is undersampled, of which a reading every `interval` seconds was logged.
    fn undersampled(seconds: usize, interval: usize, level: impl Fn(usize) -> f64) -> bool {
        let read = |second: usize| level(second / interval * interval);
        let mut gpu = gpu(PatternKind::Mixed, seconds, read);
        gpu.activity.interval_seconds = Some(interval as f64);
        let window = window(vec![gpu]);
        is_undersampled(&window.gpus[0], &window)
    }

    /// A pseudo-random level, 0–1.
    fn noise(second: usize) -> f64 {
        let mixed = (second as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 40) as f64
            / (1 << 24) as f64
    }

    #[test]
    fn readings_that_jump_are_too_slow() {
        let cycle = |second: usize| if second % 41 < 23 { 0.95 } else { 0.0 };
        assert!(undersampled(21_600, 60, cycle));
        assert!(undersampled(1_500, 30, |second| if second % 16 < 7 { 0.9 } else { 0.02 }));
        assert!(undersampled(43_200, 15, noise), "points are means of many readings");
        assert!(!undersampled(7_200, 5, cycle), "they show the cycle");
    }

    #[test]
    fn phases_of_many_readings_are_seen() {
        let phases = |length: usize| {
            move |second: usize| if (second / length).is_multiple_of(2) { 0.95 } else { 0.05 }
        };
        assert!(!undersampled(259_200, 30, phases(1_800)), "half an hour each");
        assert!(!undersampled(7_200, 15, phases(300)));
        let day = |second: usize| 0.05 + 0.3 * ((second / 21_600 % 4) as f64 / 3.0);
        assert!(!undersampled(345_600, 15, day), "it follows the day");
        assert!(
            !undersampled(43_200, 30, |second| 0.3 + 0.2 * noise(second)),
            "always at part load"
        );
    }
}
