//! The client: a queue, and a thread of its own with one worker per signal.
//!
//! The pipeline is synchronous and must never wait for a network, so a queue stands between the
//! two.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::{self, Runtime};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use super::attempts::{AttemptEnd, Attempts};
use super::config::Config;
use super::outcome::Outcome;
use super::queue::Queue;
use super::worker::{Closing, Worker};
use crate::duration_histogram::Counts;
use crate::request::EncodedRequest;
use crate::signal::{BySignal, Signal};

/// The longest grace. More is not needed, and a number this size always fits the clock.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);

/// A running client. Dropped without [`Client::flush`] it stops at once, and what waits is lost.
#[derive(Debug)]
pub struct Client {
    queue: Arc<Queue>,
    attempts: BySignal<Arc<Attempts>>,
    addressed: BySignal<bool>,
    closing: watch::Sender<Closing>,
    thread: JoinHandle<()>,
}

/// The thread that sends could not be started.
#[derive(Debug, Error)]
#[error("cannot start the thread that sends OTLP: {0}; allow this user more processes and files")]
pub struct StartError(#[from] io::Error);

impl Client {
    /// Starts the thread. Nothing is connected before there is something to send.
    ///
    /// # Errors
    /// Where the system has no thread or file left to give.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        let queue = Arc::new(Queue::new(config.queue_bytes));
        let (closing, closes) = watch::channel(None);
        let attempts = BySignal::<Arc<Attempts>>::default();
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let workers: Vec<Worker> = Signal::ALL
            .into_iter()
            .filter_map(|signal| Some((signal, config.target(signal)?.clone())))
            .map(|(signal, target)| {
                let (queue, attempts) = (Arc::clone(&queue), Arc::clone(attempts.of(signal)));
                let retry = config.retry;
                Worker::new(signal, target, retry, queue, attempts, closes.clone())
            })
            .collect();
        let thread = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || send(runtime, workers, closes))?;
        let addressed = BySignal::each(|signal| config.target(signal).is_some());
        Ok(Self { queue, attempts, addressed, closing, thread })
    }

    /// Hands a request over, and never waits: where the queue is full the oldest requests are
    /// dropped, and counted. A request of a signal that is sent nowhere is not kept, nor is one
    /// without items.
    pub fn enqueue(&self, export: EncodedRequest) {
        if *self.addressed.of(export.signal()) && export.items() > 0 {
            self.queue.push(export);
        }
    }

    /// As [`Client::enqueue`], but waits for room first: for a source that is faster than any
    /// network, as a log is (the Collector's `block_on_overflow`). When the backend has taken
    /// nothing for as long as `patience`, the oldest requests are dropped, without another wait
    /// until it takes something again.
    pub fn enqueue_waiting(&self, export: EncodedRequest, patience: Duration) {
        if *self.addressed.of(export.signal()) {
            self.queue.wait_for_room(&export, patience);
            self.enqueue(export);
        }
    }

    /// A handle on the counts, for whoever reports them while the client runs.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { queue: Arc::clone(&self.queue), attempts: self.attempts.clone() }
    }

    /// Sends what it can within `grace`, stops, and says what became of everything. It ends early
    /// when all is sent, and where no signal's next attempt would be due in time.
    #[must_use]
    pub fn flush(self, grace: Duration) -> Outcome {
        let deadline = Instant::now() + grace.min(LONGEST_GRACE);
        self.closing.send_replace(Some(deadline));
        // A worker that panicked has left its requests in the count of those left.
        let _ = self.thread.join();
        self.queue.outcome()
    }
}

/// The counts of a client, while it runs and after.
#[derive(Clone, Debug)]
pub struct Stats {
    queue: Arc<Queue>,
    attempts: BySignal<Arc<Attempts>>,
}

impl Stats {
    /// The counts as they stand; they always add up.
    #[must_use]
    pub fn read(&self) -> Outcome {
        self.queue.outcome()
    }

    /// How long the attempts of a signal took that ended so.
    #[must_use]
    pub fn attempts(&self, signal: Signal, end: AttemptEnd) -> Counts {
        self.attempts.of(signal).counts(end)
    }
}

/// The thread: until the client closes and all is sent or its time is up, or until it is dropped.
fn send(runtime: Runtime, workers: Vec<Worker>, mut closes: watch::Receiver<Closing>) {
    runtime.block_on(async move {
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
    });
    // A name that is still being looked up must not hold up the end.
    runtime.shutdown_background();
}
