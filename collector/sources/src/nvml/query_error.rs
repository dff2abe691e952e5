//! Why the driver does not answer, as far as it makes a difference.

use nvml_wrapper::error::NvmlError;

/// Why a question has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// There will be none for as long as things are as they are.
    Unsupported(UnsupportedReason),
    /// Nothing can be asked of this GPU any more.
    Lost(LossReason),
    /// Not this time.
    Failed,
}

/// Why a metric is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedReason {
    /// The GPU does not have it, or not in its mode (MIG).
    #[error("this GPU does not support it")]
    Device,
    /// The driver does not have it.
    #[error("this driver is too old for it")]
    Driver,
    /// The driver does not tell this user.
    #[error("this user may not ask it")]
    Permission,
}

/// Why a GPU is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossReason {
    /// It fell off the bus, or wants a reset.
    #[error("the GPU is lost")]
    Gpu,
    /// The driver was unloaded, or another was loaded under us.
    #[error("the driver is gone")]
    Driver,
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
