//! Requests that were lost, by stream and reason.

use crate::stream::Stream;

/// Why a request was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It was among the oldest when the outbox was full.
    Full,
    /// It was older than the limit.
    Expired,
    /// Its bytes on disk are missing or damaged.
    Unreadable,
}

impl Reason {
    /// All of them, in the order of the format.
    pub const ALL: [Self; 3] = [Self::Full, Self::Expired, Self::Unreadable];

    /// Its name in messages and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Expired => "expired",
            Self::Unreadable => "unreadable",
        }
    }
}

/// A request that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its stream.
    pub stream: Stream,
    /// Its sequence number.
    pub sequence: u64,
    /// The items in it.
    pub items: u64,
    /// Why.
    pub reason: Reason,
}

/// Numbers of requests that were lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses([[u64; Reason::ALL.len()]; Stream::COUNT]);

impl Losses {
    /// Of one stream, for one reason.
    #[must_use]
    pub fn of(&self, stream: Stream, reason: Reason) -> u64 {
        self.0[stream.index()][reason as usize]
    }

    /// Of one stream.
    #[must_use]
    pub fn of_stream(&self, stream: Stream) -> u64 {
        self.0[stream.index()].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        Stream::ALL.iter().fold(0, |sum, stream| sum.saturating_add(self.of_stream(*stream)))
    }

    pub(crate) fn add(&mut self, stream: Stream, reason: Reason, requests: u64) {
        let count = &mut self.0[stream.index()][reason as usize];
        *count = count.saturating_add(requests);
    }
}
