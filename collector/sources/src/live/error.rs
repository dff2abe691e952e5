//! Why no driver is available for metering.

use std::io;
use std::time::Duration;

use phasemeter_meter::vendor::Vendor;

use super::discovered::UnresponsiveGpu;
use super::query_error::CallError;

/// The names of a driver in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverNames {
    /// The vendor of its GPUs.
    pub vendor: Vendor,
    /// The command that lists its GPUs, for people: `nvidia-smi --list-gpus`.
    pub list_command: &'static str,
}

/// Why the driver is unusable: this machine cannot be metered in its present state.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// It cannot be initialized, for a reason of its own.
    #[error(transparent)]
    Unusable(CallError),
    /// It works, but there is no GPU to meter.
    #[error("{} driver: no responding GPU; check `{}`", .driver.vendor, .driver.list_command)]
    NoGpus {
        /// The driver.
        driver: DriverNames,
        /// The first unresponsive GPU.
        #[source]
        unresponsive: Option<UnresponsiveGpu>,
    },
    /// No machine has so many: the number cannot be true.
    #[error(
        "{} driver: reports {count} GPUs, more than {max}; check `{}`",
        .driver.vendor,
        .driver.list_command
    )]
    TooMany {
        /// The driver.
        driver: DriverNames,
        /// The number.
        count: u32,
        /// The maximum.
        max: u32,
    },
    /// The call hangs.
    #[error(
        "{vendor} driver: no response within {} s; check `dmesg`, a GPU may need a reset",
        .waited.as_secs()
    )]
    Timeout {
        /// The vendor of the driver.
        vendor: Vendor,
        /// How long the call was given.
        waited: Duration,
    },
    /// The system cannot start another thread.
    #[error("{vendor} driver: cannot start a thread for discovery")]
    Thread {
        /// The vendor of the driver.
        vendor: Vendor,
        /// The error of the system.
        source: io::Error,
    },
}
