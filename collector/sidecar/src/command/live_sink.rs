//! The sink of OTLP requests of a live run: the backend, a file, and the page for Prometheus. It never waits.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufWriter};
use std::rc::Rc;
use std::time::Instant;

use phasemeter_claims::HeldRequests;
use phasemeter_engine::pipeline::RequestSink;
use phasemeter_otlp::delivery::RequestSender;
use phasemeter_otlp::encode::Outgoing;
use phasemeter_otlp::exposition::Exposition;
use phasemeter_otlp::{OtlpFile, Request};
use tracing::warn;

/// Takes the requests that have a queue of their own; returns whether it took this one.
pub(super) type Divert = Box<dyn Fn(&Request) -> bool>;

/// The OTLP file of a live run. After a write error it is closed, and the run continues.
#[derive(Clone)]
pub(super) struct LiveFile(Rc<RefCell<Option<OtlpFile<BufWriter<File>>>>>);

impl LiveFile {
    /// Writes to this file.
    pub(super) fn new(file: OtlpFile<BufWriter<File>>) -> Self {
        Self(Rc::new(RefCell::new(Some(file))))
    }

    /// Completes the file.
    pub(super) fn finish(&self) {
        report(self.0.take().map_or(Ok(()), OtlpFile::finish));
    }

    fn write(&self, request: &Request) {
        let mut file = self.0.borrow_mut();
        if !report(file.as_mut().map_or(Ok(()), |file| file.write(request))) {
            *file = None;
        }
    }
}

/// The sink of the backend, the file and the page, if there is any. Requests that claim time are left in `held`, if
/// that is given.
pub(super) fn live_sink(
    backend: Option<RequestSender>,
    divert: Option<Divert>,
    held: Option<HeldRequests>,
    file: Option<LiveFile>,
    page: Option<Exposition>,
) -> Option<RequestSink<'static>> {
    if backend.is_none() && file.is_none() && page.is_none() {
        return None;
    }
    Some(Box::new(move |outgoing: Outgoing| {
        for request in &outgoing.requests {
            file.iter().for_each(|file| file.write(request));
            page.iter().for_each(|page| page.record(request, Instant::now()));
        }
        if let Some(held) = held.as_ref().filter(|_| outgoing.claims.is_some()) {
            held.borrow_mut().push(outgoing);
            return Ok(());
        }
        for request in &outgoing.requests {
            let is_taken = divert.as_ref().is_some_and(|divert| divert(request));
            if let Some(backend) = backend.as_ref().filter(|_| !is_taken) {
                backend.enqueue(request.encode());
            }
        }
        Ok(())
    }))
}

/// Whether a write to the file succeeded. Logs a failure; nothing is written after it.
fn report(written: io::Result<()>) -> bool {
    written.inspect_err(|error| warn!("writing the OTLP file stopped: {error}")).is_ok()
}
