//! Errors of this machine's GPUs and of delivery, and their exit statuses.

use phasemeter_otlp::delivery::{ConfigErrors, StartError};
use phasemeter_sources::nvml::DriverError;
use phasemeter_sources::nvml::select::SelectError;

use super::exit_status::{EX_CONFIG, EX_OSERR, EX_UNAVAILABLE};

/// Why the GPUs of this machine cannot be metered, or telemetry not delivered.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The driver is missing or unusable.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// None of the selected GPUs exists.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// The configuration of OTLP export is invalid.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// OTLP export cannot be started.
    #[error(transparent)]
    Client(#[from] StartError),
}

impl LiveError {
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Driver(_) | Self::Select(_) => EX_UNAVAILABLE,
            Self::Config(_) => EX_CONFIG,
            Self::Client(_) => EX_OSERR,
        }
    }
}
