//! Errors of queries, by their effect on sampling.

use std::error::Error;

/// An error of the driver, for people.
pub type CallError = Box<dyn Error + Send + Sync>;

/// Why a query failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryError {
    /// Permanently, in the current configuration.
    Unsupported(UnsupportedReason),
    /// The GPU cannot be queried any more.
    Lost(LossReason),
    /// This time; it may be retried.
    Failed,
}

/// Why a metric is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedReason {
    /// The GPU does not support it, or not in its MIG mode.
    #[error("not supported by this GPU")]
    Device,
    /// The driver does not support it.
    #[error("not supported by this driver version")]
    Driver,
    /// The user lacks permission.
    #[error("permission denied")]
    Permission,
}

/// Why a GPU is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LossReason {
    /// It fell off the bus or requires a reset.
    #[error("GPU lost")]
    Gpu,
    /// The driver was unloaded or replaced.
    #[error("driver unloaded")]
    Driver,
    /// No query is answered any more, whatever the errors: GPUs off the bus also report an unknown error,
    /// a timeout or an invalid argument.
    #[error("no query of the GPU is answered")]
    Unanswered,
}
