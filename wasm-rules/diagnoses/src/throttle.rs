//! What reduces the clocks of a GPU: heat, the power supply, and a power limit below the model's.

use crate::bounds::{CAPPED, FULL_CLOCK};
use phasemeter_policy::{Gpu, ThrottleReason};

use crate::Model;

/// Power of a full GPU at its 95th percentile, relative to its 5th, from which it computes at times. An assumption.
const TWICE: f64 = 2.0;

/// Share of the time with work from which reduced clocks matter, as a default of policies.
pub const THROTTLED: f64 = 0.1;

/// Share of the time with work in which heat reduced the clocks, by the driver or the hardware. 0 if unknown.
pub fn slowed_by_heat(gpu: &Gpu) -> f64 {
    share(gpu, &[ThrottleReason::SoftwareThermal, ThrottleReason::HardwareThermal])
}

/// The same for the power supply.
pub fn slowed_by_power_supply(gpu: &Gpu) -> f64 {
    share(gpu, &[ThrottleReason::PowerBrake])
}

/// Whether heat or the power supply slows it, or its clock is low: then its power is low, whatever it computes.
pub fn is_slowed(gpu: &Gpu) -> bool {
    let clocks = gpu.sensors.sm_clock_mhz.zip(gpu.sensors.max_sm_clock_mhz);
    let has_low_clock = clocks.is_some_and(|(clock, highest)| clock < FULL_CLOCK * highest);
    has_low_clock || slowed_by_heat(gpu) >= THROTTLED || slowed_by_power_supply(gpu) >= THROTTLED
}

/// The larger share of these reasons: they are active together.
fn share(gpu: &Gpu, reasons: &[ThrottleReason]) -> f64 {
    let of = gpu.sensors.throttling.iter().filter(|one| reasons.contains(&one.reason));
    of.map(|one| one.share).fold(0.0, f64::max)
}

/// The power for which the model is built, in watts, if the limit of this GPU is lower and it runs at it.
pub fn capped_below(gpu: &Gpu) -> Option<f64> {
    let limit = gpu.power_limit_watts.filter(|limit| *limit > 0.0)?;
    // Names are compared last: that takes the longest.
    gpu.sensors.busy_power.filter(|power| power.p50 >= CAPPED * limit)?;
    Model::of(&gpu.model)?.watts.filter(|watts| limit <= CAPPED * watts)
}

/// Returns the power limit of a GPU in watts: as recorded, else that of its model.
pub fn power_limit(gpu: &Gpu) -> Option<f64> {
    let recorded = gpu.power_limit_watts.filter(|limit| *limit > 0.0);
    // Names are compared last: that takes the longest.
    recorded.or_else(|| Model::of(&gpu.model)?.watts)
}

/// Returns the median power while busy as a share of the power limit; `None` if either is unknown.
pub fn power_share(gpu: &Gpu) -> Option<f64> {
    Some(gpu.sensors.busy_power?.p50 / power_limit(gpu)?)
}

/// Whether it draws clearly more at times, so that it does not hang, and it computes nothing in a part of its work.
pub fn draws_more_at_times(gpu: &Gpu) -> bool {
    gpu.sensors.busy_power.is_some_and(|power| power.p95 >= TWICE * power.p5)
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::steady;
    use phasemeter_policy::{Percentiles, Throttling};

    use super::*;

    #[test]
    fn reasons_and_low_clocks_slow_a_gpu() {
        let with = |reason, share| {
            let mut gpu = steady(3_600, 0.98);
            gpu.sensors.throttling = vec![Throttling { reason, share }];
            gpu
        };
        assert!(is_slowed(&with(ThrottleReason::HardwareThermal, 0.1)));
        assert!(is_slowed(&with(ThrottleReason::PowerBrake, 0.5)));
        assert!(!is_slowed(&with(ThrottleReason::SoftwareThermal, 0.05)));
        assert!(!is_slowed(&with(ThrottleReason::PowerCap, 1.0)), "as usual at full load");
        let mut slow = steady(3_600, 0.98);
        slow.sensors.max_sm_clock_mhz = Some(1_980.0);
        slow.sensors.sm_clock_mhz = Some(1_005.0);
        assert!(is_slowed(&slow));
    }

    #[test]
    fn limit_below_the_model_counts_if_it_is_reached() {
        let at = |limit: f64, watts: f64| {
            let mut gpu = Gpu { power_limit_watts: Some(limit), ..steady(3_600, 0.98) };
            let power = Percentiles { p5: watts, p50: watts, p95: watts, max: watts };
            gpu.sensors.busy_power = Some(power);
            capped_below(&gpu)
        };
        assert_eq!(at(450.0, 440.0), Some(700.0));
        assert_eq!(at(450.0, 300.0), None);
        assert_eq!(at(650.0, 640.0), None, "nearly the model's");
    }
}
