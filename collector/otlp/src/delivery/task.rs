//! Delivery as a task: the queue, and the workers of each signal, over any transport.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use super::attempt_log::AttemptLog;
use super::config::{Config, Target};
use super::losses::Losses;
use super::operations::Operations;
use super::queue::Queue;
use super::sender::{RequestSender, Stats};
use super::storage::Storage;
use super::transport::Transport;
use super::worker::{Closing, Shared, Worker};
use crate::signal::{BySignal, Signal};

/// Maximum grace period; it always fits the clock.
const LONGEST_GRACE: Duration = Duration::from_secs(24 * 3600);

/// How often the storage may note on disk what was accepted, if nothing else arrives.
const STORAGE_STEP: Duration = Duration::from_secs(1);

/// Sends what is queued. It does nothing before it [runs](Self::run).
pub struct Delivery<T> {
    queue: Arc<Queue>,
    workers: Vec<Worker<T>>,
    closes: watch::Receiver<Closing>,
}

/// What queues requests of a delivery, counts them, and ends it. If dropped, the delivery stops at once.
#[derive(Debug)]
pub struct DeliveryHandle {
    pub(super) sender: RequestSender,
    operations: BySignal<Arc<Operations>>,
    /// For each worker, and for all: so that the order in which they learn of it is always the same.
    closing: Vec<watch::Sender<Closing>>,
}

impl<T: Transport> Delivery<T> {
    /// Delivers to the targets of a configuration. With a storage, requests are stored before they are sent, and what
    /// earlier runs have left is sent first. `connect`: the transport of a worker.
    pub fn new(
        config: &Config,
        storage: Option<Storage>,
        mut connect: impl FnMut(Signal, &Target) -> T,
    ) -> (Self, DeliveryHandle) {
        let queue = Arc::new(Queue::new(config.queue_bytes, config.batching, storage));
        let operations = BySignal::<Arc<Operations>>::default();
        let (closing, closes) = watch::channel(None);
        let (mut closing, mut workers) = (vec![closing], Vec::new());
        for signal in Signal::ALL {
            let Some(target) = config.target(signal) else { continue };
            let log = Arc::new(AttemptLog::new(signal, target.clone()));
            for number in 0..config.batching.consumers.max(1) {
                let shared = Shared {
                    queue: Arc::clone(&queue),
                    operations: Arc::clone(operations.of(signal)),
                    log: Arc::clone(&log),
                };
                let (sender, closes) = watch::channel(None);
                closing.push(sender);
                let transport = (connect(signal, target), target.timeout);
                let worker = Worker::new(signal, number, transport, config.retry, shared, closes);
                workers.push(worker);
            }
        }
        let addressed = BySignal::each(|signal| config.target(signal).is_some());
        let name = |signal| config.target(signal).map(ToString::to_string).unwrap_or_default();
        let losses = Arc::new(Losses::new(BySignal::each(name)));
        let sender = RequestSender { queue: Arc::clone(&queue), addressed, losses };
        (Self { queue, workers, closes }, DeliveryHandle { sender, operations, closing })
    }

    /// Runs until it is closed and everything is sent or its time is up, or until its handle is dropped.
    pub async fn run(mut self) {
        // It ends with the workers.
        let mut storing = JoinSet::new();
        if self.queue.has_storage() {
            storing.spawn(store(Arc::clone(&self.queue)));
        }
        let mut tasks = JoinSet::new();
        for worker in self.workers {
            tasks.spawn(worker.run());
        }
        let deadline = match self.closes.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(deadline)) => Some(*deadline),
            _ => None,
        };
        if let Some(deadline) = deadline {
            let finished = async { while tasks.join_next().await.is_some() {} };
            let _ = timeout_at(deadline, finished).await;
        }
        // What is in flight waits again, so that it can be stored.
        tasks.shutdown().await;
        storing.abort_all();
        self.queue.close();
    }
}

impl DeliveryHandle {
    /// What queues requests.
    #[must_use]
    pub fn sender(&self) -> RequestSender {
        self.sender.clone()
    }

    /// The counts.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { queue: Arc::clone(&self.sender.queue), operations: self.operations.clone() }
    }

    /// Lets the delivery send what it can within `grace`, and stop. Returns the end of the grace period.
    pub fn close(&self, grace: Duration) -> Instant {
        let deadline = Instant::now() + grace.min(LONGEST_GRACE);
        for closing in &self.closing {
            closing.send_replace(Some(deadline));
        }
        deadline
    }
}

/// Stores what arrives, even while workers wait for a backend.
async fn store(queue: Arc<Queue>) {
    loop {
        // Elapsed time is a reason, too.
        let _ = timeout(STORAGE_STEP, queue.to_store()).await;
        queue.store();
    }
}
