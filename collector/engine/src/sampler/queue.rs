//! The observations of one GPU until they are drained.

use std::sync::{Mutex, PoisonError};

use phasemeter_sources::live::Observation;

/// A buffer for more than the usual number of observations between two drains is released.
const USUAL: usize = 64;

/// A limited number of observations, in order. It takes the memory of those that wait.
#[derive(Debug)]
pub(super) struct Queue {
    waiting: Mutex<Vec<Observation>>,
    capacity: usize,
}

impl Queue {
    pub(super) const fn new(capacity: usize) -> Self {
        Self { waiting: Mutex::new(Vec::new()), capacity }
    }

    /// Adds an observation; returns false if it is full.
    pub(super) fn push(&self, observation: Observation) -> bool {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = waiting.len() >= self.capacity;
        if !is_full {
            waiting.push(observation);
        }
        !is_full
    }

    /// Passes all on. `buffer` is empty, before and after.
    pub(super) fn drain(&self, buffer: &mut Vec<Observation>, take: impl FnMut(Observation)) {
        std::mem::swap(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner), buffer);
        buffer.drain(..).for_each(take);
        buffer.shrink_to(USUAL);
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_sources::live::Observed;

    use super::*;

    #[test]
    fn observations_leave_in_order_and_none_beyond_the_capacity() {
        let queue = Queue::new(100);
        let observation = |gpu| Observation { gpu, observed: Observed::MigMode(true) };
        let mut buffer = Vec::new();
        for _ in 0..2 {
            assert_eq!((0..120).filter(|gpu| queue.push(observation(*gpu))).count(), 100);
            let mut gpus = Vec::new();
            queue.drain(&mut buffer, |it| gpus.push(it.gpu));
            assert_eq!(gpus, (0..100).collect::<Vec<_>>());
            assert!(buffer.is_empty() && buffer.capacity() <= USUAL);
        }
    }
}
