//! Memory bandwidth as the limit of a GPU, by measured activity.

use crate::share;
use phasemeter_policy::{Gpu, Window, Workload};

use crate::multiplies_matrices;

/// Use of the memory bandwidth from which it is the limit. An assumption: well written kernels reach 0.8 to 0.9.
pub const FULL_BANDWIDTH: f64 = 0.6;

/// Tensor activity up to which arithmetic is not the limit. An assumption: efficient training has 0.4.
const IDLE_TENSOR: f64 = 0.2;

/// Whether the memory bandwidth of a GPU was measured as full.
pub fn has_full_bandwidth(gpu: &Gpu) -> bool {
    gpu.sensors.dram_activity.is_some_and(|dram| dram >= FULL_BANDWIDTH)
}

/// Whether its tensor cores were measured as doing little.
pub fn has_idle_tensor_cores(gpu: &Gpu) -> bool {
    gpu.sensors.tensor_activity.is_some_and(|tensor| tensor <= IDLE_TENSOR)
}

/// Whether it is inference that memory bandwidth limits.
pub fn reads_weights(gpu: &Gpu, window: &Window) -> bool {
    let infers = match gpu.workload {
        Workload::Serving => true,
        Workload::Batch => gpu.memory_use(window.step_seconds).is_pool(),
        _ => false,
    };
    let full = gpu.full_share();
    infers
        && full >= share::MOST
        && has_full_bandwidth(gpu)
        && has_idle_tensor_cores(gpu)
        && multiplies_matrices(gpu, window)
}
