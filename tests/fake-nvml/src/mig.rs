//! MIG instances: parts of a GPU that programs use as if they were GPUs.

use phasemeter_meter::units::{Bytes, Nanos, Utilization};

/// A MIG instance of a script. Its values are constant while it exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// `MIG-…`.
    pub uuid: String,
    /// Its profile, like `1g.10gb`.
    pub profile: String,
    /// ID of its GPU instance.
    pub gpu_instance: u32,
    /// The first memory slice that it has, and how many.
    pub placement: (u32, u32),
    /// When it is created.
    pub from: Nanos,
    /// When it is destroyed.
    pub until: Nanos,
    /// Total memory.
    pub memory_total: Bytes,
    /// Memory in use.
    pub memory_used: Bytes,
    /// Active multiprocessors, active tensor cores, and memory bandwidth in use.
    pub activity: [Utilization; 3],
}

impl Instance {
    /// Whether it exists at `t`.
    #[must_use]
    pub fn exists(&self, t: Nanos) -> bool {
        (self.from..self.until).contains(&t)
    }

    /// The value of a GPM metric in percent; `None` if the metric is not supported.
    #[must_use]
    pub fn gpm(&self, metric: u32) -> Option<f64> {
        let [sm, tensor, dram] = self.activity;
        match metric {
            2 => Some(sm.percent()),
            5 => Some(tensor.percent()),
            10 => Some(dram.percent()),
            _ => None,
        }
    }
}
