//! What a GPU has and may do, as far as one row says.
//!
//! An administrator may set another power limit while a log is written, so what is true is what the
//! row says whose turn it is. This room must not know of columns.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Bytes, Milliwatts};

/// What one row says of it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Limits {
    pub(super) memory_total: Option<Bytes>,
    /// More than nothing.
    pub(super) power: Option<Milliwatts>,
}

impl Limits {
    /// Adds what was not known of the GPU.
    #[inline]
    pub(super) fn fill_missing(self, gpu: &mut GpuIdentity) {
        gpu.memory_total = gpu.memory_total.or(self.memory_total);
        gpu.power_limit = gpu.power_limit.or(self.power);
    }

    /// Makes it what is known of the GPU; what the row does not say stays.
    #[inline]
    pub(super) fn apply(self, gpu: &mut GpuIdentity) {
        gpu.memory_total = self.memory_total.or(gpu.memory_total);
        gpu.power_limit = self.power.or(gpu.power_limit);
    }
}
