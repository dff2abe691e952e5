//! The sender of one signal: it takes the oldest request, sends it, and continues after the
//! response. At most one request is in flight, which preserves order. Must not depend on the
//! contents of requests, or on the transport.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use phasemeter_meter::units::Nanos;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_rustls::rustls::ClientConfig;
use tracing::{info, warn};

use super::config::{Target, Tls};
use super::operations::{Attempt, OperationEnd, Operations};
use super::queue::{Queue, Queued};
use super::response::ExportResponse;
use super::retry::{Backoff, Retry};
use super::transport::Transport;
use crate::log_limiter::LogLimiter;
use crate::signal::Signal;

/// The deadline once the client closes; `None` until then.
pub(super) type Closing = Option<Instant>;

/// One task per signal.
pub(super) struct Worker {
    signal: Signal,
    target: Target,
    /// The certificates of `transport`.
    certificates: Option<Arc<ClientConfig>>,
    transport: Transport,
    queue: Arc<Queue>,
    operations: Arc<Operations>,
    /// The request whose last attempt failed.
    operation: Option<Operation>,
    backoff: Backoff,
    closing: watch::Receiver<Closing>,
    /// The last observed value of `closing`.
    deadline: Closing,
    /// Whether an attempt began after the client had begun to close.
    tried_at_end: bool,
    /// Whether the last attempt failed: only changes are logged.
    failing: bool,
    /// What was logged, by the end of its attempt.
    logged: LogLimiter<OperationEnd>,
    /// Whether a response that is not one of OTLP was logged.
    unreadable_logged: bool,
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
        let certificates = target.tls.as_ref().map(Tls::current);
        Self {
            signal,
            target,
            certificates,
            transport,
            queue,
            operations,
            operation: None,
            backoff: Backoff::new(retry),
            closing,
            deadline: None,
            tried_at_end: false,
            failing: false,
            logged: LogLimiter::default(),
            unreadable_logged: false,
        }
    }

    /// Sends until the client closes and the queue is empty, or nothing can be sent in time.
    pub(super) async fn run(mut self) {
        while let Some(queued) = self.next().await {
            let (number, started) = (queued.number, self.begin(queued.number));
            let Attempt { response, end } = self.attempt(&queued).await;
            self.log(&response, &end);
            let took = Nanos::from(started.elapsed());
            self.operation = Some(Operation { number, started, took, end });
            self.queue.complete(queued, &response);
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
        self.conclude();
        let (signal, suppressed) = (self.signal.name(), self.logged.suppressed());
        if suppressed > 0 {
            info!(
                signal,
                suppressed, "{signal}: {suppressed} more messages of the same kinds suppressed"
            );
        }
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
                self.wait_until(self.queue.due(&queued)).await;
                self.tried_at_end = self.deadline.is_some();
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

    /// Waits until an instant, or until the client begins to close.
    async fn wait_until(&mut self, due: Instant) {
        if self.deadline.is_none() && Instant::now() < due {
            tokio::select! {
                Ok(()) = self.closing.changed() => self.deadline = *self.closing.borrow(),
                () = sleep_until(due) => {}
            }
        }
    }

    /// Makes one attempt within the timeout. After a timeout, or with new certificates, the next attempt
    /// uses a new connection.
    async fn attempt(&mut self, queued: &Queued) -> Attempt {
        let certificates = self.target.tls.as_ref().map(Tls::current);
        let is_current = |(new, used): (&Arc<_>, &Arc<_>)| Arc::ptr_eq(new, used);
        if !certificates.as_ref().zip(self.certificates.as_ref()).is_none_or(is_current) {
            self.transport = Transport::new(self.signal, &self.target);
        }
        self.certificates = certificates;
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
    /// client begins to close, any delay ends: the backend may have recovered, and there is no later
    /// attempt. From then on, delays are kept.
    async fn pause(&mut self, requested: Option<Duration>) -> bool {
        let wait = match requested {
            None => self.backoff.next(jitter()),
            Some(after) => self.backoff.requested(after, self.queue.time_until_full(), jitter()),
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

    /// Logs changes and rejections, by kind a limited number of times.
    fn log(&mut self, response: &ExportResponse, end: &OperationEnd) {
        let is_retry = matches!(response, ExportResponse::Retry { .. });
        let was_failing = std::mem::replace(&mut self.failing, is_retry);
        let (text, reason) = match response {
            ExportResponse::Accepted { rejected: 0, message } if message.is_empty() => {
                if !was_failing {
                    return;
                }
                ("export recovered".to_owned(), None)
            }
            ExportResponse::Accepted { rejected, message } => {
                (format!("{rejected} items rejected: {message}"), Some(message))
            }
            ExportResponse::Rejected { reason } => {
                (format!("export rejected, data dropped: {reason}"), Some(reason))
            }
            ExportResponse::Unreadable { reason } => {
                if std::mem::replace(&mut self.unreadable_logged, true) {
                    return;
                }
                let text = "not a backend of OTLP, data may be lost";
                (format!("{text}: {reason}; check the endpoint"), Some(reason))
            }
            ExportResponse::Retry { .. } if was_failing => return,
            ExportResponse::Retry { reason, .. } => {
                (format!("export failed, will retry: {reason}"), Some(reason))
            }
        };
        let Some(suppressed) = self.logged.permit(end.clone(), Instant::now().into_std()) else {
            return;
        };
        let more = match suppressed {
            0 => String::new(),
            more => format!(" ({more} messages of this kind suppressed)"),
        };
        let (signal, target) = (self.signal.name(), &self.target);
        match reason {
            None => info!(signal, %target, "{signal}, {target}: {text}{more}"),
            Some(reason) => warn!(signal, %target, reason, "{signal}, {target}: {text}{more}"),
        }
    }
}

/// A number that differs between processes and calls: the standard library seeds its hash maps with
/// one.
fn jitter() -> u32 {
    let hash = RandomState::new().hash_one(());
    u32::try_from(hash >> 32).unwrap_or(u32::MAX)
}
