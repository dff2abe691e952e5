//! Full GPUs that wait in a collective for ranks that lack input: they count as busy and draw little meanwhile.

use crate::bounds::MOSTLY_FULL;
use phasemeter_policy::column::correlation;
use phasemeter_policy::{Gpu, Window, Workload};

/// Power of a full GPU at its 5th percentile, relative to its 95th, up to which it falls at times. An assumption.
const FALLS: f64 = 0.6;

/// Correlation of two GPUs from which one waits for the other, or while it works if it is negative. An assumption.
pub const IN_STEP: f64 = 0.7;

/// Whether a GPU is full, and its power falls at times.
fn falls(gpu: &Gpu) -> bool {
    gpu.workload == Workload::Training
        && !gpu.is_bouncing()
        && gpu.full_share() >= MOSTLY_FULL
        && gpu.sensors.busy_power.is_some_and(|power| power.p5 <= FALLS * power.p95)
}

/// Whether the power of a full GPU falls when another one of its job has nothing to do. Points that are much longer
/// than the waits do not show that.
pub fn waits_for(gpu: &Gpu, other: &Gpu) -> bool {
    falls(gpu)
        && other.is_bouncing()
        && other.is_alike(gpu)
        && correlation(&gpu.power, &other.utilization).is_some_and(|it| it >= IN_STEP)
}

/// Whether a full GPU waits in a collective for any that lacks input: its load is not its own.
pub fn waits_in_collective(gpu: &Gpu, window: &Window) -> bool {
    falls(gpu) && window.gpus.iter().any(|other| waits_for(gpu, other))
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Percentiles;
    use phasemeter_policy::testing::{bouncing, steady, window};

    use super::*;

    /// A full GPU that draws `watts` while the other one works, and 200 W while it waits.
    fn full(other: &Gpu, watts: f64) -> Gpu {
        let mut gpu = steady(3_600, 0.99);
        gpu.power = other.utilization.iter().map(|it| 200.0 + (watts - 200.0) * it).collect();
        gpu.sensors.busy_power =
            Some(Percentiles { p5: 200.0, p50: watts, p95: watts, max: watts });
        gpu
    }

    #[test]
    fn full_gpu_whose_power_falls_with_another_waits_for_it() {
        let starved = bouncing(3_600, 23, 0.6);
        let later = {
            let mut later = full(&starved, 600.0);
            later.power.rotate_right(2);
            later
        };
        let serves = Gpu { workload: Workload::Serving, ..full(&starved, 600.0) };
        let steady_power = full(&starved, 220.0);
        let gpus = [full(&starved, 600.0), later, serves, steady_power, steady(3_600, 0.99)];
        let window = window(gpus.into_iter().chain([starved]).collect());
        let found: Vec<_> =
            window.gpus.iter().map(|gpu| waits_in_collective(gpu, &window)).collect();
        assert_eq!(found, [true, false, false, false, false, false]);
    }
}
