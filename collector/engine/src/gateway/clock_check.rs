//! Drops points whose time is far from this machine's clock.
//!
//! After a point that is ahead, all later points of its GPU or counter would be late. After one of long ago, all the
//! time since then would be billed.

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::MAX_AHEAD;
use phasemeter_terminal::escape::clean;
use tracing::warn;

use super::sender_counts::SenderCounts;

/// Checks the times of points.
#[derive(Debug)]
pub(super) struct ClockCheck {
    max_age: Nanos,
    dropped: FarFromClock,
}

/// The points that were dropped, by sender.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FarFromClock {
    /// Those more than five minutes ahead of the clock.
    pub ahead: SenderCounts,
    /// Those further behind it than the maximum age.
    pub old: SenderCounts,
}

impl FarFromClock {
    /// These and others.
    #[must_use]
    pub fn with(mut self, others: &Self) -> Self {
        self.ahead.merge(&others.ahead);
        self.old.merge(&others.old);
        self
    }
}

impl ClockCheck {
    /// Admits points of at most this age.
    pub(super) fn new(max_age: Nanos) -> Self {
        Self { max_age, dropped: FarFromClock::default() }
    }

    /// Whether a point of this metric counts. The first of each kind that does not is logged.
    pub(super) fn admits(
        &mut self,
        metric: &str,
        sender: &str,
        at: Timestamp,
        now: Timestamp,
    ) -> bool {
        let FarFromClock { ahead, old } = &mut self.dropped;
        let (dropped, by, limit) = if at.since(now) > MAX_AHEAD {
            (
                ahead,
                at.since(now),
                "ahead of this machine's clock; all that are more than 5 min ahead",
            )
        } else if now.since(at) > self.max_age {
            (old, now.since(at), "behind this machine's clock; all that are older than --max-age")
        } else {
            return true;
        };
        if dropped.total() == 0 {
            let minutes = by.as_secs_f64() / 60.0;
            let of =
                if sender.is_empty() { String::new() } else { format!(" of {}", clean(sender)) };
            warn!(
                "{metric}{of}: a point is {minutes:.1} min {limit} are dropped: check the clocks of this machine \
                 and of the sender"
            );
        }
        dropped.add(sender);
        false
    }

    /// The points that were dropped.
    pub(super) const fn dropped(&self) -> &FarFromClock {
        &self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_far_from_the_clock_are_counted_by_sender() {
        let at = |seconds: u64| Timestamp::from_millis(seconds * 1_000).unwrap();
        let (day, now) = (24 * 3_600, 10_000_000);
        let mut clock = ClockCheck::new(Nanos::from_secs(day));
        for (seconds, is_admitted) in [
            (now, true),
            (now + 300, true),
            (now + 301, false),
            (now - day, true),
            (now - day - 1, false),
            (0, false),
        ] {
            assert_eq!(clock.admits("m", "a", at(seconds), at(now)), is_admitted, "{seconds}");
        }
        clock.admits("m", "b", Timestamp::LAST, at(now));
        let FarFromClock { ahead, old } = clock.dropped();
        assert_eq!(ahead.iter().collect::<Vec<_>>(), [("a", 1), ("b", 1)]);
        assert_eq!(old.iter().collect::<Vec<_>>(), [("a", 2)]);
    }
}
