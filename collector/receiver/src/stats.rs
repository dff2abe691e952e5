//! Counts of what the receiver accepted and rejected.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::RequestError;
use super::inspect::Rejected;
use phasemeter_otlp::Signal;

/// Counts of requests.
#[derive(Debug, Default)]
pub struct ReceiverStats(Mutex<ReceiverCounts>);

/// The counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounts {
    /// Requests that were accepted, at least in part.
    pub accepted: u64,
    /// Requests that the client was asked to send again: there was no capacity.
    pub postponed: u64,
    /// Requests that were rejected for good.
    pub rejected: u64,
    /// Malformed elements of accepted requests.
    pub malformed_elements: u64,
}

impl ReceiverStats {
    /// The current counts.
    #[must_use]
    pub fn read(&self) -> ReceiverCounts {
        *self.lock()
    }

    pub(super) fn count(&self, outcome: &Result<(Signal, Option<Rejected>), RequestError>) {
        let mut counts = self.lock();
        match outcome {
            Ok((_, rejected)) => {
                counts.accepted += 1;
                counts.malformed_elements += rejected.as_ref().map_or(0, |it| it.elements);
            }
            Err(error) if error.is_retryable() => counts.postponed += 1,
            Err(_) => counts.rejected += 1,
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReceiverCounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
