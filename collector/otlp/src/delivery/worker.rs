//! A sender of one signal: it takes the oldest requests that may leave, sends them, and continues after the
//! response. The queue keeps order if there are several.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use phasemeter_meter::units::Nanos;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::attempt_log::AttemptLog;
use super::batch::Batch;
use super::flight::Flight;
use super::operations::{Attempt, OperationEnd, Operations};
use super::queue::Queue;
use super::response::ExportResponse;
use super::retry::{Backoff, Retry};
use super::transport::Transport;
use crate::signal::Signal;

/// The deadline once the client closes; `None` until then.
pub(super) type Closing = Option<Instant>;

/// One task, of those of a signal.
pub(super) struct Worker<T> {
    signal: Signal,
    /// Its number among them.
    number: usize,
    /// The time of one attempt.
    timeout: Duration,
    transport: T,
    shared: Shared,
    /// The request whose last attempt failed.
    operation: Option<Operation>,
    backoff: Backoff,
    closing: watch::Receiver<Closing>,
    /// The last observed value of `closing`.
    deadline: Closing,
    /// Whether an attempt began after the client had begun to close.
    tried_at_end: bool,
}

/// The attempts to export one request so far.
struct Operation {
    number: u64,
    started: Instant,
    /// To the end of the last attempt.
    took: Nanos,
    /// The end of the last attempt.
    end: OperationEnd,
}

/// What the workers of a signal share.
pub(super) struct Shared {
    pub(super) queue: Arc<Queue>,
    pub(super) operations: Arc<Operations>,
    pub(super) log: Arc<AttemptLog>,
}

impl<T: Transport> Worker<T> {
    pub(super) fn new(
        signal: Signal,
        number: usize,
        (transport, timeout): (T, Duration),
        retry: Retry,
        shared: Shared,
        closing: watch::Receiver<Closing>,
    ) -> Self {
        Self {
            signal,
            number,
            timeout,
            transport,
            shared,
            operation: None,
            backoff: Backoff::new(retry),
            closing,
            deadline: None,
            tried_at_end: false,
        }
    }

    /// Sends until the client closes and the queue is empty, or nothing can be sent in time.
    pub(super) async fn run(mut self) {
        while let Some(taken) = self.next().await {
            let Some((taken, body)) = self.shared.queue.body(taken) else { continue };
            let (number, started) = (taken.number(), self.begin(taken.number()));
            let flight = Flight::new(&self.shared.queue, taken);
            let Attempt { response, end } = self.attempt(body).await;
            let Some(taken) = flight.land() else { continue };
            let took = Nanos::from(started.elapsed());
            if taken.is_batch() && response.is_rejection() {
                // One of them may be what the backend rejects.
                self.shared.queue.divide(taken);
                continue;
            }
            self.shared.log.log(&response, &end);
            self.operation = Some(Operation { number, started, took, end });
            self.shared.queue.complete(taken, self.number, &response);
            match response {
                ExportResponse::Accepted { .. }
                | ExportResponse::Rejected { .. }
                | ExportResponse::Unreadable { .. } => {
                    self.conclude();
                    self.backoff.reset();
                }
                ExportResponse::Retry { after, .. } => {
                    if !self.pause(after).await {
                        break;
                    }
                }
            }
        }
        self.shared.log.conclude();
    }

    /// When the first attempt to export this request started. If another request failed before, it
    /// has been dropped, and its last attempt was the final one.
    fn begin(&mut self, number: u64) -> Instant {
        match &self.operation {
            Some(operation) if operation.number == number => operation.started,
            _ => {
                self.conclude();
                Instant::now()
            }
        }
    }

    /// The next requests; `None` once the client closes and there are none for this worker.
    async fn next(&mut self) -> Option<Batch> {
        loop {
            self.deadline = *self.closing.borrow_and_update();
            if let Some(due) = self.shared.queue.due(self.signal) {
                self.wait_until(due).await;
            }
            match self.deadline {
                None => self.shared.queue.store(),
                Some(_) => self.shared.queue.store_all(),
            }
            if let Some(taken) = self.shared.queue.take(self.signal, self.number) {
                self.tried_at_end = self.deadline.is_some();
                return Some(taken);
            }
            if self.deadline.is_some() {
                return None;
            }
            tokio::select! {
                biased;
                Ok(()) = self.closing.changed() => {}
                () = self.shared.queue.arrived(self.signal) => {}
            }
        }
    }

    /// Waits until an instant, or until the client begins to close.
    async fn wait_until(&mut self, due: Instant) {
        if self.deadline.is_none() && Instant::now() < due {
            tokio::select! {
                biased;
                Ok(()) = self.closing.changed() => self.deadline = *self.closing.borrow(),
                () = sleep_until(due) => {}
            }
        }
    }

    /// Makes one attempt within the timeout. After it, the next attempt uses a new connection.
    async fn attempt(&mut self, body: Bytes) -> Attempt {
        match timeout(self.timeout, self.transport.send(body)).await {
            Ok(attempt) => attempt,
            Err(_) => {
                self.transport.reset();
                let reason = format!("no answer within {:?}", self.timeout);
                let response = ExportResponse::Retry { after: None, reason };
                Attempt::unanswered(response, "timeout")
            }
        }
    }

    /// Waits before the next attempt; returns false if the client closes before it is due. When the
    /// client begins to close, any delay ends: the backend may have recovered, and there is no later
    /// attempt. From then on, delays are kept.
    async fn pause(&mut self, requested: Option<Duration>) -> bool {
        let jitter = self.transport.jitter();
        let wait = match requested {
            None => self.backoff.next(jitter),
            Some(after) => {
                self.backoff.requested(after, self.shared.queue.time_until_full(), jitter)
            }
        };
        let due = Instant::now() + wait;
        self.deadline = *self.closing.borrow_and_update();
        self.wait_until(due).await;
        if self.deadline.is_some() && !self.tried_at_end {
            self.backoff.reset();
            return true;
        }
        match self.deadline {
            Some(deadline) if deadline <= due => return false,
            Some(_) => sleep_until(due).await,
            None => {}
        }
        true
    }
}

impl<T> Worker<T> {
    /// Records the operation, whose last attempt was the final one.
    fn conclude(&mut self) {
        if let Some(Operation { took, end, .. }) = self.operation.take() {
            self.shared.operations.record(end, took);
        }
    }
}

/// A worker that is not waited for ends here.
impl<T> Drop for Worker<T> {
    fn drop(&mut self) {
        self.conclude();
    }
}
