//! Readings in the order of their time, although they may arrive out of it.
//!
//! A reading waits here until nothing older can come any more. This room must not know what a
//! reading says beside its time.

use std::collections::VecDeque;

use crate::reading::Reading;
use crate::units::{Nanos, Timestamp};

/// The most readings that wait for one GPU; beyond it the oldest goes on early. It bounds memory
/// at 6 MiB a GPU under a hostile log; at 1 kHz and 15 s of lateness a quarter of it is used.
pub const CAPACITY: usize = 65_536;

/// It came later than the lateness window allows: what it would change is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{:.3} s older than the newest, which is more than the {:.0} s that are waited", .behind.as_secs_f64(), .lateness.as_secs_f64())]
pub struct Late {
    /// How far behind the newest reading it is.
    pub behind: Nanos,
    /// How far behind it may be.
    pub lateness: Nanos,
}

/// The readings of one GPU that are not settled yet.
#[derive(Clone, Debug)]
pub struct Order {
    waiting: VecDeque<Reading>,
    lateness: Nanos,
    /// The newest time seen.
    newest: Timestamp,
    /// Nothing before this is taken any more.
    settled: Timestamp,
}

impl Order {
    /// Waits `lateness` for stragglers.
    #[must_use]
    pub fn new(lateness: Nanos) -> Self {
        Self {
            waiting: VecDeque::new(),
            lateness,
            newest: Timestamp::default(),
            settled: Timestamp::default(),
        }
    }

    /// Takes a reading in. Readings of the same instant keep the order in which they came.
    ///
    /// # Errors
    /// Where it is too late.
    pub fn push(&mut self, reading: Reading) -> Result<(), Late> {
        if reading.at < self.settled {
            let behind = self.newest.since(reading.at);
            return Err(Late { behind, lateness: self.lateness });
        }
        if reading.at >= self.newest {
            self.newest = reading.at;
            self.settled = self.settled.max(reading.at.saturating_sub(self.lateness));
            self.waiting.push_back(reading);
        } else {
            let place = self.waiting.partition_point(|other| other.at <= reading.at);
            self.waiting.insert(place, reading);
        }
        Ok(())
    }

    /// The next reading that nothing can come before any more.
    pub fn pop(&mut self) -> Option<Reading> {
        let oldest = self.waiting.front()?;
        if oldest.at < self.settled || self.waiting.len() > CAPACITY {
            self.settled = self.settled.max(oldest.at);
            self.waiting.pop_front()
        } else {
            None
        }
    }

    /// The time of the next reading; an older one may still come.
    #[must_use]
    pub fn next_at(&self) -> Option<Timestamp> {
        self.waiting.front().map(|reading| reading.at)
    }

    /// The next reading, although others might still have come: for the end.
    pub fn drain(&mut self) -> Option<Reading> {
        self.waiting.pop_front()
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
    fn what_is_too_late_is_refused() {
        let mut order = Order::new(Nanos::from_secs(2));
        order.push(reading(10_000)).unwrap();
        assert!(order.push(reading(8_000)).is_ok());
        let late = order.push(reading(7_999)).unwrap_err();
        assert_eq!(late.behind, Nanos::from_millis(2_001));
    }

    proptest! {
        /// Whatever the order of arrival within the window, readings come out sorted and whole.
        #[test]
        fn comes_out_sorted(times in prop::collection::vec(0_u64..2_000, 1..200)) {
            let mut order = Order::new(Nanos::from_secs(2));
            let mut out = Vec::new();
            for millis in &times {
                order.push(reading(*millis)).unwrap();
                while let Some(next) = order.pop() {
                    out.push(next.at);
                }
            }
            while let Some(next) = order.drain() {
                out.push(next.at);
            }
            let mut sorted: Vec<_> = times.iter().map(|m| reading(*m).at).collect();
            sorted.sort_unstable();
            prop_assert_eq!(out, sorted);
        }
    }
}
