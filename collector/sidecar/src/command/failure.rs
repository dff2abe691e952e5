//! How a command can fail: what it says in one line, and the exit status.
//!
//! The statuses are those of sysexits.h, and those of a shell where a command cannot be run. Usage errors (2) are told before a command runs.

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use phasemeter_otlp::delivery::{ConfigErrors, StartError};
use phasemeter_rules::host::HostError;
use phasemeter_sources::SourceError;
use phasemeter_sources::nvml::DriverError;
use phasemeter_sources::nvml::select::SelectError;

use super::PolicyFailure;
use super::delivery::Arrival;
use crate::advice::OpenError;
use crate::pipeline::PipelineError;
use crate::report::text::clean;

/// Data that cannot be used.
pub(super) const EX_DATAERR: u8 = 65;
/// An input that cannot be opened or read.
pub(super) const EX_NOINPUT: u8 = 66;
/// What is needed is not there.
const EX_UNAVAILABLE: u8 = 69;
/// The operating system refuses what it should not.
pub(super) const EX_OSERR: u8 = 71;
/// An output that cannot be written.
const EX_IOERR: u8 = 74;
/// The command line or the environment says what cannot be done.
const EX_CONFIG: u8 = 78;
/// A command that is there but cannot be run, as shells say it.
const NOT_EXECUTABLE: u8 = 126;
/// A command that is not there, as shells say it.
const NOT_FOUND: u8 = 127;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// What was to be read cannot be used, or cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A file cannot be written.
    #[error("{}: cannot be written; check that its folder is there and writable", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
    /// Not all that was sent has arrived.
    #[error("{0}")]
    Undelivered(Box<Arrival>),
    /// The report cannot be written.
    #[error("the report cannot be written")]
    Output(#[source] io::Error),
    /// What is metered cannot go on.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// There is no driver.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// There is no GPU of those that are asked for.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// Policies cannot be used as they were asked for.
    #[error(transparent)]
    Policies(#[from] OpenError),
    /// A policy is not what its author meant it to be.
    #[error(transparent)]
    Policy(#[from] PolicyFailure),
    /// What says where OTLP goes cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// OTLP cannot be sent.
    #[error(transparent)]
    Client(#[from] StartError),
    /// The system does not give what metering needs.
    #[error("{what}")]
    System {
        /// What it refuses.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The command cannot be run.
    #[error("{command}: cannot be run; check its name and its permissions")]
    Command {
        /// Its name.
        command: String,
        /// What the operating system said.
        #[source]
        source: io::Error,
    },
}

impl Failure {
    /// The exit status.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Source(SourceError::Unusable(_)) => EX_DATAERR,
            Self::Source(SourceError::Unreadable { .. } | SourceError::Directory { .. }) => {
                EX_NOINPUT
            }
            Self::Write { .. } | Self::Undelivered(_) | Self::Output(_) | Self::Pipeline(_) => {
                EX_IOERR
            }
            Self::Policies(OpenError::Unreadable { .. }) => EX_NOINPUT,
            Self::Policy(failure) => failure.exit_code(),
            Self::Driver(_) | Self::Select(_) => EX_UNAVAILABLE,
            Self::Policies(
                OpenError::Settings(_) | OpenError::NoSuchPolicy { .. } | OpenError::Key { .. },
            )
            | Self::Config(_) => EX_CONFIG,
            Self::Policies(OpenError::Host(HostError::Cache { .. })) => EX_IOERR,
            Self::Policies(OpenError::Host(_)) => EX_OSERR,
            Self::Client(_) | Self::System { .. } => EX_OSERR,
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Command { .. } => NOT_EXECUTABLE,
        })
    }

    /// What went wrong, and why, in one line: file names are text from outside.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let mut lines = Vec::new();
        let mut cause: Option<&dyn Error> = Some(self);
        while let Some(error) = cause {
            let line = clean(&error.to_string().replace('\n', "; "));
            // Some say their cause themselves.
            if !lines.last().is_some_and(|last: &String| last.ends_with(&line)) {
                lines.push(line);
            }
            cause = error.source();
        }
        lines.join(": ")
    }
}
