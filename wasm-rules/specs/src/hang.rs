//! GPUs that are fully busy and compute nothing: a collective that waits for a rank that is gone.
//!
//! Must not depend on what is recommended.

use phasemeter_policy::{Gpu, Window, Workload};

/// Time after which a GPU hangs, in seconds, as a default of policies.
const HANG_SECONDS: f64 = 600.0;

/// Power of a GPU that computes nothing, as a share of its limit. An idle H100 draws 10–20%.
const HUNG_POWER: f64 = 0.25;

/// Maximum variation of that power, as a share of the limit. Work varies it more.
const HUNG_VARIATION: f64 = 0.03;

/// Utilization of a collective that waits.
const FULL: f64 = 0.99;

/// Power while the GPU worked before, relative to the power since, from which the difference is clear.
const CONTRAST: f64 = 1.5;

/// Utilization from which a GPU works, as the phases define it.
const WORKS: f64 = 0.1;

/// Returns the seconds since which a GPU hangs: it is fully busy at a flat low power until the end, and it drew
/// more while it worked before, or another GPU of its job does the same. Without either it may compute little.
#[must_use]
pub fn hung_seconds(gpu: &Gpu, window: &Window) -> Option<f64> {
    let (points, power) = stalled(gpu)?;
    let before = gpu.utilization.iter().zip(&gpu.power).rev().skip(points + 1);
    let worked = before.filter(|(utilization, _)| **utilization >= WORKS).map(|(_, power)| *power);
    let has_contrast = worked.fold(0.0, f64::max) >= CONTRAST * power;
    let waits_too = |other: &Gpu| {
        other.id != gpu.id
            && other.is_alike(gpu)
            && other.node() == gpu.node()
            && stalled(other).is_some()
    };
    let waits_together = || gpu.workload != Workload::Serving && window.gpus.iter().any(&waits_too);
    (has_contrast || waits_together()).then_some(points as f64 * window.step_seconds)
}

/// Whether a GPU hangs, for the default time.
#[must_use]
pub fn hangs(gpu: &Gpu, window: &Window) -> bool {
    hung_seconds(gpu, window).is_some_and(|since| since >= HANG_SECONDS)
}

/// The points at the end for which a GPU is fully busy at a flat low power, and that power.
fn stalled(gpu: &Gpu) -> Option<(usize, f64)> {
    let limit = gpu.power_limit_watts.filter(|limit| *limit > 0.0)?;
    let (mut low, mut high, mut count) = (f64::INFINITY, 0.0_f64, 0);
    // The last point may be partly over.
    for (utilization, power) in gpu.utilization.iter().zip(&gpu.power).rev().skip(1) {
        (low, high) = (low.min(*power), high.max(*power));
        let is_flat = high <= HUNG_POWER * limit && high - low <= HUNG_VARIATION * limit;
        if *utilization < FULL || utilization.is_nan() || power.is_nan() || !is_flat {
            break;
        }
        count += 1;
    }
    // What ended the run is not part of it.
    let power = gpu.power.iter().rev().nth(1).copied()?;
    (count > 0).then_some((count, power))
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_power};

    use super::*;

    fn hung(gpus: Vec<Gpu>) -> Vec<bool> {
        let window = window(gpus);
        window.gpus.iter().map(|gpu| hangs(gpu, &window)).collect()
    }

    #[test]
    fn low_power_is_a_hang_only_in_contrast_or_together() {
        let low = || with_power(steady(3_600, 1.0), 125.0);
        assert_eq!(hung(vec![low()]), [false], "it may compute little");
        assert_eq!(hung(vec![low(), low()]), [true, true]);
        let serving = || Gpu { workload: Workload::Serving, ..low() };
        assert_eq!(hung(vec![serving(), serving()]), [false, false], "replicas wait for no rank");
        let mut midway = low();
        midway.power[..300].fill(620.0);
        assert_eq!(hung(vec![midway.clone()]), [true]);
        midway.power.reverse();
        assert_eq!(hung(vec![midway]), [false], "it has recovered");
    }

    #[test]
    fn power_that_varies_is_work() {
        let mut moving = with_power(steady(3_600, 1.0), 125.0);
        moving.power.iter_mut().enumerate().for_each(|(i, power)| *power += (i % 2) as f64 * 40.0);
        let busy = || with_power(steady(3_600, 1.0), 300.0);
        assert_eq!(hung(vec![moving.clone(), moving]), [false, false]);
        assert_eq!(hung(vec![busy(), busy()]), [false, false]);
        assert_eq!(hung(vec![steady(3_600, 1.0)]), [false], "without power");
    }
}
