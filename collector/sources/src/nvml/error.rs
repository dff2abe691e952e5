//! Why there is no driver to meter with.

use std::io;
use std::time::Duration;

use nvml_wrapper::error::NvmlError;

use super::UnresponsiveGpu;

/// Why the driver cannot be used. Nothing can be metered on this machine as it is.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// Its library is not there.
    #[error(
        "no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded. Install the driver; in a container \
         pass the GPUs in (`--gpus all`, and `utility` in NVIDIA_DRIVER_CAPABILITIES)"
    )]
    NoLibrary(#[source] NvmlError),
    /// The library is there, the kernel's part is not.
    #[error("the NVIDIA driver is not loaded. Load it (`modprobe nvidia`), or look in `dmesg`")]
    NotLoaded(#[source] NvmlError),
    /// Library and kernel module are of different versions.
    #[error(
        "the NVIDIA driver was updated, but the old one still runs. Reboot, or load its module anew"
    )]
    VersionMismatch(#[source] NvmlError),
    /// The device files are closed to us.
    #[error("this user may not use the NVIDIA driver. Check the permissions of /dev/nvidia*")]
    Permission(#[source] NvmlError),
    /// It is no NVML.
    #[error("libnvidia-ml.so.1 is not NVIDIA's: it cannot be shut down. Look which one is found")]
    NotNvml,
    /// It works, but there is nothing to meter.
    #[error("the NVIDIA driver shows no GPU that answers")]
    NoGpus {
        /// The first of those that do not answer.
        #[source]
        unresponsive: Option<UnresponsiveGpu>,
    },
    /// It hangs.
    #[error(
        "the NVIDIA driver has not answered for {} s. Look in `dmesg`; a GPU may need a reset",
        .waited.as_secs()
    )]
    Timeout {
        /// How long it was waited for.
        waited: Duration,
    },
    /// The system has no thread left to ask it with.
    #[error("cannot start a thread to ask the NVIDIA driver")]
    Thread(#[source] io::Error),
    /// Anything else that it says.
    #[error("the NVIDIA driver does not work")]
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
