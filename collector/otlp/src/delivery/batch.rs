//! Requests that wait, and those that leave as one.
//!
//! Encoded requests of a signal are a sequence of elements, so one with the elements of several is their bytes, one
//! after another.

use bytes::Bytes;
use tokio::time::Instant;

use super::outcome::{Count, Receipt, RequestOutcome};
use super::storage::Location;
use crate::signal::Signal;

/// Where the bytes of a request are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// In memory: it leaves from there.
    Memory(Bytes),
    /// In memory until it is stored: it does not leave before.
    Unstored(Bytes),
    /// In memory, since the disk has failed: it leaves from there, or is stored once the disk works again.
    Refused(Bytes),
    /// On disk.
    Stored(Location),
}

impl Body {
    /// Bytes that it takes in memory.
    pub(super) const fn memory(&self) -> u64 {
        match self {
            Self::Memory(bytes) | Self::Unstored(bytes) | Self::Refused(bytes) => {
                bytes.len() as u64
            }
            Self::Stored(_) => 0,
        }
    }

    /// The bytes that are to be stored.
    pub(super) const fn to_store(&self) -> Option<&Bytes> {
        match self {
            Self::Unstored(bytes) | Self::Refused(bytes) => Some(bytes),
            Self::Memory(_) | Self::Stored(_) => None,
        }
    }
}

/// A request with its sequence number.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Queued {
    pub(super) number: u64,
    pub(super) signal: Signal,
    pub(super) count: Count,
    pub(super) body: Body,
    /// What is stored with it.
    pub(super) note: Bytes,
    /// Hashes of its resources, whose data stays in order.
    pub(super) resources: Vec<u64>,
    pub(super) arrived: Instant,
    pub(super) receipt: Receipt,
    /// Whether it leaves with no other: it was rejected with others, or an earlier run has stored it.
    pub(super) is_alone: bool,
}

/// Requests of one signal that leave as one, at least one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    first: Queued,
    rest: Vec<Queued>,
}

impl Batch {
    /// `None` if there are none.
    pub(super) fn new(parts: Vec<Queued>) -> Option<Self> {
        let mut parts = parts.into_iter();
        Some(Self { first: parts.next()?, rest: parts.collect() })
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = &Queued> {
        std::iter::once(&self.first).chain(&self.rest)
    }

    pub(super) fn into_parts(self) -> impl Iterator<Item = Queued> {
        std::iter::once(self.first).chain(self.rest)
    }

    /// The number of the oldest.
    pub(super) const fn number(&self) -> u64 {
        self.first.number
    }

    pub(super) const fn signal(&self) -> Signal {
        self.first.signal
    }

    /// Whether they are several.
    pub(super) fn is_batch(&self) -> bool {
        !self.rest.is_empty()
    }

    /// Their resources.
    pub(super) fn resources(&self) -> impl Iterator<Item = u64> {
        self.parts().flat_map(|part| part.resources.iter().copied())
    }

    /// All of them together.
    pub(super) fn count(&self) -> Count {
        let mut sum = Count::default();
        self.parts().for_each(|part| sum += part.count);
        sum
    }

    /// From now on each of them leaves alone.
    pub(super) fn divide(&mut self) {
        self.first.is_alone = true;
        self.rest.iter_mut().for_each(|part| part.is_alone = true);
    }

    /// Reports the outcome of all.
    pub(super) fn set_outcome(&self, outcome: RequestOutcome) {
        self.parts().for_each(|part| part.receipt.set(outcome));
    }
}
