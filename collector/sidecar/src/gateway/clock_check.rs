//! Drops points whose time is far ahead of this machine's clock.
//!
//! All later points of the GPU or counter would be late. Must not depend on what points are.

use phasemeter_meter::units::{Nanos, Timestamp};
use tracing::warn;

/// By how much a point may be ahead: clocks differ.
const MAX_AHEAD: Nanos = Nanos::from_secs(300);

/// Checks the times of points.
#[derive(Debug, Default)]
pub(super) struct ClockCheck {
    dropped: u64,
}

impl ClockCheck {
    /// Whether a point of this metric counts. The first that does not is logged.
    pub(super) fn admits(&mut self, metric: &str, at: Timestamp, now: Timestamp) -> bool {
        let ahead = at.since(now);
        if ahead <= MAX_AHEAD {
            return true;
        }
        if self.dropped == 0 {
            let minutes = ahead.as_secs_f64() / 60.0;
            warn!(
                "{metric}: a point is {minutes:.1} min ahead of this machine's clock; all that are more \
                 than 5 min ahead are dropped: check the clocks of this machine and of the sender"
            );
        }
        self.dropped += 1;
        false
    }

    /// Number of points that were dropped.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }
}
