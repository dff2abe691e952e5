//! The driver of this machine: the only place that names a vendor's.

use std::sync::Arc;

use phasemeter_sources::live::Driver;
use phasemeter_sources::live::nvml::NvmlDriver;

use super::load_trial;

/// The driver.
pub(super) fn installed() -> Arc<dyn Driver> {
    Arc::new(NvmlDriver::installed())
}

/// The same, whose library a child process loads before this one does.
pub(super) fn tried() -> Arc<dyn Driver> {
    Arc::new(NvmlDriver::installed().after(load_trial::load))
}
