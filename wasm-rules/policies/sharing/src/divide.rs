//! The smallest part of a GPU that fits its task: an instance of MIG where there is one, else a share.

use phasemeter_diagnoses::Model;
use phasemeter_policy::column::mean;
use phasemeter_policy::{Gpu, HOUR, Vendor};

/// Memory use up to which a task is small enough to share a GPU without MIG, or if it is steady.
pub(crate) const SMALL_MEMORY: f64 = 0.5;

/// Utilization of a shared GPU, at most. An assumption.
pub(crate) const MAX_UTILIZATION: f64 = 0.8;

/// Memory use of a shared GPU, at most. An assumption.
pub(crate) const MAX_MEMORY: f64 = 0.95;

/// Parts of a GPU at most: that is how many MIG has.
const MAX_PARTS: usize = 7;

/// MIG instances of GPUs with seven slices: shares of compute and of memory (NVIDIA's MIG User
/// Guide).
const SEVENTHS: [(f64, f64); 4] = [
    (1.0 / 7.0, 1.0 / 8.0),
    (2.0 / 7.0, 2.0 / 8.0),
    (3.0 / 7.0, 4.0 / 8.0),
    (4.0 / 7.0, 4.0 / 8.0),
];

/// The same of GPUs with four slices (NVIDIA's MIG User Guide).
const QUARTERS: [(f64, f64); 2] = [(0.25, 0.25), (0.5, 0.5)];

/// The utilization of the busiest hour, over which the load of tasks that share a GPU adds up: tasks that people use
/// are busy in the same hours, and bursts that are shorter wait for one another. An assumption.
pub(crate) fn busiest_hour(gpu: &Gpu, step_seconds: f64) -> f64 {
    let points = ((HOUR / step_seconds) as usize).clamp(1, gpu.utilization.len().max(1));
    let hours = gpu.utilization.chunks_exact(points).filter_map(mean);
    hours.fold(gpu.accounts.observed().level(), f64::max)
}

/// Finds the smallest part of the GPU that fits its task, with this share of the memory at its peak and this
/// utilization: the number of parts, the share kept, and how to divide.
pub(crate) fn divide(
    gpu: &Gpu,
    share: f64,
    level: f64,
    is_burst: bool,
) -> Option<(usize, f64, &'static str)> {
    let slices = Model::of(&gpu.model).map_or(0, |model| model.mig_slices);
    let instances = match slices {
        7 => &SEVENTHS[..],
        4 => &QUARTERS,
        _ => &[],
    };
    let fits = |instance: &&(f64, f64)| {
        // Instances have some percent less than their part.
        share <= MAX_MEMORY * MAX_MEMORY * instance.1 && level <= MAX_UTILIZATION * instance.0
    };
    let kept = match instances.iter().find(fits) {
        Some((compute, memory)) => compute.max(*memory),
        None if slices == 0 && share <= SMALL_MEMORY => {
            f64::max(share / MAX_MEMORY, level / MAX_UTILIZATION)
        }
        None => return None,
    };
    let parts = if kept > 0.0 { (1.0 / kept) as usize } else { return None };
    let lever = match (slices, is_burst) {
        (1.., _) => "mig",
        (0, _) if gpu.vendor() != Vendor::Nvidia => "time_slicing",
        (0, true) => "time_slicing",
        (0, false) => "mps",
    };
    (parts >= 2).then_some((parts.min(MAX_PARTS), kept, lever))
}
