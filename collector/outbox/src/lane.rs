//! One stream of an outbox: its segments, and what of them is not settled.

use std::collections::{BTreeMap, VecDeque};

use crate::head::Mark;
use crate::losses::Reason;
use crate::place::Place;
use crate::segment::Segment;

/// The state of one stream.
#[derive(Debug)]
pub(crate) struct Lane {
    /// By age. The last one may be open.
    pub(crate) segments: VecDeque<Segment>,
    /// What is not settled, by sequence number.
    pub(crate) pending: BTreeMap<u64, Place>,
    /// The next sequence number. None is given twice.
    pub(crate) next: u64,
    /// The last sequence number that is durable.
    pub(crate) committed: u64,
    /// What is missing up to this number was counted.
    pub(crate) counted: u64,
    /// Whether the last segment takes more records.
    pub(crate) is_open: bool,
    /// The first number that was written since the last commit.
    pub(crate) written: Option<u64>,
}

impl Lane {
    /// All requests before this number are settled.
    pub(crate) fn head(&self) -> u64 {
        self.pending.first_key_value().map_or(self.next, |(sequence, _)| *sequence)
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark { head: self.head(), committed: self.committed, counted: self.counted }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// The first number of the open segment.
    pub(crate) fn open_segment(&self) -> Option<u64> {
        self.segments.back().filter(|_| self.is_open).map(|segment| segment.first)
    }

    /// Whether a record of this size belongs into the open segment.
    pub(crate) fn takes(&self, bytes: u64, segment_bytes: u64) -> bool {
        let open = self.segments.back().filter(|_| self.is_open);
        open.is_some_and(|open| {
            open.last < open.first || open.bytes.saturating_add(bytes) <= segment_bytes
        })
    }

    /// What is written is durable.
    pub(crate) fn commit(&mut self) {
        if self.written.take().is_some() {
            self.committed = self.next.saturating_sub(1);
        }
    }

    /// Gives up what was written since the last commit, and the segment that it is in. Its numbers are
    /// not given again: it may be on disk all the same.
    pub(crate) fn abandon(&mut self) {
        if let Some(written) = self.written.take() {
            self.pending.split_off(&written);
        }
        self.close();
    }

    pub(crate) fn close(&mut self) {
        if let Some(open) = self.segments.back_mut().filter(|_| self.is_open) {
            open.last = open.last.max(self.next.saturating_sub(1));
        }
        self.is_open = false;
    }

    /// The oldest segment that can be removed: all its requests are settled, and nothing is added.
    pub(crate) fn removable(&self) -> Option<&Segment> {
        let oldest = self.segments.front()?;
        let is_open = self.is_open && self.segments.len() == 1;
        (!is_open && oldest.last < self.head()).then_some(oldest)
    }

    /// Takes out all requests of the oldest segment. The next commit has nothing to do with it.
    pub(crate) fn drop_oldest(&mut self) -> Vec<Place> {
        if self.segments.len() == 1 {
            self.close();
        }
        let Some(oldest) = self.segments.front() else { return Vec::new() };
        let kept = self.pending.split_off(&oldest.last.saturating_add(1));
        std::mem::replace(&mut self.pending, kept).into_values().collect()
    }

    /// Whether a request of the oldest segment is not settled, and all are older than this instant.
    pub(crate) fn is_expired(&self, oldest_allowed: u64) -> bool {
        let is_old =
            |segment: &Segment| segment.newest_at < oldest_allowed && segment.last >= self.head();
        self.segments.front().is_some_and(is_old)
    }

    /// Takes out a request. What was unreadable marks its segment, which is then kept.
    pub(crate) fn remove(&mut self, sequence: u64, reason: Option<Reason>) -> Option<Place> {
        let place = self.pending.remove(&sequence)?;
        let mut segments = self.segments.iter_mut();
        if reason == Some(Reason::Unreadable)
            && let Some(segment) = segments.find(|segment| segment.first == place.segment)
        {
            segment.is_damaged = true;
        }
        Some(place)
    }
}
