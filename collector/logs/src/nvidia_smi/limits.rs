//! Memory size and power limit of a GPU, as reported by one row.
//!
//! Administrators may change the power limit while a log is written, so each row's own limit
//! applies.

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Bytes, Milliwatts};

/// The limits in one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Limits {
    pub(super) memory_total: Option<Bytes>,
    /// Above zero.
    pub(super) power: Option<Milliwatts>,
}

impl Limits {
    /// Without values.
    pub(super) const NONE: Self = Self { memory_total: None, power: None };

    /// Fills in missing values of the GPU.
    #[inline]
    pub(super) fn fill_missing(self, gpu: &mut GpuIdentity) {
        gpu.memory_total = gpu.memory_total.or(self.memory_total);
        gpu.power_limit = gpu.power_limit.or(self.power);
    }

    /// Overwrites the values of the GPU with those of the row; values missing in the row are kept.
    #[inline]
    pub(super) fn apply(self, gpu: &mut GpuIdentity) {
        gpu.memory_total = self.memory_total.or(gpu.memory_total);
        gpu.power_limit = self.power.or(gpu.power_limit);
    }
}
