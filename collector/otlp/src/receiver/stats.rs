//! Counts of what the receiver accepted and rejected.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::RequestError;
use super::inspect::Rejected;
use crate::signal::Signal;

/// Counts of requests.
#[derive(Debug, Default)]
pub struct ReceiverStats {
    accepted: AtomicU64,
    postponed: AtomicU64,
    rejected: AtomicU64,
    malformed_elements: AtomicU64,
}

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
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ReceiverCounts {
            accepted: read(&self.accepted),
            postponed: read(&self.postponed),
            rejected: read(&self.rejected),
            malformed_elements: read(&self.malformed_elements),
        }
    }

    pub(super) fn count(&self, outcome: &Result<(Signal, Option<Rejected>), RequestError>) {
        let count = match outcome {
            Ok((_, rejected)) => {
                let elements = rejected.as_ref().map_or(0, |rejected| rejected.elements);
                self.malformed_elements.fetch_add(elements, Ordering::Relaxed);
                &self.accepted
            }
            Err(error) if error.is_retryable() => &self.postponed,
            Err(_) => &self.rejected,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
