//! The sinks of OTLP requests: a file, a backend, or both.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use phasemeter_engine::pipeline::RequestSink;
use phasemeter_otlp::{OtlpFile, Request};
use tracing::info;

use super::delivery::Delivery;
use super::error::CommandError;
use super::files;
use crate::cli::{ReportArgs, SendArgs};

/// How long a backend may accept nothing while the queue is full, and the deadline of the final
/// flush.
const GRACE: Duration = Duration::from_secs(10);

/// The sinks of a run.
pub(super) struct Sinks {
    file: Option<(PathBuf, OtlpFile<BufWriter<File>>)>,
    delivery: Option<Delivery>,
}

impl Sinks {
    /// Opens the configured sinks.
    pub(super) fn open(report: &ReportArgs, send: &SendArgs) -> Result<Self, CommandError> {
        let delivery = Delivery::open(send)?;
        let file = report.otlp_file.as_ref();
        let file =
            file.map(|path| Ok::<_, CommandError>((path.clone(), files::create_otlp(path)?)));
        Ok(Self { file: file.transpose()?, delivery })
    }

    /// All sinks as one; `None` if there are none. [`Self::write_error`] converts its errors.
    pub(super) fn request_sink(&mut self) -> Option<RequestSink<'_>> {
        let any = self.file.is_some() || self.delivery.is_some();
        any.then(|| -> RequestSink<'_> {
            Box::new(|outgoing| outgoing.requests.iter().try_for_each(|it| self.send(it)))
        })
    }

    /// Sends a request to all sinks. Waits for the backend: a log is read faster than it is sent.
    fn send(&mut self, request: &Request) -> io::Result<()> {
        if let Some(delivery) = &self.delivery {
            delivery.send_waiting(request, GRACE);
        }
        self.file.as_mut().map_or(Ok(()), |(_, file)| file.write(request))
    }

    /// The error of a failed write to the file.
    pub(super) fn write_error(&self, source: io::Error) -> CommandError {
        let path = self.file.as_ref().map(|(path, _)| path.clone()).unwrap_or_default();
        CommandError::Write { path, source }
    }

    /// Flushes all sinks and logs the outcome of delivery.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written or the backend did not accept all data.
    pub(super) fn finish(self) -> Result<(), CommandError> {
        let delivered = self.delivery.map_or(Ok(()), |delivery| {
            let report = delivery.finish(GRACE, || false);
            if !report.is_complete() {
                return Err(CommandError::Undelivered(Box::new(report)));
            }
            info!("{report}");
            Ok(())
        });
        let written = self.file.map_or(Ok(()), |(path, file)| {
            file.finish().map_err(|source| CommandError::Write { path, source })
        });
        delivered.and(written)
    }
}
