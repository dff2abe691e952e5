//! Where the requests of a run go: into a file, to a backend, or both.
//!
//! What is in a request must not be known here, nor which run it is of.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Failure;
use super::arrival::Arrival;
use crate::cli::{ReportArgs, SendArgs};
use crate::otlp::client::{Client, Config, Destination};
use crate::otlp::{OtlpFile, Request};
use crate::pipeline::Outlet;

/// How long a backend may take nothing while requests wait, and how long what is left at the end
/// may take.
const GRACE: Duration = Duration::from_secs(10);

/// Where the requests of a run go.
pub(super) struct Outlets {
    file: Option<(PathBuf, OtlpFile<BufWriter<File>>)>,
    backend: Option<(Config, Client)>,
}

impl Outlets {
    /// Opens those that are asked for. Nothing is connected before there is something to send.
    pub(super) fn open(report: &ReportArgs, send: &SendArgs) -> Result<Self, Failure> {
        let backend =
            send.otlp.as_ref().map(|endpoint| backend(endpoint.as_deref())).transpose()?;
        let file = report.otlp_file.as_deref().map(create).transpose()?;
        Ok(Self { file, backend: backend.flatten() })
    }

    /// All of them as one, where there is any. [`Self::unwritten`] says which file it was that could
    /// not be written.
    pub(super) fn outlet(&mut self) -> Option<Outlet<'_>> {
        let any = self.file.is_some() || self.backend.is_some();
        any.then(|| -> Outlet<'_> { Box::new(|request| self.send(&request)) })
    }

    /// Hands a request to all of them. A log is read faster than any network takes it, so it waits
    /// for the backend.
    fn send(&mut self, request: &Request) -> io::Result<()> {
        if let Some((_, client)) = &self.backend {
            client.enqueue_waiting(request.into(), GRACE);
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
        let delivered = self.backend.map_or(Ok(()), |(config, client)| {
            let arrival = Arrival::new(&config, client.flush(GRACE));
            if !arrival.is_complete() {
                return Err(Failure::Undelivered(Box::new(arrival)));
            }
            eprintln!("phasemeter: {arrival}");
            Ok(())
        });
        let written = self.file.map_or(Ok(()), |(path, file)| {
            file.finish().map_err(|source| Failure::Write { path, source })
        });
        delivered.and(written)
    }
}

fn create(path: &Path) -> Result<(PathBuf, OtlpFile<BufWriter<File>>), Failure> {
    let path = path.to_owned();
    match File::create(&path) {
        Ok(file) => Ok((path, OtlpFile::new(BufWriter::new(file)))),
        Err(source) => Err(Failure::Write { path, source }),
    }
}

fn backend(endpoint: Option<&str>) -> Result<Option<(Config, Client)>, Failure> {
    let destination = endpoint.map_or(Destination::Standard, Destination::Given);
    let Some(config) = Config::read(destination, |name| std::env::var(name).ok())? else {
        return Ok(None);
    };
    let client = Client::start(&config)?;
    Ok(Some((config, client)))
}
