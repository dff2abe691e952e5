//! Sends spans that have waited, and counts what is on its way.
//!
//! Must not depend on why they waited.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use phasemeter_otlp::delivery::RequestSender;
use phasemeter_otlp::receiver::{HeldSpan, held_requests};
use phasemeter_otlp::{EncodedRequest, Signal};

/// Maximum size of a request.
const REQUEST_BYTES: usize = 1 << 20;

/// Requests of spans on their way to the backend.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: RequestSender,
    bytes: Arc<AtomicUsize>,
}

/// The bytes of a request, which count until they are dropped.
struct Counted {
    body: Vec<u8>,
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

    /// Sends spans, each with further fields.
    pub(super) fn send(&self, spans: Vec<(HeldSpan, Vec<u8>)>) {
        for request in held_requests(spans, REQUEST_BYTES) {
            let (items, body) = (request.spans, request.body);
            self.bytes.fetch_add(body.len(), Ordering::Relaxed);
            let body = Bytes::from_owner(Counted { body, bytes: Arc::clone(&self.bytes) });
            self.sender.enqueue(EncodedRequest::new(Signal::Traces, items, body));
        }
    }
}
