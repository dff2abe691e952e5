//! The power limit of a GPU: many logs, and those of DCGM, have none, and then that of its model is known.

use phasemeter_policy::Gpu;

use crate::Model;

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
