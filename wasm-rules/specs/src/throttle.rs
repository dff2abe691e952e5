//! What reduces the clocks of a GPU: heat, the power supply, and a power limit below the model's.
//!
//! Must not depend on what is recommended.

use phasemeter_policy::{Gpu, ThrottleReason};

use crate::Model;

/// Share of the time with work from which reduced clocks matter, as a default of policies.
pub const THROTTLED: f64 = 0.1;

/// Power limit relative to the model's from which a GPU is capped.
const CAPPED: f64 = 0.9;

/// Share of the time with work in which heat reduced the clocks, by the driver or the hardware. 0 if unknown.
#[must_use]
pub fn slowed_by_heat(gpu: &Gpu) -> f64 {
    share(gpu, &[ThrottleReason::SoftwareThermal, ThrottleReason::HardwareThermal])
}

/// The same for the power supply.
#[must_use]
pub fn slowed_by_power_supply(gpu: &Gpu) -> f64 {
    share(gpu, &[ThrottleReason::PowerBrake])
}

/// Whether heat or the power supply slows it.
#[must_use]
pub fn is_slowed(gpu: &Gpu) -> bool {
    slowed_by_heat(gpu) >= THROTTLED || slowed_by_power_supply(gpu) >= THROTTLED
}

/// The larger share of these reasons: they are active together.
fn share(gpu: &Gpu, reasons: &[ThrottleReason]) -> f64 {
    let of = gpu.sensors.throttling.iter().filter(|one| reasons.contains(&one.reason));
    of.map(|one| one.share).fold(0.0, f64::max)
}

/// The power for which the model is built, in watts, if the limit of this GPU is lower and it runs at it.
#[must_use]
pub fn capped_below(gpu: &Gpu) -> Option<f64> {
    let limit = gpu.power_limit_watts.filter(|limit| *limit > 0.0)?;
    // Names are compared last: that takes the longest.
    gpu.sensors.busy_power.filter(|power| power.p50 >= CAPPED * limit)?;
    Model::of(&gpu.model)?.watts.filter(|watts| limit <= CAPPED * watts)
}
