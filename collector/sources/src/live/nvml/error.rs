//! Errors of NVML: why it cannot be initialized, and the effect of others on sampling.

use nvml_wrapper::error::NvmlError;

use crate::live::{DriverError, LossReason, QueryError, UnsupportedReason};

/// Why NVML cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NvmlUnusable {
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
    /// Any other error.
    #[error("NVIDIA driver: initialization failed")]
    Other(#[source] NvmlError),
}

impl From<NvmlError> for NvmlUnusable {
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

impl From<NvmlUnusable> for DriverError {
    fn from(error: NvmlUnusable) -> Self {
        Self::Unusable(error.into())
    }
}

impl From<NvmlError> for QueryError {
    fn from(error: NvmlError) -> Self {
        match error {
            NvmlError::NotSupported => Self::Unsupported(UnsupportedReason::Device),
            NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
                Self::Unsupported(UnsupportedReason::Driver)
            }
            NvmlError::NoPermission => Self::Unsupported(UnsupportedReason::Permission),
            NvmlError::GpuLost | NvmlError::ResetRequired => Self::Lost(LossReason::Gpu),
            NvmlError::Uninitialized
            | NvmlError::DriverNotLoaded
            | NvmlError::LibRmVersionMismatch => Self::Lost(LossReason::Driver),
            _ => Self::Failed,
        }
    }
}
