//! Errors of this machine's GPUs and of delivery, and their exit statuses.

#[cfg(feature = "gateway")]
use std::io;
#[cfg(feature = "gateway")]
use std::path::PathBuf;

use phasemeter_otlp::delivery::{ConfigErrors, StartError};
#[cfg(feature = "gateway")]
use phasemeter_otlp::receiver::{ReceiverError, SecurityError};
#[cfg(feature = "gateway")]
use phasemeter_sources::mapping::MappingError;
use phasemeter_sources::nvml::DriverError;
use phasemeter_sources::nvml::select::SelectError;
#[cfg(feature = "gateway")]
use phasemeter_workload::mapping::WorkMappingError;

use super::exit_status::{EX_CONFIG, EX_OSERR, EX_UNAVAILABLE};
#[cfg(feature = "gateway")]
use super::exit_status::{EX_NOINPUT, EX_USAGE};

/// Why the GPUs of this machine cannot be metered, or telemetry not delivered.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The driver is missing or unusable.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// None of the selected GPUs exists.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A required GPU does not answer.
    #[error("--require-gpu: GPU {gpu} does not respond; check `nvidia-smi --list-gpus`")]
    Required {
        /// Its index.
        gpu: u32,
    },
    /// The configuration of OTLP export is invalid.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// OTLP export cannot be started.
    #[error(transparent)]
    Client(#[from] StartError),
    /// There is no backend to forward to.
    #[cfg(feature = "gateway")]
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT: not set; set it to the backend to forward to")]
    NoUpstream,
    /// There is no command whose spans could be priced.
    #[cfg(feature = "gateway")]
    #[error("--price-spans: prices the spans of a command; add one after --")]
    NoSpans,
    /// The backend is the receiver itself.
    #[cfg(feature = "gateway")]
    #[error(
        "{endpoint}: is the receiver itself; set OTEL_EXPORTER_OTLP_ENDPOINT or --listen to another address"
    )]
    Loop {
        /// The endpoint.
        endpoint: String,
    },
    /// The gateways among which GPUs are divided are not known.
    #[cfg(feature = "gateway")]
    #[error(transparent)]
    Replicas(#[from] phasemeter_engine::gateway::ReplicasError),
    /// The receiver cannot be started.
    #[cfg(feature = "gateway")]
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
    /// TLS or the token cannot be used.
    #[cfg(feature = "gateway")]
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// A mapping file cannot be read.
    #[cfg(feature = "gateway")]
    #[error("{}: cannot be read; check that it exists and is readable", .path.display())]
    MappingFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A mapping file is invalid.
    #[cfg(feature = "gateway")]
    #[error("{}", .path.display())]
    Mapping {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: MappingError,
    },
    /// A mapping file of work is invalid.
    #[cfg(feature = "gateway")]
    #[error("{}", .path.display())]
    WorkMapping {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: WorkMappingError,
    },
}

impl LiveError {
    pub(super) const fn exit_code(&self) -> u8 {
        match self {
            Self::Driver(_) | Self::Select(_) | Self::Required { .. } => EX_UNAVAILABLE,
            Self::Config(_) => EX_CONFIG,
            Self::Client(_) => EX_OSERR,
            #[cfg(feature = "gateway")]
            Self::NoUpstream | Self::Loop { .. } | Self::Mapping { .. } | Self::Security(_) => {
                EX_CONFIG
            }
            #[cfg(feature = "gateway")]
            Self::WorkMapping { .. } => EX_CONFIG,
            #[cfg(feature = "gateway")]
            Self::NoSpans | Self::Replicas(_) => EX_USAGE,
            #[cfg(feature = "gateway")]
            Self::MappingFile { .. } => EX_NOINPUT,
            #[cfg(feature = "gateway")]
            Self::Receiver(ReceiverError::Insecure(_)) => EX_CONFIG,
            #[cfg(feature = "gateway")]
            Self::Receiver(ReceiverError::Listen { .. }) => EX_UNAVAILABLE,
            #[cfg(feature = "gateway")]
            Self::Receiver(ReceiverError::Thread(_)) => EX_OSERR,
        }
    }
}
