//! The GPUs that one key identifies.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The GPUs with one key.
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    /// How often each has it.
    counts: BTreeMap<usize, u32>,
    pub(super) listed: Arc<[usize]>,
}

impl Members {
    pub(super) fn add(&mut self, gpu: usize) {
        let count = self.counts.entry(gpu).or_default();
        *count += 1;
        if *count == 1 {
            self.list();
        }
    }

    /// Returns whether none is left.
    pub(super) fn remove(&mut self, gpu: usize) -> bool {
        if let Some(count) = self.counts.get_mut(&gpu) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&gpu);
                self.list();
            }
        }
        self.counts.is_empty()
    }

    fn list(&mut self) {
        self.listed = self.counts.keys().copied().collect();
    }
}
