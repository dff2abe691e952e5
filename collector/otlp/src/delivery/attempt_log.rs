//! Logs how attempts of a signal end: changes and rejections, by kind a limited number of times.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use tracing::{info, warn};

use super::config::Target;
use super::operations::OperationEnd;
use super::response::ExportResponse;
use crate::log_limiter::LogLimiter;
use crate::signal::Signal;

/// What was logged of a signal.
#[derive(Debug)]
pub(super) struct AttemptLog {
    signal: Signal,
    target: Target,
    logged: Mutex<Logged>,
}

#[derive(Debug, Default)]
struct Logged {
    /// Whether the last attempt failed: only changes are logged.
    failing: bool,
    /// By the end of the attempt.
    kinds: LogLimiter<OperationEnd>,
    /// Whether a response that is not one of OTLP was logged.
    unreadable: bool,
}

impl AttemptLog {
    /// Nothing was logged yet.
    pub(super) fn new(signal: Signal, target: Target) -> Self {
        Self { signal, target, logged: Mutex::default() }
    }

    /// Logs the end of an attempt, if it is worth it.
    pub(super) fn log(&self, response: &ExportResponse, end: &OperationEnd) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let is_retry = matches!(response, ExportResponse::Retry { .. });
        let was_failing = std::mem::replace(&mut logged.failing, is_retry);
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
                if std::mem::replace(&mut logged.unreadable, true) {
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
        let Some(suppressed) = logged.kinds.permit(end.clone(), Instant::now()) else {
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

    /// Logs how many messages were not logged, at the end.
    pub(super) fn conclude(&self) {
        let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
        let (signal, suppressed) = (self.signal.name(), logged.kinds.suppressed());
        *logged = Logged::default();
        if suppressed > 0 {
            info!(
                signal,
                suppressed, "{signal}: {suppressed} more messages of the same kinds suppressed"
            );
        }
    }
}
