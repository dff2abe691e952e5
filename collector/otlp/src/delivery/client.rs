//! The client: a queue, and a thread with the workers of each signal.
//!
//! The pipeline is synchronous and must never wait for a network, so the queue separates the two.

use std::io;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;
use tokio::runtime;
use tokio::time::Instant;

use super::config::{Config, QUEUE_BYTES_PER_GPU};
use super::outcome::{Outcome, Receipt};
use super::sender::{RequestSender, Stats};
use super::storage::Storage;
use super::task::{Delivery, DeliveryHandle};
use super::transport::Connection;
use crate::request::EncodedRequest;

/// How often a flush checks whether it is cut.
const CUT_POLL: Duration = Duration::from_millis(5);

/// How long after its deadline a flush waits for the disk.
const DISK_MARGIN: Duration = Duration::from_secs(2);

/// A running client. If dropped without [`Client::flush`], it stops at once and loses queued data.
#[derive(Debug)]
pub struct Client {
    delivery: DeliveryHandle,
    thread: JoinHandle<()>,
    /// The capacity of the queue without GPUs.
    queue_bytes: u64,
}

/// The exporting thread cannot be started.
#[derive(Debug, Error)]
#[error("cannot start the OTLP thread: {0}; raise the limits on processes and open files")]
pub struct StartError(#[from] io::Error);

impl Client {
    /// Starts the thread. It connects when there is something to send.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a file descriptor.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        Self::start_with(config, None)
    }

    /// Starts the thread with a storage: requests are stored before they are sent, and what earlier runs have
    /// left is sent first.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a thread or a file descriptor.
    pub fn start_with(config: &Config, storage: Option<Storage>) -> Result<Self, StartError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (task, delivery) = Delivery::new(config, storage, Connection::new);
        let thread = thread::Builder::new().name("otlp".to_owned()).spawn(move || {
            runtime.block_on(task.run());
            // A pending DNS lookup must not delay the exit.
            runtime.shutdown_background();
        })?;
        Ok(Self { delivery, thread, queue_bytes: config.queue_bytes })
    }

    /// Delays metrics and spans, which all meters export at the same instants, by this much, until the
    /// client is flushed. Other data, retries included, is not delayed.
    pub fn set_send_offset(&self, offset: Duration) {
        self.delivery.sender.queue.set_offset(offset);
    }

    /// Raises the capacity of the queue to that for this many metered GPUs, whose points arrive all at once.
    pub fn make_space_for(&self, gpus: usize) {
        let gpus = u64::try_from(gpus).unwrap_or(u64::MAX);
        let more = gpus.saturating_mul(QUEUE_BYTES_PER_GPU);
        self.delivery.sender.queue.grow(self.queue_bytes.saturating_add(more));
    }

    /// Queues a request without waiting: if the queue is full, the oldest requests are dropped and
    /// counted. A request of a signal without an endpoint, or without items, is discarded.
    pub fn enqueue(&self, request: EncodedRequest) {
        self.delivery.sender.enqueue(request);
    }

    /// Like [`Client::enqueue`]. The receipt has what becomes of the request; `None` if it is discarded.
    pub fn enqueue_with_receipt(&self, request: EncodedRequest) -> Option<Receipt> {
        self.delivery.sender.enqueue_with_receipt(request)
    }

    /// What queues requests from another thread.
    #[must_use]
    pub fn sender(&self) -> RequestSender {
        self.delivery.sender()
    }

    /// Like [`Client::enqueue`], but waits for free space first, for a source that is faster than
    /// any network, such as a log (the Collector's `block_on_overflow`). If the backend accepts
    /// nothing for `patience`, the oldest requests are dropped, without further waiting until it
    /// accepts something again.
    pub fn enqueue_waiting(&self, request: EncodedRequest, patience: Duration) {
        if *self.delivery.sender.addressed.of(request.signal()) {
            self.delivery.sender.queue.wait_for_space(&request, patience);
            self.enqueue(request);
        }
    }

    /// A handle to the counts, for reporting while the client runs.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.delivery.stats()
    }

    /// Sends what it can within `grace`, stops, and returns the outcome of all data. Each signal with data
    /// makes at least one attempt, whatever delay it was in. Returns early once everything is sent, or if
    /// no signal's next attempt is due in time.
    #[must_use]
    pub fn flush(self, grace: Duration) -> Outcome {
        self.flush_unless(grace, || false)
    }

    /// Like [`Client::flush`], but stops waiting once `is_cut`, which is called many times per second.
    #[must_use]
    pub fn flush_unless(self, grace: Duration, is_cut: impl Fn() -> bool) -> Outcome {
        // A disk that hangs must not keep the process.
        let last = self.delivery.close(grace) + DISK_MARGIN;
        while !self.thread.is_finished() && !is_cut() && Instant::now() < last {
            thread::sleep(CUT_POLL);
        }
        // A worker that panicked leaves its requests counted as unsent.
        self.delivery.sender.queue.outcome()
    }
}
