//! The sender of one signal: it takes the oldest request, sends it, and continues after the
//! response. At most one request is in flight, which preserves order. Must not depend on the
//! contents of requests, or on the transport.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use phasemeter_meter::units::Nanos;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::config::Target;
use super::operations::{Attempt, OperationEnd, Operations};
use super::queue::{Queue, Queued};
use super::response::ExportResponse;
use super::retry::{Backoff, Retry};
use super::transport::Transport;
use crate::signal::Signal;

/// The deadline once the client closes; `None` until then.
pub(super) type Closing = Option<Instant>;

/// One task per signal.
pub(super) struct Worker {
    signal: Signal,
    target: Target,
    transport: Transport,
    queue: Arc<Queue>,
    operations: Arc<Operations>,
    /// The request whose last attempt failed.
    operation: Option<Operation>,
    backoff: Backoff,
    closing: watch::Receiver<Closing>,
    /// The last observed value of `closing`.
    deadline: Closing,
    /// Whether the last attempt failed: only changes are logged.
    failing: bool,
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

impl Worker {
    pub(super) fn new(
        signal: Signal,
        target: Target,
        retry: Retry,
        queue: Arc<Queue>,
        operations: Arc<Operations>,
        closing: watch::Receiver<Closing>,
    ) -> Self {
        let transport = Transport::new(signal, &target);
        Self {
            signal,
            target,
            transport,
            queue,
            operations,
            operation: None,
            backoff: Backoff::new(retry),
            closing,
            deadline: None,
            failing: false,
        }
    }

    /// Sends until the client closes and the queue is empty, or nothing can be sent in time.
    pub(super) async fn run(mut self) {
        while let Some(queued) = self.next().await {
            let (number, started) = (queued.number, self.begin(queued.number));
            let Attempt { response, end } = self.attempt(&queued).await;
            self.log(&response);
            let took = Nanos::from(started.elapsed());
            self.operation = Some(Operation { number, started, took, end });
            self.queue.complete(queued, &response);
            match response {
                ExportResponse::Accepted { .. } | ExportResponse::Rejected { .. } => {
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
        self.conclude();
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

    /// Records the operation, whose last attempt was the final one.
    fn conclude(&mut self) {
        if let Some(Operation { took, end, .. }) = self.operation.take() {
            self.operations.record(end, took);
        }
    }

    /// The next request; `None` once the client closes and the queue is empty.
    async fn next(&mut self) -> Option<Queued> {
        loop {
            self.deadline = *self.closing.borrow_and_update();
            if let Some(queued) = self.queue.take(self.signal) {
                return Some(queued);
            }
            if self.deadline.is_some() {
                return None;
            }
            tokio::select! {
                () = self.queue.arrived(self.signal) => {}
                Ok(()) = self.closing.changed() => {}
            }
        }
    }

    /// Makes one attempt within the timeout. After a timeout, the next attempt uses a new
    /// connection.
    async fn attempt(&mut self, queued: &Queued) -> Attempt {
        let body = queued.request.body().clone();
        match timeout(self.target.timeout, self.transport.send(body)).await {
            Ok(attempt) => attempt,
            Err(_) => {
                self.transport = Transport::new(self.signal, &self.target);
                let reason = format!("no answer within {:?}", self.target.timeout);
                let response = ExportResponse::Retry { after: None, reason };
                Attempt::unanswered(response, "timeout")
            }
        }
    }

    /// Waits before the next attempt; returns false if the client closes before it is due. When the
    /// client begins to close, our own back-off ends, since the backend may have recovered; a delay
    /// that the backend asked for is kept.
    async fn pause(&mut self, requested: Option<Duration>) -> bool {
        let wait = requested.map_or_else(|| self.backoff.next(jitter()), Backoff::requested);
        let due = Instant::now() + wait;
        while self.deadline.is_none_or(|deadline| due < deadline) {
            tokio::select! {
                biased;
                Ok(()) = self.closing.changed() => {
                    self.deadline = *self.closing.borrow();
                    if requested.is_none() {
                        self.backoff.reset();
                        return true;
                    }
                }
                () = sleep_until(due) => return true,
            }
        }
        false
    }

    fn log(&mut self, response: &ExportResponse) {
        let (signal, target) = (self.signal.name(), &self.target);
        match response {
            ExportResponse::Accepted { rejected, message } => {
                if self.failing {
                    info!(signal, %target, "{signal}, {target}: export recovered");
                }
                if *rejected > 0 || !message.is_empty() {
                    warn!(
                        signal, %target, rejected, reason = message,
                        "{signal}, {target}: {rejected} items rejected: {message}"
                    );
                }
            }
            ExportResponse::Rejected { reason } => {
                warn!(
                    signal, %target, reason,
                    "{signal}, {target}: export rejected, data dropped: {reason}"
                );
            }
            ExportResponse::Retry { reason, .. } if !self.failing => {
                warn!(
                    signal, %target, reason,
                    "{signal}, {target}: export failed, will retry: {reason}"
                );
            }
            ExportResponse::Retry { .. } => {}
        }
        self.failing = matches!(response, ExportResponse::Retry { .. });
    }
}

/// A number that differs between processes and calls: the standard library seeds its hash maps with
/// one.
fn jitter() -> u32 {
    let hash = RandomState::new().hash_one(());
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}
