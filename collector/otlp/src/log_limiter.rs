//! Limits messages of the same kind, so that a fault that comes and goes does not fill the log.
//!
//! Time is an argument.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The messages of one kind that are logged per [`PERIOD`], unless configured.
const BURST: u64 = 5;

/// The period that is limited.
const PERIOD: Duration = Duration::from_secs(60);

/// Limits messages by kind. Its memory depends on the number of kinds only.
#[derive(Debug)]
pub struct LogLimiter<K> {
    burst: u64,
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
        Self::with_burst(BURST)
    }
}

impl<K> LogLimiter<K> {
    /// Permits this many messages of a kind per minute.
    #[must_use]
    pub const fn with_burst(burst: u64) -> Self {
        Self { burst, kinds: BTreeMap::new() }
    }
}

impl<K: Ord + Clone> LogLimiter<K> {
    /// Whether a message is to be logged, and then how many of its kind were suppressed before it.
    pub fn permit(&mut self, kind: K, now: Instant) -> Option<u64> {
        self.permit_about(kind, 1, now)
    }

    /// Like [`Self::permit`], of a message about `count` occurrences, all of which are suppressed with it.
    pub fn permit_about(&mut self, kind: K, count: u64, now: Instant) -> Option<u64> {
        let burst = self.burst;
        let messages = self.kinds.entry(kind).or_insert(Messages::since(now));
        let mut suppressed = 0;
        if now.saturating_duration_since(messages.since) >= PERIOD {
            suppressed = std::mem::replace(messages, Messages::since(now)).suppressed;
        }
        if messages.logged >= burst {
            messages.suppressed = messages.suppressed.saturating_add(count);
            return None;
        }
        messages.logged += 1;
        Some(suppressed)
    }

    /// The kinds whose period has passed, and what was suppressed of each, if anything was. They begin
    /// anew. To be called now and then, so that it is known even if no message of the kind follows.
    pub fn take_passed(&mut self, now: Instant) -> Vec<(K, u64)> {
        self.take(|messages| now.saturating_duration_since(messages.since) >= PERIOD)
    }

    /// What was suppressed of each kind, at the end.
    pub fn take_all(&mut self) -> Vec<(K, u64)> {
        self.take(|_| true)
    }

    fn take(&mut self, passed: impl Fn(&Messages) -> bool) -> Vec<(K, u64)> {
        let mut taken = Vec::new();
        self.kinds.retain(|kind, messages| {
            let passed = passed(messages);
            if passed && messages.suppressed > 0 {
                taken.push((kind.clone(), messages.suppressed));
            }
            !passed
        });
        taken
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

    #[test]
    fn suppressed_messages_are_known_if_none_follows() {
        let (mut limiter, start) = (LogLimiter::with_burst(1), Instant::now());
        let second = |second| start + Duration::from_secs(second);
        assert_eq!(limiter.permit_about("xid", 7, start), Some(0));
        assert_eq!(limiter.permit_about("xid", 400, second(1)), None);
        assert_eq!(limiter.permit_about("xid", 3, second(59)), None);
        assert_eq!(limiter.permit("lost", second(30)), Some(0));
        assert_eq!(limiter.take_passed(second(59)), []);
        assert_eq!(limiter.take_passed(second(60)), [("xid", 403)]);
        assert_eq!(limiter.take_passed(second(90)), []);
        // Then a minute begins anew.
        assert_eq!(limiter.permit_about("xid", 2, second(90)), Some(0));
        assert_eq!(limiter.permit_about("xid", 5, second(91)), None);
        assert_eq!(limiter.take_all(), [("xid", 5)]);
        assert_eq!(limiter.suppressed(), 0);
    }
}
