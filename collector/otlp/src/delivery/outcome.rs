//! Delivery outcomes: at every moment, all enqueued data is counted as sent, rejected, dropped or
//! unsent. What became of a single request is its [`RequestOutcome`].

use std::ops::{AddAssign, SubAssign};
use std::sync::{Arc, OnceLock};

use super::response::ExportResponse;
use crate::request::EncodedRequest;
use crate::signal::BySignal;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The backend has all of it: its response is a well-formed success of OTLP without a rejected
    /// item.
    Accepted,
    /// The backend rejected it or items of it, or its response is a success, but not one of OTLP.
    Refused,
    /// It was dropped as the oldest when the queue was full, or lost on disk. Its last attempt, if there was
    /// one, had no response.
    Dropped,
}

impl RequestOutcome {
    /// The outcome of a response; `None` if the request will be sent again.
    pub(super) const fn of(response: &ExportResponse) -> Option<Self> {
        match response {
            ExportResponse::Accepted { rejected: 0, .. } => Some(Self::Accepted),
            ExportResponse::Accepted { .. }
            | ExportResponse::Rejected { .. }
            | ExportResponse::Unreadable { .. } => Some(Self::Refused),
            ExportResponse::Retry { .. } => None,
        }
    }
}

/// What is known of one request that was queued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Receipt(Arc<Known>);

#[derive(Debug, Default, PartialEq, Eq)]
struct Known {
    is_stored: OnceLock<()>,
    outcome: OnceLock<RequestOutcome>,
}

impl Receipt {
    /// The outcome; `None` while the request waits or has no response.
    #[must_use]
    pub fn outcome(&self) -> Option<RequestOutcome> {
        self.0.outcome.get().copied()
    }

    /// Whether it was stored: if this process ends before there is an outcome, another one sends it.
    #[must_use]
    pub fn is_stored(&self) -> bool {
        self.0.is_stored.get().is_some()
    }

    pub(super) fn set_stored(&self) {
        let _ = self.0.is_stored.set(());
    }

    /// The first outcome is the last one.
    pub(super) fn set(&self, outcome: RequestOutcome) {
        let _ = self.0.outcome.set(outcome);
    }
}

/// The outcome of each signal.
pub type Outcome = BySignal<DeliveryCounts>;

/// The outcome of one signal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Accepted by the backend, without the items in `partially_rejected`.
    pub sent: Count,
    /// Items that the backend rejected from accepted requests. The protocol forbids sending them
    /// again.
    pub partially_rejected: u64,
    /// Rejected for good, for example because of a wrong token or path, or answered by a success that
    /// is not one of OTLP.
    pub rejected: Count,
    /// Dropped as the oldest when the queue, in memory or on disk, was full.
    pub dropped: Count,
    /// Dropped from the disk because they were too old.
    pub expired: Count,
    /// Stored, but lost: their bytes on disk are missing or damaged.
    pub unreadable: Count,
    /// Waiting, or sent without a response yet. After the last flush, their arrival is unknown.
    pub unsent: Count,
    /// Those of `unsent` that are on disk: a later run sends them.
    pub kept: Count,
    /// Failed attempts that were or will be repeated.
    pub failed_attempts: u64,
    /// The last error, in the backend's words if it sent any. It is kept after recovery.
    pub last_error: Option<String>,
}

/// A number of requests, of the spans, data points or log records in them, and of encoded bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// Spans, data points or log records.
    pub items: u64,
    /// Bytes before compression.
    pub bytes: u64,
}

impl DeliveryCounts {
    /// What no backend has accepted.
    #[must_use]
    pub const fn lost(&self) -> [Count; 5] {
        [self.rejected, self.dropped, self.expired, self.unreadable, self.unsent]
    }
}

impl Outcome {
    /// Whether everything enqueued was accepted.
    #[must_use]
    pub fn all_sent(&self) -> bool {
        self.iter().all(|(_, counts)| {
            counts.partially_rejected == 0 && counts.lost().iter().all(|count| count.requests == 0)
        })
    }

    /// Requests of all signals that are queued or have no response yet.
    #[must_use]
    pub fn queued(&self) -> Count {
        self.iter().fold(Count::default(), |mut sum, (_, counts)| {
            sum += counts.unsent;
            sum
        })
    }
}

impl Count {
    /// The counts of one request.
    pub(super) const fn of(request: &EncodedRequest) -> Self {
        Self { requests: 1, items: request.items(), bytes: request.body().len() as u64 }
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.items = self.items.saturating_add(other.items);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl SubAssign for Count {
    fn sub_assign(&mut self, other: Self) {
        self.requests = self.requests.saturating_sub(other.requests);
        self.items = self.items.saturating_sub(other.items);
        self.bytes = self.bytes.saturating_sub(other.bytes);
    }
}
