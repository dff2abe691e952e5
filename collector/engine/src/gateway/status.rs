//! Counts of a running gateway, for threads that report them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use super::sender_counts::SenderCounts;

/// What a gateway meters, and what it does not.
#[derive(Debug, Default)]
pub struct GatewayStatus {
    gpus: AtomicU64,
    gpus_over_limit: AtomicU64,
    late: AtomicU64,
    ahead: AtomicU64,
    old: AtomicU64,
    over_limit: AtomicU64,
    dropped_by: Mutex<DroppedBy>,
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

/// Values that are not metered, by their sender, if it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedBy {
    /// They arrived too late.
    pub late: SenderCounts,
    /// They were ahead of the clock.
    pub ahead: SenderCounts,
    /// They were too far behind the clock.
    pub old: SenderCounts,
}

impl GatewayStatus {
    /// Replaces the counts. Returns whether more values were dropped: then those by sender must be replaced, too.
    pub fn set(&self, counts: GatewayCounts) -> bool {
        let GatewayCounts { gpus, gpus_over_limit, dropped } = counts;
        let has_changed = dropped != self.dropped();
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
        has_changed
    }

    /// Replaces the values that are not metered, by sender.
    pub fn set_dropped_by(&self, dropped: DroppedBy) {
        *self.dropped_by.lock().unwrap_or_else(PoisonError::into_inner) = dropped;
    }

    /// Values that are not metered, by sender.
    #[must_use]
    pub fn dropped_by(&self) -> DroppedBy {
        self.dropped_by.lock().unwrap_or_else(PoisonError::into_inner).clone()
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
