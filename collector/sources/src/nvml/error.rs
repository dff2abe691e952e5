//! Why no driver is available for metering.

use std::io;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;

use super::UnresponsiveGpu;

/// Why the driver is unusable: this machine cannot be metered in its present state.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// The library is missing.
    #[error(
        "NVIDIA driver: cannot load libnvidia-ml.so.1; install the driver, or pass the GPUs to the \
         container (`--gpus all`, and `utility` in NVIDIA_DRIVER_CAPABILITIES)"
    )]
    NoLibrary(#[source] NvmlError),
    /// The process that loaded the library to try it ended.
    #[error(
        "NVIDIA driver: libnvidia-ml.so.1 ends the process that loads it; reinstall the driver"
    )]
    LibraryEnds,
    /// The kernel module is not loaded.
    #[error("NVIDIA driver: kernel module not loaded; run `modprobe nvidia`, or check `dmesg`")]
    NotLoaded(#[source] NvmlError),
    /// Library and kernel module have different versions.
    #[error("NVIDIA driver/library version mismatch; reboot or reload the kernel module")]
    VersionMismatch(#[source] NvmlError),
    /// The device files are not accessible.
    #[error("NVIDIA driver: permission denied; check the permissions of /dev/nvidia*")]
    Permission(#[source] NvmlError),
    /// The library is not NVML.
    #[error(
        "libnvidia-ml.so.1: not NVIDIA's library, nvmlShutdown is missing; check the library path"
    )]
    NotNvml,
    /// It works, but there is no GPU to meter.
    #[error("NVIDIA driver: no responding GPU; check `nvidia-smi --list-gpus`")]
    NoGpus {
        /// The first unresponsive GPU.
        #[source]
        unresponsive: Option<UnresponsiveGpu>,
    },
    /// No machine has so many: the number cannot be true.
    #[error("NVIDIA driver: reports {count} GPUs, more than {max}; check `nvidia-smi --list-gpus`")]
    TooMany {
        /// The number.
        count: u32,
        /// The maximum.
        max: u32,
    },
    /// The call hangs.
    #[error(
        "NVIDIA driver: no response within {} s; check `dmesg`, a GPU may need a reset",
        .waited.as_secs()
    )]
    Timeout {
        /// How long the call was given.
        waited: Duration,
    },
    /// The system cannot start another thread.
    #[error("NVIDIA driver: cannot start a thread for discovery")]
    Thread(#[source] io::Error),
    /// Any other error.
    #[error("NVIDIA driver: initialization failed")]
    Other(#[source] NvmlError),
}

impl From<NvmlError> for DriverError {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => Self::NoLibrary(error),
            NvmlError::DriverNotLoaded => Self::NotLoaded(error),
            NvmlError::LibRmVersionMismatch => Self::VersionMismatch(error),
            NvmlError::NoPermission => Self::Permission(error),
            NvmlError::FailedToLoadSymbol(_) => Self::NotNvml,
            other => Self::Other(other),
        }
    }
}
