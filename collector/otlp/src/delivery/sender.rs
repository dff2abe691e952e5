//! What queues requests, and what counts them.

use std::sync::Arc;

use super::losses::Losses;
use super::operations::{OperationEnd, Operations};
use super::outcome::{Outcome, Receipt};
use super::queue::Queue;
use crate::duration_histogram::Counts;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// Queues requests of a client, from any thread.
#[derive(Clone, Debug)]
pub struct RequestSender {
    pub(super) queue: Arc<Queue>,
    pub(super) addressed: BySignal<bool>,
    pub(super) losses: Arc<Losses>,
}

impl RequestSender {
    /// Queues a request like [`Client::enqueue`](super::Client::enqueue). Once the client is flushed, it is never sent.
    pub fn enqueue(&self, request: EncodedRequest) {
        let _ = self.enqueue_with_receipt(request);
    }

    /// Like [`Self::enqueue`]. The receipt has what becomes of it; `None` if the request is discarded.
    pub fn enqueue_with_receipt(&self, request: EncodedRequest) -> Option<Receipt> {
        if !*self.addressed.of(request.signal()) || request.items() == 0 {
            return None;
        }
        let (receipt, dropped) = self.queue.push(request);
        self.losses.add(&dropped, std::time::Instant::now());
        Some(receipt)
    }
}

/// The counts of a client, while it runs and after.
#[derive(Clone, Debug)]
pub struct Stats {
    pub(super) queue: Arc<Queue>,
    pub(super) operations: BySignal<Arc<Operations>>,
}

impl Stats {
    /// The current counts; they always add up.
    #[must_use]
    pub fn read(&self) -> Outcome {
        self.queue.outcome()
    }

    /// The capacity of the queue over all signals, in encoded bytes.
    #[must_use]
    pub fn queue_capacity(&self) -> u64 {
        self.queue.capacity()
    }

    /// Durations of a signal's export operations, by how they ended.
    #[must_use]
    pub fn operations(&self, signal: Signal) -> Vec<(OperationEnd, Counts)> {
        self.operations.of(signal).counts()
    }
}
