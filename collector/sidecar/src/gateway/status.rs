//! Counts of a running gateway, for threads that report them.
//!
//! Must not depend on their readers.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a gateway meters, and what it does not.
#[derive(Debug, Default)]
pub struct GatewayStatus {
    gpus: AtomicU64,
    gpus_over_limit: AtomicU64,
    late: AtomicU64,
    ahead: AtomicU64,
    old: AtomicU64,
    over_limit: AtomicU64,
}

/// Counts of a gateway at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayCounts {
    /// GPUs that are metered.
    pub gpus: usize,
    /// GPUs that are not, since there are too many.
    pub gpus_over_limit: usize,
    /// Values that are not metered.
    pub dropped: DropCounts,
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
    /// Their GPUs are over the limit.
    pub over_limit: u64,
}

impl GatewayStatus {
    /// Replaces the counts.
    pub fn set(&self, counts: GatewayCounts) {
        let GatewayCounts { gpus, gpus_over_limit, dropped } = counts;
        let DropCounts { late, ahead, old, over_limit } = dropped;
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        for (status, count) in [
            (&self.gpus, number(gpus)),
            (&self.gpus_over_limit, number(gpus_over_limit)),
            (&self.late, late),
            (&self.ahead, ahead),
            (&self.old, old),
            (&self.over_limit, over_limit),
        ] {
            status.store(count, Ordering::Relaxed);
        }
    }

    /// GPUs that are metered.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.gpus.load(Ordering::Relaxed)
    }

    /// GPUs that are not metered, since there are too many.
    #[must_use]
    pub fn gpus_over_limit(&self) -> u64 {
        self.gpus_over_limit.load(Ordering::Relaxed)
    }

    /// Values that are not metered.
    #[must_use]
    pub fn dropped(&self) -> DropCounts {
        DropCounts {
            late: self.late.load(Ordering::Relaxed),
            ahead: self.ahead.load(Ordering::Relaxed),
            old: self.old.load(Ordering::Relaxed),
            over_limit: self.over_limit.load(Ordering::Relaxed),
        }
    }
}
