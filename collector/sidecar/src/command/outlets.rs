//! Where the requests of a run go: into a file, to a backend, or both.
//!
//! What is in a request must not be known here, nor which run it is of.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::time::Duration;

use phasemeter_otlp::Request;
use phasemeter_otlp::delivery::Destination;
use phasemeter_otlp::delivery::OtlpFile;
use tracing::info;

use super::delivery::Delivery;
use super::{Failure, metering};
use crate::cli::{ReportArgs, SendArgs};
use crate::pipeline::Outlet;

/// How long a backend may take nothing while requests wait, and how long what is left at the end
/// may take.
const GRACE: Duration = Duration::from_secs(10);

/// Where the requests of a run go.
pub(super) struct Outlets {
    file: Option<(PathBuf, OtlpFile<BufWriter<File>>)>,
    delivery: Option<Delivery>,
}

impl Outlets {
    /// Opens those that are asked for.
    pub(super) fn open(report: &ReportArgs, send: &SendArgs) -> Result<Self, Failure> {
        let destination = |endpoint: &Option<String>| match endpoint {
            Some(endpoint) => Delivery::start(Destination::Endpoint(endpoint)),
            None => Delivery::start(Destination::Default),
        };
        let delivery = send.otlp.as_ref().map(destination).transpose()?.flatten();
        let file = report.otlp_file.as_ref();
        let file = file.map(|path| Ok::<_, Failure>((path.clone(), metering::otlp_file(path)?)));
        Ok(Self { file: file.transpose()?, delivery })
    }

    /// All of them as one, where there is any. [`Self::unwritten`] says which file it was that could
    /// not be written.
    pub(super) fn outlet(&mut self) -> Option<Outlet<'_>> {
        let any = self.file.is_some() || self.delivery.is_some();
        any.then(|| -> Outlet<'_> { Box::new(|request| self.send(&request)) })
    }

    /// Hands a request to all of them. A log is read faster than any network takes it, so it waits
    /// for the backend.
    fn send(&mut self, request: &Request) -> io::Result<()> {
        if let Some(delivery) = &self.delivery {
            delivery.send_waiting(request, GRACE);
        }
        self.file.as_mut().map_or(Ok(()), |(_, file)| file.write(request))
    }

    /// The failure to write the file.
    pub(super) fn unwritten(&self, source: io::Error) -> Failure {
        let path = self.file.as_ref().map(|(path, _)| path.clone()).unwrap_or_default();
        Failure::Write { path, source }
    }

    /// Nothing follows: what the backend took is said on standard error.
    ///
    /// # Errors
    /// Where the file cannot be written, or the backend did not take everything.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let delivered = self.delivery.map_or(Ok(()), |delivery| {
            let arrival = delivery.finish(GRACE);
            if !arrival.is_complete() {
                return Err(Failure::Undelivered(Box::new(arrival)));
            }
            info!("{arrival}");
            Ok(())
        });
        let written = self.file.map_or(Ok(()), |(path, file)| {
            file.finish().map_err(|source| Failure::Write { path, source })
        });
        delivered.and(written)
    }
}
