//! Requests in flight. If their attempt is given up, as at the end of the grace period, they wait again, so that they
//! can be stored.

use std::sync::Arc;

use super::batch::Batch;
use super::queue::Queue;

/// Requests that were taken out of a queue.
#[derive(Debug)]
pub(super) struct Flight {
    queue: Arc<Queue>,
    /// `None` once they have landed.
    batch: Option<Batch>,
}

impl Flight {
    pub(super) fn new(queue: &Arc<Queue>, batch: Batch) -> Self {
        Self { queue: Arc::clone(queue), batch: Some(batch) }
    }

    /// The requests, after their attempt.
    pub(super) fn land(mut self) -> Option<Batch> {
        self.batch.take()
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.batch.take().into_iter().for_each(|batch| self.queue.put_back(batch));
    }
}
