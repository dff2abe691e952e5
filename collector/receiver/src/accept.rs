//! Accepts a request that was read and decompressed, in parts that hold its memory.
//!
//! That of a large one takes longer than others should wait: it has a thread, in which such requests follow one another.

use std::io;
use std::sync::mpsc::{self, Sender};
use std::thread;

use tokio::sync::oneshot;

use super::budget::Reservation;
use super::error::RequestError;
use super::inspect::{Inspected, Part, Rejected, inspect};
use super::json;
use super::limits::Limits;
use super::response::Format;
use phasemeter_otlp::EncodedRequest;
use phasemeter_otlp::Signal;

/// What is accepted of a request, in parts without malformed elements, and what is not.
pub(super) type Accepted = (Vec<EncodedRequest>, Option<Rejected>);

/// A request that was read.
#[derive(Debug)]
pub(super) struct ReadRequest {
    pub(super) signal: Signal,
    pub(super) format: Format,
    pub(super) body: Vec<u8>,
    pub(super) reservation: Reservation,
}

/// The thread of large requests. It ends with the last handle.
#[derive(Clone, Debug)]
pub(super) struct LargeRequests {
    requests: Sender<(ReadRequest, oneshot::Sender<Result<Accepted, RequestError>>)>,
}

impl LargeRequests {
    pub(super) fn start(limits: Limits) -> io::Result<Self> {
        let (requests, received) = mpsc::channel::<(ReadRequest, oneshot::Sender<_>)>();
        let accept = move || {
            for (request, accepted) in received {
                // Its client may be gone.
                let _ = accepted.send(request.accept(&limits));
            }
        };
        thread::Builder::new().name("otlp-large".to_owned()).spawn(accept)?;
        Ok(Self { requests })
    }
}

impl ReadRequest {
    /// Accepts it: at once if it is small, else after others in the thread of large ones.
    pub(super) async fn accept_in_turn(
        self,
        limits: &Limits,
        large: &LargeRequests,
    ) -> Result<Accepted, RequestError> {
        if self.body.len() <= limits.part_bytes {
            return self.accept(limits);
        }
        let (accepted, outcome) = oneshot::channel();
        large.requests.send((self, accepted)).map_err(|_| RequestError::Closed)?;
        outcome.await.map_err(|_| RequestError::Closed)?
    }

    /// Accepts it now.
    pub(super) fn accept(self, limits: &Limits) -> Result<Accepted, RequestError> {
        let Self { signal, format, mut body, mut reservation } = self;
        if format == Format::Json {
            let protobuf = json::to_protobuf(signal, &body, limits.request_bytes)?;
            if !reservation.cover(body.len() + protobuf.len()) {
                return Err(RequestError::Exhausted);
            }
            body = protobuf;
        }
        let Inspected { parts, rejected } = inspect(signal, body, limits)?;
        let (bodies, items): (Vec<_>, Vec<_>) =
            parts.into_iter().map(|Part { body, items }| (body, items)).unzip();
        let bodies = reservation.divide(bodies).ok_or(RequestError::Exhausted)?;
        let received = |(body, items)| EncodedRequest::new(signal, items, body);
        Ok((bodies.into_iter().zip(items).map(received).collect(), rejected))
    }
}
