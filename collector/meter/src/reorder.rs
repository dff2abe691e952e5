//! Reorder buffer: releases readings in timestamp order once the watermark has passed them.

use std::collections::VecDeque;

use crate::reading::Reading;
use crate::units::{Nanos, Timestamp};

/// Maximum number of buffered readings; beyond it the oldest is released early. It bounds memory at 6
/// MiB under a hostile log; 1 kHz with 15 s of allowed lateness uses a quarter.
pub const CAPACITY: usize = 65_536;

/// Number of readings for which memory is kept.
const SMALL: usize = 64;

/// A reading older than the watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LateReading {
    /// It trails the newest reading too far.
    #[error("{:.3} s behind the newest reading; allowed lateness is {} s", .behind.as_secs_f64(), .allowed.as_secs_f64())]
    Behind {
        /// How far it trails the newest reading.
        behind: Nanos,
        /// How far it may trail.
        allowed: Nanos,
    },
    /// It precedes the start of the run.
    #[error("{:.3} s before the run", .by.as_secs_f64())]
    BeforeStart {
        /// By how much.
        by: Nanos,
    },
    /// Readings that are newer than it were released early.
    #[error("{:.3} s behind the newest reading, after more than {CAPACITY} readings within the allowed lateness", .behind.as_secs_f64())]
    Crowded {
        /// How far it trails the newest reading.
        behind: Nanos,
    },
}

/// The readings of one GPU that the watermark has not passed.
#[derive(Clone, Debug)]
pub struct ReorderBuffer {
    pending: VecDeque<Reading>,
    allowed_lateness: Nanos,
    /// Time of the newest reading, or the start.
    newest: Timestamp,
    /// Earlier readings are rejected.
    watermark: Timestamp,
    /// No reading precedes it.
    start: Timestamp,
}

impl ReorderBuffer {
    /// A buffer that allows readings to trail the newest by `allowed_lateness`.
    #[must_use]
    pub fn new(allowed_lateness: Nanos) -> Self {
        Self {
            pending: VecDeque::new(),
            allowed_lateness,
            newest: Timestamp::default(),
            watermark: Timestamp::default(),
            start: Timestamp::default(),
        }
    }

    /// Rejects readings before `start`.
    pub fn begin_at(&mut self, start: Timestamp) {
        self.start = start;
        self.newest = self.newest.max(start);
        self.watermark = self.watermark.max(start);
    }

    /// Rejects readings before `at`, which is later than those so far.
    pub fn reject_before(&mut self, at: Timestamp) {
        self.newest = self.newest.max(at);
        self.watermark = self.watermark.max(at);
    }

    /// Adds a reading. Readings with equal times keep their order of arrival.
    ///
    /// # Errors
    /// Returns an error if the reading is older than the watermark.
    #[inline]
    pub fn push(&mut self, reading: Reading) -> Result<(), LateReading> {
        if reading.at < self.newest {
            return self.push_earlier(reading);
        }
        self.newest = reading.at;
        self.watermark = self.watermark.max(reading.at.saturating_sub(self.allowed_lateness));
        self.pending.push_back(reading);
        Ok(())
    }

    /// Adds a reading that is older than the newest.
    #[cold]
    fn push_earlier(&mut self, reading: Reading) -> Result<(), LateReading> {
        if reading.at < self.watermark {
            let (behind, allowed) = (self.newest.since(reading.at), self.allowed_lateness);
            return Err(if reading.at < self.start {
                LateReading::BeforeStart { by: self.start.since(reading.at) }
            } else if behind > allowed {
                LateReading::Behind { behind, allowed }
            } else {
                LateReading::Crowded { behind }
            });
        }
        let position = self.pending.partition_point(|other| other.at <= reading.at);
        self.pending.insert(position, reading);
        Ok(())
    }

    /// Releases the oldest reading if the watermark has passed it.
    #[inline]
    pub fn pop(&mut self) -> Option<Reading> {
        let oldest = self.pending.front()?;
        if oldest.at < self.watermark || self.pending.len() > CAPACITY {
            self.take_oldest()
        } else {
            None
        }
    }

    /// Releases the oldest reading early if more than `keep` are buffered.
    pub fn pop_beyond(&mut self, keep: usize) -> Option<Reading> {
        if self.pending.len() > keep { self.take_oldest() } else { None }
    }

    fn take_oldest(&mut self) -> Option<Reading> {
        let oldest = self.pending.pop_front()?;
        self.watermark = self.watermark.max(oldest.at);
        if self.pending.len().is_multiple_of(SMALL) {
            self.shrink();
        }
        Some(oldest)
    }

    /// A burst leaves no memory behind.
    #[cold]
    fn shrink(&mut self) {
        if self.pending.capacity() > 4 * self.pending.len().max(SMALL) {
            self.pending.shrink_to(2 * self.pending.len());
        }
    }

    /// Number of buffered readings.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pending.len()
    }

    /// Whether no reading is buffered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Time of the oldest buffered reading; an older one may still arrive.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.pending.front().map(|reading| reading.at)
    }

    /// The times of the buffered readings, in order.
    pub fn times(&self) -> impl DoubleEndedIterator<Item = Timestamp> + Clone {
        self.pending.iter().map(|reading| reading.at)
    }

    /// Releases the oldest reading regardless of the watermark, at the end of input.
    pub fn drain(&mut self) -> Option<Reading> {
        self.pending.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reading(millis: u64) -> Reading {
        Reading::at(Timestamp::from_millis(millis).unwrap())
    }

    #[test]
    fn push_rejects_late_reading() {
        let mut buffer = ReorderBuffer::new(Nanos::from_secs(2));
        buffer.push(reading(10_000)).unwrap();
        assert!(buffer.push(reading(8_000)).is_ok());
        let late = buffer.push(reading(7_999)).unwrap_err();
        let text = "2.001 s behind the newest reading; allowed lateness is 2 s";
        assert_eq!(late.to_string(), text);
    }

    #[test]
    fn reading_behind_early_release_is_not_reported_as_late() {
        let mut buffer = ReorderBuffer::new(Nanos::from_secs(2));
        for _ in 0..=CAPACITY {
            buffer.push(reading(10_000)).unwrap();
        }
        buffer.pop().unwrap();
        let text = "1.999 s behind the newest reading, after more than 65536 readings within the \
                    allowed lateness";
        assert_eq!(buffer.push(reading(8_001)).unwrap_err().to_string(), text);
    }

    proptest! {
        /// For any order of arrival within the allowed lateness, all readings come out sorted.
        #[test]
        fn readings_are_released_sorted(times in prop::collection::vec(0_u64..2_000, 1..200)) {
            let mut buffer = ReorderBuffer::new(Nanos::from_secs(2));
            let mut out = Vec::new();
            for millis in &times {
                buffer.push(reading(*millis)).unwrap();
                while let Some(next) = buffer.pop() {
                    out.push(next.at);
                }
            }
            while let Some(next) = buffer.drain() {
                out.push(next.at);
            }
            let mut sorted: Vec<_> = times.iter().map(|m| reading(*m).at).collect();
            sorted.sort_unstable();
            prop_assert_eq!(out, sorted);
        }
    }
}
