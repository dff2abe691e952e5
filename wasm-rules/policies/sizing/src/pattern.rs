//! The pattern of a load.

use phasemeter_diagnoses::{Replay, SEES_BURSTS, share};
use phasemeter_policy::{Gpu, Window, Workload};

/// Difference between the loads that a steady one exceeds for 10% and for 90% of the time. An assumption, as wide as the
/// pattern `steady`.
const STEADY: f64 = 0.3;

/// Whether the load is steady, as far as the GPU works.
pub(crate) fn is_steady(gpu: &Gpu, window: &Window) -> bool {
    gpu.is_steady() || works_steadily(gpu, window)
}

/// Whether a training job has a steady load while it works, second by second, with idle time before or after it.
fn works_steadily(gpu: &Gpu, window: &Window) -> bool {
    let activity = &gpu.activity;
    let is_quiet_for_minutes =
        activity.minutes_seconds >= share::NEARLY_ALL * activity.quiet.seconds;
    let sees_steps = activity.interval_seconds.is_some_and(|interval| interval <= SEES_BURSTS);
    let trains = gpu.workload == Workload::Training && !gpu.is_bouncing();
    let spread = || Some(Replay::of(&[gpu], window)?.spread(window.thresholds().idle));
    trains && is_quiet_for_minutes && sees_steps && spread().is_some_and(|spread| spread <= STEADY)
}
