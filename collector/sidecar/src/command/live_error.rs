//! Errors of this machine's GPUs and of delivery, and their exit statuses.

use std::io;
use std::path::PathBuf;

use phasemeter_otlp::delivery::{ConfigErrors, DataError, StartError};
use phasemeter_receiver::{ReceiverError, SecurityError};
use phasemeter_sources::live::DriverError;
use phasemeter_sources::live::select::SelectError;
use phasemeter_sources::mapping::MappingError;
use phasemeter_work::mapping::WorkMappingError;

use super::exit_status::{EX_CONFIG, EX_NOINPUT, EX_OSERR, EX_UNAVAILABLE, EX_USAGE};

/// Why the GPUs of this machine cannot be metered, or telemetry not delivered.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The driver is missing or unusable.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// None of the selected GPUs exists.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A file that names GPUs cannot be read.
    #[error("--gpu {}: names no GPU; write indices or UUIDs into it", .path.display())]
    GpuFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The node's agent knows no GPU of this pod.
    #[error("node agent: this pod holds no GPU; request one for a container of it")]
    NotHeld,
    /// A required GPU does not answer.
    #[error("--require-gpu: GPU {gpu} does not respond; check `{list_command}`")]
    Required {
        /// Its index.
        gpu: u32,
        /// The command that lists the driver's GPUs.
        list_command: &'static str,
    },
    /// The configuration of OTLP export is invalid.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// OTLP export cannot be started.
    #[error(transparent)]
    Client(#[from] StartError),
    /// The data directory cannot be used.
    #[error("--data-dir {0}")]
    Data(DataError),
    /// There is no data directory.
    #[error("--data-dir: no data directory exists; name the one of the runs")]
    NoData,
    /// A file with headers cannot be read.
    #[error("--otlp-headers-file {}: cannot be read; check that it exists and is readable", .path.display())]
    HeadersFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// There is no backend to deliver to.
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT: not set; set it to the backend of the runs")]
    NoBackend,
    /// There is no backend to forward to.
    #[error("OTEL_EXPORTER_OTLP_ENDPOINT: not set; set it to the backend to forward to")]
    NoUpstream,
    /// There is no command whose spans could be priced.
    #[error("--price-spans: prices the spans of a command; add one after --")]
    NoSpans,
    /// The backend is the receiver itself.
    #[error(
        "{endpoint}: is the receiver itself; set OTEL_EXPORTER_OTLP_ENDPOINT or --listen to another address"
    )]
    Loop {
        /// The endpoint.
        endpoint: String,
    },
    /// The gateways among which GPUs are divided are not known.
    #[error(transparent)]
    Replicas(#[from] phasemeter_engine::gateway::ReplicasError),
    /// The receiver cannot be started.
    #[error(transparent)]
    Receiver(#[from] ReceiverError),
    /// TLS or the token cannot be used.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// A mapping file cannot be read.
    #[error("{}: cannot be read; check that it exists and is readable", .path.display())]
    MappingFile {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A mapping file is invalid.
    #[error("{}", .path.display())]
    Mapping {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: MappingError,
    },
    /// A mapping file of work is invalid.
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
            Self::Driver(_)
            | Self::Select(_)
            | Self::GpuFile { .. }
            | Self::NotHeld
            | Self::Required { .. }
            | Self::Receiver(ReceiverError::Listen { .. }) => EX_UNAVAILABLE,
            Self::Client(_) | Self::Receiver(ReceiverError::Thread(_)) => EX_OSERR,
            Self::Config(_)
            | Self::Data(_)
            | Self::NoData
            | Self::NoBackend
            | Self::NoUpstream
            | Self::Loop { .. }
            | Self::Mapping { .. }
            | Self::WorkMapping { .. }
            | Self::Security(_)
            | Self::Receiver(ReceiverError::Insecure(_)) => EX_CONFIG,
            Self::NoSpans | Self::Replicas(_) => EX_USAGE,
            Self::MappingFile { .. } | Self::HeadersFile { .. } => EX_NOINPUT,
        }
    }
}
