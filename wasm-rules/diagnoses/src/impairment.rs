//! Impaired GPUs: what they show until they are repaired is not their usual work, so they get no more of it, and
//! no other size.

use crate::bounds::{CAPPED, MOSTLY_FULL};
use phasemeter_policy::{Gpu, Window, Workload};

use crate::{
    THROTTLED, are_separate, capped_below, fastest_clock, hangs, hardware_xids,
    has_failed_counters, is_behind, is_credible, is_lost, is_slowed, is_unlinked, lag,
    memory_errors, power_share, share, slow_link, slowed_by_heat, slowed_by_power_supply,
    taken_over, waits_in_collective, works_without_memory,
};

/// Whether it needs repair before it gets other work: it is lost, slowed by heat, or reported errors of its hardware.
pub fn needs_repair(gpu: &Gpu) -> bool {
    is_lost(gpu)
        || slowed_by_heat(gpu) >= THROTTLED
        || memory_errors(gpu).is_some()
        || hardware_xids(gpu).next().is_some()
}

/// Whether a defect of the hardware may explain what a GPU does.
pub fn has_defect(gpu: &Gpu, window: &Window) -> bool {
    is_lost(gpu)
        || memory_errors(gpu).is_some()
        || hardware_xids(gpu).next().is_some()
        || slow_link(gpu, window).is_some()
        || is_unlinked(gpu, window)
}

/// Whether a full rank waits for another one of its job that is slow for a reason that `health` reports: a repair there
/// explains what this one does, and replaces all other advice on it.
pub fn is_held_back(gpu: &Gpu, window: &Window) -> bool {
    if gpu.workload != Workload::Training || gpu.full_share() < MOSTLY_FULL {
        return false;
    }
    let fastest = fastest_clock(window);
    // Most GPUs are as fast as this one, which numbers show before all others are compared.
    let lags = |name: &str, other: &Gpu| other.metric(name) < gpu.metric(name);
    let is_slow = |other: &Gpu| {
        let has_less = lags("pcie.link.width", other) || lags("pcie.link.generation", other);
        slowed_by_heat(other) >= THROTTLED
            || slowed_by_power_supply(other) >= THROTTLED
            || (has_less && slow_link(other, window).is_some())
            || capped_below(other).is_some()
            || lag(other, window, fastest).is_some()
    };
    let slow = window.gpus.iter().filter(|other| other.id != gpu.id && is_slow(other));
    let mut of_job = slow.filter(|other| other.is_alike(gpu) && !are_separate(other, gpu));
    of_job.next().is_some() && !is_slow(gpu)
}

/// Whether it is lost, hangs, is capped below its model, or slowed by heat, the power supply or something unknown, also
/// if only the others of its job show that.
pub fn is_impaired(gpu: &Gpu, window: &Window) -> bool {
    let is_at_limit = power_share(gpu).is_some_and(|share| share >= CAPPED);
    needs_repair(gpu)
        || slowed_by_power_supply(gpu) >= THROTTLED
        || (is_slowed(gpu) && !is_at_limit)
        || capped_below(gpu).is_some()
        || hangs(gpu, window)
        || is_behind(gpu, window)
}

/// Whether a GPU that does the same work is lost: the others carry its load, or wait for it.
pub fn misses_one(gpu: &Gpu, window: &Window) -> bool {
    window.gpus.iter().any(|other| is_lost(other) && other.is_alike(gpu))
}

/// Whether it is full for most of the time.
pub fn is_full(gpu: &Gpu) -> bool {
    gpu.full_share() >= share::MOST && !gpu.is_bouncing()
}

