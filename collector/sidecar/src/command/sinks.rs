//! The sinks of OTLP requests: a file, a backend, or both.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
#[cfg(feature = "full")]
use std::time::Duration;

use phasemeter_engine::pipeline::RequestSink;
use phasemeter_otlp::{OtlpFile, Request};
#[cfg(feature = "full")]
use tracing::info;

#[cfg(feature = "full")]
use super::delivery::Delivery;
use super::error::CommandError;
use super::files;
use phasemeter_cli::{ReportArgs, SendArgs};

/// How long a backend may accept nothing while the queue is full, and the deadline of the final
/// flush.
#[cfg(feature = "full")]
const GRACE: Duration = Duration::from_secs(10);

/// The sinks of a run.
pub(super) struct Sinks {
    file: Option<(PathBuf, OtlpFile<BufWriter<File>>)>,
    #[cfg(feature = "full")]
    delivery: Option<Delivery>,
}

impl Sinks {
    /// Opens the configured sinks.
    #[cfg_attr(not(feature = "full"), allow(unused_variables))]
    pub(super) fn open(report: &ReportArgs, send: &SendArgs) -> Result<Self, CommandError> {
        let file = report.otlp_file.as_ref();
        let file =
            file.map(|path| Ok::<_, CommandError>((path.clone(), files::create_otlp(path)?)));
        Ok(Self {
            #[cfg(feature = "full")]
            delivery: Delivery::open(send)?,
            file: file.transpose()?,
        })
    }

    /// All sinks as one; `None` if there are none. [`Self::write_error`] converts its errors.
    pub(super) fn request_sink(&mut self) -> Option<RequestSink<'_>> {
        let any = self.file.is_some();
        #[cfg(feature = "full")]
        let any = any || self.delivery.is_some();
        any.then(|| -> RequestSink<'_> {
            Box::new(|outgoing| outgoing.requests.iter().try_for_each(|it| self.send(it)))
        })
    }

    /// Sends a request to all sinks. Waits for the backend: a log is read faster than it is sent.
    fn send(&mut self, request: &Request) -> io::Result<()> {
        #[cfg(feature = "full")]
        if let Some(delivery) = &self.delivery {
            delivery.send_waiting(request, GRACE);
        }
        self.file.as_mut().map_or(Ok(()), |(_, file)| file.write(request))
    }

    /// The error of a failed write to the file.
    pub(super) fn write_error(&self, source: io::Error) -> CommandError {
        let path = self.file.as_ref().map(|(path, _)| path.as_path()).unwrap_or(Path::new(""));
        CommandError::write(path)(source)
    }

    /// Flushes all sinks and logs the outcome of delivery.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written or the backend did not accept all data.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        #[cfg(feature = "full")]
        let report = self.delivery.map(|delivery| delivery.finish(GRACE, || false));
        let written = self
            .file
            .map_or(Ok(()), |(path, file)| file.finish().map_err(CommandError::write(&path)));
        #[cfg(feature = "full")]
        if let Some(report) = report {
            if !report.is_complete() {
                return Err(CommandError::Undelivered(Box::new(report)));
            }
            info!("{report}");
        }
        written
    }
}
