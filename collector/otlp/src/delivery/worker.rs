//! The sender of one signal: it takes the oldest request, sends it, and goes on when it is
//! answered. At most one is on its way, so that the order holds. It must not know what the
//! requests say, nor which transport carries them.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use phasemeter_meter::units::Nanos;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::attempts::Attempts;
use super::config::Target;
use super::queue::{Queue, Queued};
use super::response::ExportResponse;
use super::retry::{Backoff, Retry};
use super::transport::Transport;
use crate::signal::Signal;

/// When the client closes: not yet, or by this instant.
pub(super) type Closing = Option<Instant>;

/// One a signal, each a task.
pub(super) struct Worker {
    signal: Signal,
    target: Target,
    transport: Transport,
    queue: Arc<Queue>,
    attempts: Arc<Attempts>,
    backoff: Backoff,
    closing: watch::Receiver<Closing>,
    /// What of `closing` was seen.
    deadline: Closing,
    /// Whether the last attempt failed: only changes are logged.
    failing: bool,
}

impl Worker {
    pub(super) fn new(
        signal: Signal,
        target: Target,
        retry: Retry,
        queue: Arc<Queue>,
        attempts: Arc<Attempts>,
        closing: watch::Receiver<Closing>,
    ) -> Self {
        let transport = Transport::new(signal, &target);
        Self {
            signal,
            target,
            transport,
            queue,
            attempts,
            backoff: Backoff::new(retry),
            closing,
            deadline: None,
            failing: false,
        }
    }

    /// Sends until the client closes and nothing waits, or nothing can be sent in time.
    pub(super) async fn run(mut self) {
        while let Some(queued) = self.next().await {
            let started = Instant::now();
            let answer = self.attempt(&queued).await;
            self.log(&answer);
            self.attempts.count(&answer, Nanos::from(started.elapsed()));
            self.queue.settle(queued, &answer);
            match answer {
                ExportResponse::Accepted { .. } | ExportResponse::Refused { .. } => {
                    self.backoff.reset()
                }
                ExportResponse::Retry { after, .. } => {
                    if !self.pause(after).await {
                        return;
                    }
                }
            }
        }
    }

    /// The next request; none where the client closes and nothing waits.
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

    /// One attempt, as long as the time-out allows. After one that timed out the line is not
    /// trusted: the next attempt opens its own.
    async fn attempt(&mut self, queued: &Queued) -> ExportResponse {
        let body = queued.export.body().clone();
        match timeout(self.target.timeout, self.transport.send(body)).await {
            Ok(answer) => answer,
            Err(_) => {
                self.transport = Transport::new(self.signal, &self.target);
                let reason = format!("no answer within {:?}", self.target.timeout);
                ExportResponse::Retry { after: None, reason }
            }
        }
    }

    /// Waits before the next attempt; false where the client closes before it would be due. When
    /// the client begins to close, a wait of our own choice ends: the backend may be back, and now
    /// is the time to know. A wait that the backend asked for is kept.
    async fn pause(&mut self, asked: Option<Duration>) -> bool {
        let wait = asked.map_or_else(|| self.backoff.next(jitter()), Backoff::asked);
        let due = Instant::now() + wait;
        while self.deadline.is_none_or(|deadline| due < deadline) {
            tokio::select! {
                biased;
                Ok(()) = self.closing.changed() => {
                    self.deadline = *self.closing.borrow();
                    if asked.is_none() {
                        self.backoff.reset();
                        return true;
                    }
                }
                () = sleep_until(due) => return true,
            }
        }
        false
    }

    fn log(&mut self, answer: &ExportResponse) {
        let (signal, target) = (self.signal.name(), &self.target);
        match answer {
            ExportResponse::Accepted { rejected, message } => {
                if self.failing {
                    info!(signal, %target, "{signal}, {target}: OTLP is accepted again");
                }
                if *rejected > 0 || !message.is_empty() {
                    warn!(
                        signal, %target, rejected, reason = message,
                        "{signal}, {target}: OTLP was accepted, {rejected} items of it rejected: {message}"
                    );
                }
            }
            ExportResponse::Refused { reason } => {
                warn!(
                    signal, %target, reason,
                    "{signal}, {target}: OTLP was refused, and is dropped: {reason}"
                );
            }
            ExportResponse::Retry { reason, .. } if !self.failing => {
                warn!(
                    signal, %target, reason,
                    "{signal}, {target}: OTLP cannot be sent; it waits and is sent again: {reason}"
                );
            }
            ExportResponse::Retry { .. } => {}
        }
        self.failing = matches!(answer, ExportResponse::Retry { .. });
    }
}

/// A number that differs from process to process and from call to call: the standard library
/// seeds its hash maps with one.
fn jitter() -> u32 {
    let hash = RandomState::new().hash_one(());
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}
