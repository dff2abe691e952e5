//! What became of the data, counted so that nothing is lost in silence: at every moment, all that
//! was enqueued is sent, rejected, refused, dropped or left.

use std::ops::{AddAssign, SubAssign};

use crate::request::EncodedRequest;
use crate::signal::BySignal;

/// What became of the data of each signal.
pub type Outcome = BySignal<DeliveryCounts>;

/// What became of one signal's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeliveryCounts {
    /// Accepted by the backend. Its items do not count those in `partially_rejected`.
    pub sent: Count,
    /// Items that the backend rejected out of requests that it accepted. They are not sent again:
    /// the protocol forbids it.
    pub partially_rejected: u64,
    /// Refused for good, as with a wrong token or path: sending it again would not help.
    pub refused: Count,
    /// Dropped because the queue was full and these were the oldest.
    pub dropped: Count,
    /// Waiting, or sent and not yet answered. After the last flush: never known to have arrived.
    pub unsent: Count,
    /// Attempts that failed and were, or will be, made again.
    pub failed_attempts: u64,
    /// The last thing that went wrong, in the backend's words where it had any. It stays when all
    /// is well again.
    pub last_error: Option<String>,
}

/// A number of requests, of spans, data points or log records in them, and of encoded bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Requests.
    pub requests: u64,
    /// Spans, data points or log records.
    pub items: u64,
    /// Bytes before compression.
    pub bytes: u64,
}

impl Outcome {
    /// Whether all that was enqueued has arrived.
    #[must_use]
    pub fn all_sent(&self) -> bool {
        self.iter().all(|(_, account)| {
            let lost = [account.refused, account.dropped, account.unsent];
            account.partially_rejected == 0 && lost.iter().all(|count| count.requests == 0)
        })
    }

    /// Requests that wait or are not yet answered, of all signals: what the queue holds.
    #[must_use]
    pub fn queued(&self) -> Count {
        self.iter().fold(Count::default(), |mut sum, (_, account)| {
            sum += account.unsent;
            sum
        })
    }
}

impl Count {
    /// One request.
    pub(super) const fn of(export: &EncodedRequest) -> Self {
        Self { requests: 1, items: export.items(), bytes: export.body().len() as u64 }
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
