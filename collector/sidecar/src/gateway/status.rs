//! Counts of a running gateway, for threads that report them.
//!
//! Must not depend on their readers.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a gateway meters, and what it does not.
#[derive(Debug, Default)]
pub struct GatewayStatus {
    gpus: AtomicU64,
    late: AtomicU64,
    ahead: AtomicU64,
}

impl GatewayStatus {
    /// Replaces the counts: of GPUs, of values that arrived too late or for which there was no capacity, and of values
    /// that were ahead of the clock.
    pub fn set(&self, gpus: usize, late: u64, ahead: u64) {
        self.gpus.store(u64::try_from(gpus).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.late.store(late, Ordering::Relaxed);
        self.ahead.store(ahead, Ordering::Relaxed);
    }

    /// GPUs that are metered.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.gpus.load(Ordering::Relaxed)
    }

    /// Values that arrived too late, or for which there was no capacity.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late.load(Ordering::Relaxed)
    }

    /// Values that were ahead of the clock.
    #[must_use]
    pub fn ahead(&self) -> u64 {
        self.ahead.load(Ordering::Relaxed)
    }
}
