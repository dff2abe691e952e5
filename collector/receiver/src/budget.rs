//! The memory budget of requests in flight.
//!
//! Bytes are reserved as they arrive, and released with the last reference to them: in the client's
//! queue, once they are delivered.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// The least that a request counts for, so that empty ones are limited too.
const MIN_BYTES: usize = 1 << 10;

/// A budget of bytes, shared by all requests.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    left: Arc<AtomicUsize>,
}

/// Reserved bytes. Released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

/// Bytes with their reservation.
struct Reserved {
    bytes: Vec<u8>,
    _reservation: Reservation,
}

impl AsRef<[u8]> for Reserved {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Budget {
    pub(super) fn new(bytes: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(bytes)) }
    }

    /// A reservation for a request; `None` if the budget is exhausted.
    pub(super) fn begin(&self) -> Option<Reservation> {
        let mut reservation = Reservation { left: Arc::clone(&self.left), bytes: 0 };
        reservation.cover(MIN_BYTES).then_some(reservation)
    }
}

impl Reservation {
    /// Grows the reservation to `bytes`, if it is smaller. Returns false if the budget is exhausted.
    pub(super) fn cover(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let take = |left: usize| left.checked_sub(more);
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if taken {
            self.bytes += more;
        }
        taken
    }

    /// Divides the reservation among these, each of which holds its part. `None` if the budget is exhausted: together
    /// they may be larger than what they were made of.
    pub(super) fn divide(mut self, all: Vec<Vec<u8>>) -> Option<Vec<Bytes>> {
        let kept = |bytes: &Vec<u8>| bytes.len().max(MIN_BYTES);
        if !self.cover(all.iter().map(kept).sum()) {
            return None;
        }
        let attached = all.into_iter().map(|bytes| {
            let of_bytes = kept(&bytes);
            self.bytes -= of_bytes;
            Self { left: Arc::clone(&self.left), bytes: of_bytes }.attach(bytes)
        });
        Some(attached.collect())
    }

    /// These bytes, which hold the reservation until the last reference is dropped.
    fn attach(mut self, mut bytes: Vec<u8>) -> Bytes {
        bytes.shrink_to_fit();
        let kept = bytes.len().max(MIN_BYTES);
        let excess = self.bytes.saturating_sub(kept);
        self.left.fetch_add(excess, Ordering::Relaxed);
        self.bytes -= excess;
        Bytes::from_owner(Reserved { bytes, _reservation: self })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::{Budget, MIN_BYTES, Ordering};

    #[test]
    fn bytes_are_reserved_until_last_reference_is_dropped() {
        let budget = Budget::new(10 * MIN_BYTES);
        let left = || budget.left.load(Ordering::Relaxed);
        let mut reservation = budget.begin().unwrap();
        assert!(reservation.cover(4 * MIN_BYTES));
        assert!(!reservation.cover(11 * MIN_BYTES), "exhausted");
        assert_eq!(left(), 6 * MIN_BYTES);
        let bytes = reservation.divide(vec![vec![7; 2 * MIN_BYTES]]).unwrap().remove(0);
        assert_eq!(left(), 8 * MIN_BYTES, "only what is kept counts");
        let part = bytes.slice(5..);
        drop(bytes);
        assert_eq!(left(), 8 * MIN_BYTES);
        drop(part);
        assert_eq!(left(), 10 * MIN_BYTES);
        let parts = vec![vec![7; 2 * MIN_BYTES], vec![7; 10], vec![7; 3 * MIN_BYTES]];
        let mut held = budget.begin().unwrap().divide(parts.clone()).unwrap();
        assert_eq!(left(), 4 * MIN_BYTES);
        assert!(budget.begin().unwrap().divide(parts).is_none(), "exhausted");
        held.remove(0);
        assert_eq!(left(), 6 * MIN_BYTES);
        drop(held);
        assert_eq!(left(), 10 * MIN_BYTES);
    }

    #[test]
    fn empty_requests_are_limited() {
        let budget = Budget::new(3 * MIN_BYTES);
        let all: Vec<_> = std::iter::from_fn(|| budget.begin()).collect();
        assert_eq!(all.len(), 3);
    }
}
