//! Errors of commands: one line of text and an exit status.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[cfg(feature = "full")]
use phasemeter_bill::overlay::OverlayError;
#[cfg(feature = "full")]
use phasemeter_config::ConfigurationError;
use phasemeter_engine::pipeline::PipelineError;
use phasemeter_engine::policies::OpenError;
use phasemeter_logs::SourceError;
use phasemeter_terminal::escape::clean;
use rustix::io::Errno;

#[cfg(feature = "full")]
use super::delivery_report::DeliveryReport;
#[cfg(feature = "full")]
use super::exit_status::{CHECK_FAILED, EX_USAGE};
use super::exit_status::{
    EX_CANTCREAT, EX_CONFIG, EX_DATAERR, EX_IOERR, EX_NOINPUT, EX_OSERR, EX_SOFTWARE,
    EX_UNAVAILABLE, NOT_EXECUTABLE, NOT_FOUND,
};
#[cfg(feature = "full")]
use super::listing::counted;
#[cfg(feature = "full")]
use super::status_error::StatusError;

/// An error of a command.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// An input is invalid or cannot be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// A bill cannot be made.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Bill(#[from] phasemeter_bill::error::BillError),
    /// A report cannot be laid over a profile.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Overlay(#[from] OverlayError),
    /// Parquet has rows of FOCUS only.
    #[cfg(feature = "full")]
    #[error("--output {}: Parquet has the rows of --format focus; add it, or choose another name", .0.display())]
    ParquetFormat(PathBuf),
    /// Two reports cannot be compared.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Compare(#[from] phasemeter_bill::compare::CompareError),
    /// A trial cannot be settled, or a record of one is refused.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Trial(#[from] phasemeter_bill::trial::TrialError),
    /// Rules for alerts cannot be used.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Alerts(#[from] super::AlertsError),
    /// Alerts opened, and that was to be an error.
    #[cfg(feature = "full")]
    #[error("{} opened; see Alerts in the report", counted(*.0, "alert"))]
    AlertsOpened(u64),
    /// A work log is invalid.
    #[error(transparent)]
    WorkLog(#[from] super::WorkLogError),
    /// A file cannot be written.
    #[error("{}: cannot be written; check that its directory exists and is writable", .path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A recording exists.
    #[cfg(feature = "full")]
    #[error("{}: exists, and is kept; choose another name, or set --overwrite", .path.display())]
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// A file is a pipe or a socket.
    #[error("{}: is a pipe, and its reader could block the run; name a regular file", .path.display())]
    Pipe {
        /// The file.
        path: PathBuf,
    },
    /// An output file is an input, a redirected stream or another output.
    #[error("{option} {}: is also {other}; choose another file", .path.display())]
    FileInUse {
        /// The option.
        option: String,
        /// The file.
        path: PathBuf,
        /// Its other use.
        other: String,
    },
    /// Not all telemetry was delivered.
    #[cfg(feature = "full")]
    #[error("{0}")]
    Undelivered(Box<DeliveryReport>),
    /// The report cannot be written.
    #[error("cannot write the report")]
    Output(#[source] io::Error),
    /// The pipeline failed.
    #[error(transparent)]
    Pipeline(#[from] PipelineError),
    /// The configuration of policies is invalid.
    #[error(transparent)]
    Policies(#[from] OpenError),
    /// The GPUs of this machine cannot be metered, or telemetry not delivered.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Live(#[from] super::LiveError),
    /// There is no report of a run in progress.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Status(#[from] StatusError),
    /// A `policy` subcommand failed.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Policy(#[from] super::PolicyCommandError),
    /// A question of `plan` has no result.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Plan(#[from] phasemeter_plan::error::PlanError),
    /// A report cannot be used for a plan.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Report(#[from] phasemeter_bill::error::ReadError),
    /// A report lacks what a plan needs.
    #[cfg(feature = "full")]
    #[error("{}: has no {what}; {fix}", .path.display())]
    ReportLacks {
        /// The report.
        path: PathBuf,
        /// The value.
        what: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The price book has no such price.
    #[cfg(feature = "full")]
    #[error("{0}; or set {1}")]
    Unpriced(phasemeter_meter::price::Unpriced, &'static str),
    /// A price book cannot be used.
    #[error(transparent)]
    PriceBook(#[from] phasemeter_engine::pricing::book_file::BookFileError),
    /// A price file of a cloud cannot be imported.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Import(#[from] phasemeter_price_import::ImportError),
    /// A configuration file cannot be used.
    #[cfg(feature = "full")]
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// Variables of the environment are invalid, one per line, and that was to be an error.
    #[error("--strict: {}", .0.join("\n"))]
    Environment(Vec<String>),
    /// The operating system rejected a request.
    #[error("{what}")]
    System {
        /// What failed.
        what: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// This program has a fault, which was logged.
    #[error("metering has ended by an internal error")]
    Panicked,
    /// A command cannot be run.
    #[error("{command}: cannot be run; check its name and permissions")]
    Command {
        /// Its name.
        command: String,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl CommandError {
    /// That this file cannot be written.
    pub(super) fn write(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Write { path: path.to_owned(), source }
    }

    /// That the operating system rejected this.
    pub(super) const fn system(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::System { what, source }
    }

    /// The exit status.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        self.status().into()
    }

    /// Whether this machine is to blame, in its present state, or the environment, which is often that of a
    /// whole cluster: not the command line, nor a file that it names.
    #[cfg_attr(not(feature = "full"), allow(dead_code))]
    pub(super) fn is_of_system(&self) -> bool {
        let is_file = matches!(self, Self::Pipe { .. });
        #[cfg(feature = "full")]
        if let Self::Live(super::LiveError::Config(_)) = self {
            return true;
        }
        let refused = matches!(self.status(), EX_UNAVAILABLE | EX_OSERR | EX_IOERR);
        refused && !is_file || self.is_exhausted()
    }

    /// Whether the system has no process, thread, file or memory left.
    #[cfg_attr(not(feature = "full"), allow(dead_code))]
    pub(super) fn is_exhausted(&self) -> bool {
        let exhausted = [Errno::AGAIN, Errno::NOMEM, Errno::MFILE, Errno::NFILE];
        let mut cause: Option<&dyn Error> = Some(self);
        while let Some(error) = cause {
            let errno = error.downcast_ref().and_then(Errno::from_io_error);
            if errno.is_some_and(|errno| exhausted.contains(&errno)) {
                return true;
            }
            cause = error.source();
        }
        false
    }

    fn status(&self) -> u8 {
        match self {
            Self::Source(SourceError::Unreadable { .. } | SourceError::Directory { .. })
            | Self::WorkLog(super::WorkLogError::Unreadable { .. })
            | Self::Policies(OpenError::Unreadable { .. }) => EX_NOINPUT,
            Self::PriceBook(error) if error.is_unreadable() => EX_NOINPUT,
            Self::Source(_) | Self::WorkLog(_) | Self::PriceBook(_) => EX_DATAERR,
            #[cfg(feature = "full")]
            Self::Bill(error) if error.is_unreadable() => EX_NOINPUT,
            #[cfg(feature = "full")]
            Self::Report(error) if error.is_unreadable() => EX_NOINPUT,
            #[cfg(feature = "full")]
            Self::Overlay(OverlayError::Unreadable { .. }) => EX_NOINPUT,
            #[cfg(feature = "full")]
            Self::Overlay(OverlayError::Output(_)) => EX_IOERR,
            #[cfg(feature = "full")]
            Self::Overlay(_) => EX_DATAERR,
            #[cfg(feature = "full")]
            Self::Bill(_)
            | Self::Compare(_)
            | Self::Trial(_)
            | Self::Import(_)
            | Self::Report(_)
            | Self::ReportLacks { .. } => EX_DATAERR,
            #[cfg(feature = "full")]
            Self::Status(StatusError::Report(..)) => EX_DATAERR,
            #[cfg(feature = "full")]
            Self::Status(_) => EX_UNAVAILABLE,
            #[cfg(feature = "full")]
            Self::ParquetFormat(_) | Self::Plan(_) | Self::Unpriced(..) => EX_USAGE,
            #[cfg(feature = "full")]
            Self::Configuration(error) => match error {
                ConfigurationError::Unnamed => EX_USAGE,
                ConfigurationError::Unreadable(_) => EX_NOINPUT,
                ConfigurationError::Invalid(_) | ConfigurationError::Options(..) => EX_CONFIG,
            },
            #[cfg(feature = "full")]
            Self::Alerts(error) => error.exit_code(),
            #[cfg(feature = "full")]
            Self::AlertsOpened(_) => CHECK_FAILED,
            #[cfg(feature = "full")]
            Self::Undelivered(_) => EX_IOERR,
            #[cfg(feature = "full")]
            Self::Live(error) => error.exit_code(),
            #[cfg(feature = "full")]
            Self::Policy(error) => error.exit_code(),
            Self::FileInUse { .. } => EX_CANTCREAT,
            #[cfg(feature = "full")]
            Self::Exists { .. } => EX_CANTCREAT,
            Self::Write { .. } | Self::Pipe { .. } | Self::Output(_) | Self::Pipeline(_) => {
                EX_IOERR
            }
            Self::Policies(OpenError::Host(_) | OpenError::Thread(_)) | Self::System { .. } => {
                EX_OSERR
            }
            Self::Policies(_) | Self::Environment(_) => EX_CONFIG,
            Self::Panicked => EX_SOFTWARE,
            Self::Command { source, .. } if source.kind() == io::ErrorKind::NotFound => NOT_FOUND,
            Self::Command { .. } => NOT_EXECUTABLE,
        }
    }

    /// Lines for the log: one, but for a file with several problems.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        #[cfg(feature = "full")]
        if let Self::Configuration(error) = self {
            return error.lines();
        }
        vec![self.in_one_line()]
    }

    /// The error and its causes in one line, with control characters of external text replaced.
    #[must_use]
    pub fn in_one_line(&self) -> String {
        let mut lines = Vec::new();
        let mut cause: Option<&dyn Error> = Some(self);
        while let Some(error) = cause {
            let line = clean(&error.to_string().replace('\n', "; "));
            // Some errors already include their cause.
            if !lines.last().is_some_and(|last: &String| last.ends_with(&line)) {
                lines.push(line);
            }
            cause = error.source();
        }
        lines.join(": ")
    }
}
