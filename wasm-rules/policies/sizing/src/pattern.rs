//! The pattern of a load.

use phasemeter_diagnoses::{SEES_BURSTS, share};
use phasemeter_policy::column::percentile;
use phasemeter_policy::{Gpu, Window, Workload};

/// Difference between the 10th and the 90th percentile of a steady load. An assumption, as wide as
/// the pattern `steady`.
const STEADY: f64 = 0.3;

/// Fewest points that show it. An assumption.
const MIN_POINTS: usize = 60;

/// Whether the load is steady, as far as the GPU works.
pub(crate) fn is_steady(gpu: &Gpu, window: &Window) -> bool {
    gpu.is_steady() || works_steadily(gpu, window)
}

/// Whether a training job has a steady load while it works, with idle time before or after it.
fn works_steadily(gpu: &Gpu, window: &Window) -> bool {
    let activity = &gpu.activity;
    let is_quiet_for_minutes =
        activity.minutes_seconds >= share::NEARLY_ALL * activity.quiet.seconds;
    let sees_steps = activity.interval_seconds.is_some_and(|interval| interval <= SEES_BURSTS);
    let trains = gpu.workload == Workload::Training && !gpu.is_bouncing();
    if !trains || !is_quiet_for_minutes || !sees_steps {
        return false;
    }
    let idle = window.thresholds().idle;
    let busy: Vec<_> = gpu.utilization.iter().copied().filter(|level| *level >= idle).collect();
    let spread = percentile(&busy, 90).zip(percentile(&busy, 10)).map(|(high, low)| high - low);
    busy.len() >= MIN_POINTS && spread.is_some_and(|spread| spread <= STEADY)
}
