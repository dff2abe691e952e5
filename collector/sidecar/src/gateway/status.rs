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
    old: AtomicU64,
}

/// Values of GPUs and counters that are not metered, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DropCounts {
    /// They arrived too late, or there was no capacity for them.
    pub late: u64,
    /// They were ahead of the clock.
    pub ahead: u64,
    /// They were too far behind the clock.
    pub old: u64,
}

impl GatewayStatus {
    /// Replaces the counts.
    pub fn set(&self, gpus: usize, dropped: DropCounts) {
        self.gpus.store(u64::try_from(gpus).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.late.store(dropped.late, Ordering::Relaxed);
        self.ahead.store(dropped.ahead, Ordering::Relaxed);
        self.old.store(dropped.old, Ordering::Relaxed);
    }

    /// GPUs that are metered.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.gpus.load(Ordering::Relaxed)
    }

    /// Values that are not metered.
    #[must_use]
    pub fn dropped(&self) -> DropCounts {
        DropCounts {
            late: self.late.load(Ordering::Relaxed),
            ahead: self.ahead.load(Ordering::Relaxed),
            old: self.old.load(Ordering::Relaxed),
        }
    }
}
