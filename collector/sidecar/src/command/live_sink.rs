//! The sink of OTLP requests of a live run: the backend and a file. It never waits.

use std::fs::File;
use std::io::{self, BufWriter};

use phasemeter_otlp::encode::Outgoing;
use phasemeter_otlp::{OtlpFile, Request};
use tracing::warn;

use super::claims::HeldRequests;
use super::delivery::Delivery;
use crate::pipeline::RequestSink;

/// Takes the requests that have a queue of their own; returns whether it took this one.
pub(super) type Divert = Box<dyn Fn(&Request) -> bool>;

/// The sink of a live run: the backend and the file, if any. Requests that claim time are left in `held`, if
/// that is given. After a write error the file is closed and the run continues.
pub(super) fn live_sink<'a>(
    delivery: Option<&'a Delivery>,
    divert: Option<Divert>,
    held: Option<HeldRequests>,
    file: &'a mut Option<OtlpFile<BufWriter<File>>>,
) -> Option<RequestSink<'a>> {
    if delivery.is_none() && file.is_none() {
        return None;
    }
    Some(Box::new(move |outgoing: Outgoing| {
        for request in &outgoing.requests {
            if let Some(Err(error)) = file.as_mut().map(|file| file.write(request)) {
                stop_file(&error);
                *file = None;
            }
        }
        if let Some(held) = held.as_ref().filter(|_| outgoing.claims.is_some()) {
            held.borrow_mut().push(outgoing);
            return Ok(());
        }
        for request in &outgoing.requests {
            let is_taken = divert.as_ref().is_some_and(|divert| divert(request));
            if let Some(delivery) = delivery.filter(|_| !is_taken) {
                delivery.send(request);
            }
        }
        Ok(())
    }))
}

/// Reports that the file is no longer written.
pub(super) fn stop_file(error: &io::Error) {
    warn!("writing the OTLP file stopped: {error}");
}
