//! Sends spans that have waited, and the costs of those that have not, and counts what is on its way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use phasemeter_otlp::delivery::RequestSender;
use phasemeter_otlp::{EncodedRequest, Request, Signal};
use phasemeter_receiver::{HeldRequest, HeldSpan, held_requests};

/// Maximum size of a request.
const REQUEST_BYTES: usize = 1 << 20;

/// Requests of spans and of their costs on their way to the backend.
#[derive(Clone, Debug)]
pub struct Outgoing {
    sender: RequestSender,
    bytes: Arc<AtomicUsize>,
}

/// The bytes of a request, which count until they are dropped.
struct Counted {
    body: Bytes,
    bytes: Arc<AtomicUsize>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.bytes.fetch_sub(self.body.len(), Ordering::Relaxed);
    }
}

impl Outgoing {
    /// Bytes on their way beyond which no further spans should be taken: the backend is slow or down.
    pub(super) const MAX_BYTES: usize = 8 << 20;

    pub(super) fn new(sender: RequestSender) -> Self {
        Self { sender, bytes: Arc::default() }
    }

    /// Bytes on their way.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Sends spans, each with further fields, request by request as they are built.
    pub(super) fn send(&self, spans: Vec<(HeldSpan, Vec<u8>)>) {
        held_requests(spans, REQUEST_BYTES, &mut |HeldRequest { spans, body }| {
            self.enqueue(&EncodedRequest::new(Signal::Traces, spans, body.into()));
        });
    }

    /// Sends a request behind what was sent before.
    pub fn send_request(&self, request: &Request) {
        self.enqueue(&request.encode());
    }

    fn enqueue(&self, request: &EncodedRequest) {
        let (body, bytes) = (request.body().clone(), Arc::clone(&self.bytes));
        bytes.fetch_add(body.len(), Ordering::Relaxed);
        let body = Bytes::from_owner(Counted { body, bytes });
        self.sender.enqueue(EncodedRequest::new(request.signal(), request.items(), body));
    }
}
