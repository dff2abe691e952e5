//! The client: a queue, and a thread with the workers of each signal.
//!
//! The pipeline is synchronous and must never wait for a network, so the queue separates the two.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::attempt_log::AttemptLog;
use super::config::{Config, QUEUE_BYTES_PER_GPU};
use super::losses::Losses;
use super::operations::{OperationEnd, Operations};
use super::outcome::{Outcome, Receipt};
use super::queue::Queue;
use super::storage::Storage;
use super::worker::{Closing, Shared, Worker};
use crate::duration_histogram::Counts;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// Maximum grace period; it always fits the clock.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);

/// How often a flush checks whether it is cut.
const CUT_POLL: Duration = Duration::from_millis(5);

/// How long after its deadline a flush waits for the disk.
const DISK_MARGIN: Duration = Duration::from_secs(2);

/// How often it is noted on disk what was accepted, if nothing else arrives.
const CHECKPOINT: Duration = Duration::from_secs(1);

/// A running client. If dropped without [`Client::flush`], it stops at once and loses queued data.
#[derive(Debug)]
pub struct Client {
    sender: RequestSender,
    operations: BySignal<Arc<Operations>>,
    closing: watch::Sender<Closing>,
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
        let queue = Arc::new(Queue::new(config.queue_bytes, config.batching, storage));
        let (closing, closes) = watch::channel(None);
        let operations = BySignal::<Arc<Operations>>::default();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let workers: Vec<Worker> = Signal::ALL
            .into_iter()
            .filter_map(|signal| Some((signal, config.target(signal)?.clone())))
            .flat_map(|(signal, target)| {
                let log = Arc::new(AttemptLog::new(signal, target.clone()));
                let (queue, operations, closes) = (&queue, operations.of(signal), &closes);
                let worker = move |number| {
                    let (target, closes) = (target.clone(), closes.clone());
                    let log = Arc::clone(&log);
                    let shared = Shared {
                        queue: Arc::clone(queue),
                        operations: Arc::clone(operations),
                        log,
                    };
                    Worker::new(signal, target, number, config.retry, shared, closes)
                };
                (0..config.batching.consumers.max(1)).map(worker).collect::<Vec<_>>()
            })
            .collect();
        let stored = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || send(runtime, workers, closes, &stored))?;
        let addressed = BySignal::each(|signal| config.target(signal).is_some());
        let name = |signal| config.target(signal).map(ToString::to_string).unwrap_or_default();
        let losses = Arc::new(Losses::new(BySignal::each(name)));
        let sender = RequestSender { queue, addressed, losses };
        Ok(Self { sender, operations, closing, thread, queue_bytes: config.queue_bytes })
    }

    /// Delays metrics and spans, which all meters export at the same instants, by this much, until the
    /// client is flushed. Other data, retries included, is not delayed.
    pub fn set_send_offset(&self, offset: Duration) {
        self.sender.queue.set_offset(offset);
    }

    /// Raises the capacity of the queue to that for this many metered GPUs, whose points arrive all at once.
    pub fn make_space_for(&self, gpus: usize) {
        let gpus = u64::try_from(gpus).unwrap_or(u64::MAX);
        let more = gpus.saturating_mul(QUEUE_BYTES_PER_GPU);
        self.sender.queue.grow(self.queue_bytes.saturating_add(more));
    }

    /// Queues a request without waiting: if the queue is full, the oldest requests are dropped and
    /// counted. A request of a signal without an endpoint, or without items, is discarded.
    pub fn enqueue(&self, request: EncodedRequest) {
        self.sender.enqueue(request);
    }

    /// Like [`Client::enqueue`], for a request that the caller keeps until it has an outcome: it is not stored.
    /// `None` if the request is discarded.
    pub fn enqueue_with_receipt(&self, request: EncodedRequest) -> Option<Receipt> {
        self.sender.push(request, false)
    }

    /// What queues requests from another thread.
    #[must_use]
    pub fn sender(&self) -> RequestSender {
        self.sender.clone()
    }

    /// Like [`Client::enqueue`], but waits for free space first, for a source that is faster than
    /// any network, such as a log (the Collector's `block_on_overflow`). If the backend accepts
    /// nothing for `patience`, the oldest requests are dropped, without further waiting until it
    /// accepts something again.
    pub fn enqueue_waiting(&self, request: EncodedRequest, patience: Duration) {
        if *self.sender.addressed.of(request.signal()) {
            self.sender.queue.wait_for_space(&request, patience);
            self.enqueue(request);
        }
    }

    /// A handle to the counts, for reporting while the client runs.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { queue: Arc::clone(&self.sender.queue), operations: self.operations.clone() }
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
        let deadline = Instant::now() + grace.min(LONGEST_GRACE);
        self.closing.send_replace(Some(deadline));
        // A disk that hangs must not keep the process.
        let last = deadline + DISK_MARGIN;
        while !self.thread.is_finished() && !is_cut() && Instant::now() < last {
            thread::sleep(CUT_POLL);
        }
        // A worker that panicked leaves its requests counted as unsent.
        self.sender.queue.outcome()
    }
}

/// Queues requests of a client, from any thread.
#[derive(Clone, Debug)]
pub struct RequestSender {
    queue: Arc<Queue>,
    addressed: BySignal<bool>,
    losses: Arc<Losses>,
}

impl RequestSender {
    /// Queues a request like [`Client::enqueue`]. Once the client is flushed, it is never sent.
    pub fn enqueue(&self, request: EncodedRequest) {
        let _ = self.push(request, true);
    }

    /// `None` if the request is discarded.
    fn push(&self, request: EncodedRequest, is_kept: bool) -> Option<Receipt> {
        if !*self.addressed.of(request.signal()) || request.items() == 0 {
            return None;
        }
        let (receipt, dropped) = self.queue.push(request, is_kept);
        self.losses.add(&dropped, std::time::Instant::now());
        Some(receipt)
    }
}

/// The counts of a client, while it runs and after.
#[derive(Clone, Debug)]
pub struct Stats {
    queue: Arc<Queue>,
    operations: BySignal<Arc<Operations>>,
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

/// Runs until the client closes and everything is sent or its time is up, or until it is dropped.
fn send(
    runtime: Runtime,
    workers: Vec<Worker>,
    mut closes: watch::Receiver<Closing>,
    queue: &Arc<Queue>,
) {
    let stores = queue.has_storage();
    let storing = Arc::clone(queue);
    runtime.block_on(async move {
        if stores {
            tokio::spawn(store(storing));
        }
        let mut tasks = JoinSet::new();
        for worker in workers {
            tasks.spawn(worker.run());
        }
        let deadline = match closes.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(deadline)) => *deadline,
            _ => return,
        };
        let finished = async { while tasks.join_next().await.is_some() {} };
        let _ = timeout_at(deadline, finished).await;
        // What is in flight waits again, so that it can be stored.
        tasks.shutdown().await;
    });
    queue.close();
    // A pending DNS lookup must not delay the exit.
    runtime.shutdown_background();
}

/// Stores what arrives, also while workers wait for a backend.
async fn store(queue: Arc<Queue>) {
    loop {
        // Elapsed time is a reason, too.
        let _ = timeout(CHECKPOINT, queue.to_store()).await;
        queue.store();
    }
}
