//! Limits messages of the same kind, so that a fault that comes and goes does not fill the log.
//!
//! Time is an argument. Must not depend on what is logged.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The messages of one kind that are logged per [`PERIOD`].
const BURST: u64 = 5;

/// The period that is limited.
const PERIOD: Duration = Duration::from_secs(60);

/// Limits messages by kind. Its memory depends on the number of kinds only.
#[derive(Debug)]
pub struct LogLimiter<K> {
    kinds: BTreeMap<K, Messages>,
}

/// The messages of one kind since the start of a period.
#[derive(Debug)]
struct Messages {
    since: Instant,
    logged: u64,
    suppressed: u64,
}

impl<K> Default for LogLimiter<K> {
    fn default() -> Self {
        Self { kinds: BTreeMap::new() }
    }
}

impl<K: Ord> LogLimiter<K> {
    /// Whether a message is to be logged, and then how many of its kind were suppressed before it.
    pub fn permit(&mut self, kind: K, now: Instant) -> Option<u64> {
        let messages = self.kinds.entry(kind).or_insert(Messages::since(now));
        let mut suppressed = 0;
        if now.saturating_duration_since(messages.since) >= PERIOD {
            suppressed = std::mem::replace(messages, Messages::since(now)).suppressed;
        }
        if messages.logged == BURST {
            messages.suppressed += 1;
            return None;
        }
        messages.logged += 1;
        Some(suppressed)
    }

    /// The number of messages suppressed since the last one that was logged, of all kinds.
    #[must_use]
    pub fn suppressed(&self) -> u64 {
        self.kinds.values().map(|messages| messages.suppressed).sum()
    }
}

impl Messages {
    const fn since(since: Instant) -> Self {
        Self { since, logged: 0, suppressed: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_one_kind_are_limited_and_counted() {
        let (mut limiter, start) = (LogLimiter::default(), Instant::now());
        let second = |second| start + Duration::from_secs(second);
        let permitted = (0..59).filter_map(|at| limiter.permit("lost", second(at)));
        assert_eq!(permitted.collect::<Vec<_>>(), [0; 5]);
        assert_eq!(limiter.permit("xid", second(30)), Some(0));
        assert_eq!(limiter.suppressed(), 54);
        assert_eq!(limiter.permit("lost", second(60)), Some(54));
        assert_eq!(limiter.permit("lost", second(61)), Some(0));
        assert_eq!(limiter.suppressed(), 0);
    }
}