/// Whether what it does is its usual work: it is not impaired, and neither carries the load of one that is nor waits
/// for others, held back or in a collective.
pub fn does_usual_work(gpu: &Gpu, window: &Window) -> bool {
    is_credible(gpu)
        && !works_without_memory(gpu)
        && taken_over(gpu, window).is_none()
        && !has_failed_counters(gpu)
        && !is_impaired(gpu, window)
        && !misses_one(gpu, window)
        && !is_held_back(gpu, window)
        && !waits_in_collective(gpu, window)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window};
    use phasemeter_policy::{Percentiles, ThrottleReason, Throttling, Workload, Xid};

    use super::*;

    fn impaired(gpus: Vec<Gpu>) -> Vec<bool> {
        let window = window(gpus);
        window.gpus.iter().map(|gpu| is_impaired(gpu, &window)).collect()
    }

    #[test]
    fn lost_gpu_is_impaired_and_missed_by_those_alike() {
        let metrics = vec![("lost.seconds".to_owned(), 600.0)];
        let other = Gpu { workload: Workload::Serving, ..steady(3_600, 0.5) };
        let window = window(vec![Gpu { metrics, ..steady(3_600, 0.5) }, steady(3_600, 0.5), other]);
        let of = |check: fn(&Gpu, &Window) -> bool| {
            window.gpus.iter().map(|gpu| check(gpu, &window)).collect::<Vec<_>>()
        };
        assert_eq!(of(is_impaired), [true, false, false]);
        assert_eq!(of(misses_one), [true, true, false]);
    }

    #[test]
    fn errors_of_applications_are_not_of_hardware() {
        let with = |code| {
            let mut gpu = steady(3_600, 0.9);
            gpu.sensors.xids = vec![Xid { code, count: 1 }];
            let window = window(vec![gpu]);
            has_defect(&window.gpus[0], &window)
        };
        assert!(with(79), "fell off the bus");
        assert!(!with(13), "an exception of a kernel");
    }

    /// Scenario: three full ranks, of which one is hot or has an old link, and a fourth GPU at half load.
    /// Guarantee: the other full ones are held back, and neither the slow one nor what does not wait.
    #[test]
    fn full_ranks_wait_for_a_slow_one() {
        let rank = |generation: f64| {
            let mut gpu = steady(3_600, 0.99);
            gpu.metrics.push(("pcie.link.generation".to_owned(), generation));
            gpu
        };
        let mut hot = rank(5.0);
        hot.sensors.throttling =
            vec![Throttling { reason: ThrottleReason::HardwareThermal, share: 0.3 }];
        for slow in [hot, rank(3.0)] {
            let window = window(vec![rank(5.0), slow, rank(5.0), steady(3_600, 0.5)]);
            let found: Vec<_> = window.gpus.iter().map(|gpu| is_held_back(gpu, &window)).collect();
            assert_eq!(found, [true, false, true, false]);
        }
        let window = window(vec![rank(5.0), rank(5.0)]);
        assert!(!is_held_back(&window.gpus[0], &window));
    }

    #[test]
    fn low_clock_at_the_power_limit_is_usual() {
        let at = |watts: f64| {
            let power = Percentiles { p5: watts, p50: watts, p95: watts, max: watts };
            let mut gpu = Gpu { power_limit_watts: Some(700.0), ..steady(3_600, 0.98) };
            gpu.sensors.busy_power = Some(power);
            gpu.sensors.sm_clock_mhz = Some(1_400.0);
            gpu.sensors.max_sm_clock_mhz = Some(1_980.0);
            gpu
        };
        assert_eq!(impaired(vec![at(690.0), at(400.0)]), [false, true]);
        let straggler = |clock| {
            let mut gpu = at(690.0);
            (gpu.sensors.sm_clock_mhz, gpu.sensors.max_sm_clock_mhz) = (Some(clock), Some(clock));
            gpu
        };
        let job = [1_200.0, 1_965.0, 1_960.0].map(straggler).to_vec();
        assert_eq!(impaired(job), [true, false, false]);
        let mut hot = at(690.0);
        hot.sensors.throttling =
            vec![Throttling { reason: ThrottleReason::HardwareThermal, share: 0.3 }];
        assert_eq!(impaired(vec![hot, steady(3_600, 0.5)]), [true, false]);
    }
}
