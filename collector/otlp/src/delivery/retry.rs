//! Exponential back-off with jitter, like the Collector's `retry_on_failure`.

use std::time::Duration;

/// Maximum delay that a backend can ask for: after that, the Collector would have given up. A wrong clock,
/// or a number meant in milliseconds, must not silence a signal for long.
const MAX_REQUESTED: Duration = Duration::from_secs(300);

/// Retry settings. There is no last attempt: a request leaves the queue with a response, or as the
/// oldest when the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first delay: 1 s, while the Collector uses 5 s, since the last seconds of a run are sent
    /// within a short grace period that one lost connection must not consume.
    pub initial_interval: Duration,
    /// The maximum delay: 30 s.
    pub max_interval: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { initial_interval: Duration::from_secs(1), max_interval: Duration::from_secs(30) }
    }
}

/// The delays of one worker.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    retry: Retry,
    interval: Duration,
}

impl Backoff {
    pub(super) fn new(retry: Retry) -> Self {
        Self { retry, interval: retry.initial_interval }
    }

    /// The next delay after a failure. `jitter`, drawn anew each time, places it between half of
    /// the interval and all of it, so that many sidecars do not return at once.
    pub(super) fn next(&mut self, jitter: u32) -> Duration {
        let half = self.interval.min(self.retry.max_interval) / 2;
        self.interval = half.saturating_mul(3).min(self.retry.max_interval);
        spread(half, jitter)
    }

    /// The delay that the backend asked for, and up to as long again by `jitter`: all that it has asked
    /// must not return at once. It is at most half the time that the queue can bridge, so that the whole
    /// delay loses nothing, but not below the longest delay of our own.
    pub(super) fn requested(&self, after: Duration, until_full: Duration, jitter: u32) -> Duration {
        let most = (until_full / 2).min(MAX_REQUESTED).max(self.retry.max_interval);
        spread(after.max(self.retry.initial_interval).min(most), jitter)
    }

    /// Resets the interval after a response.
    pub(super) fn reset(&mut self) {
        self.interval = self.retry.initial_interval;
    }
}

/// A delay from `shortest` to twice as long.
fn spread(shortest: Duration, jitter: u32) -> Duration {
    shortest + shortest.mul_f64(f64::from(jitter) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Retry};
    use std::time::Duration;

    #[test]
    fn delays_grow_by_half_up_to_maximum_and_reset() {
        let mut backoff = Backoff::new(Retry::default());
        let longest: Vec<u128> = (0..11).map(|_| backoff.next(u32::MAX).as_millis()).collect();
        let grown = [1000, 1500, 2250, 3375, 5062, 7593, 11_390, 17_085, 25_628, 30_000, 30_000];
        assert_eq!(longest, grown);
        backoff.reset();
        assert_eq!(backoff.next(0), Duration::from_millis(500));
        assert_eq!(backoff.next(0), Duration::from_millis(750));
    }

    #[test]
    fn requested_delay_is_spread_and_capped_by_the_queue() {
        let seconds = Duration::from_secs;
        let backoff = Backoff::new(Retry::default());
        let requested = |after, until_full, jitter| backoff.requested(after, until_full, jitter);
        assert_eq!(requested(seconds(7), Duration::MAX, 0), seconds(7), "never earlier");
        assert_eq!(requested(seconds(7), Duration::MAX, u32::MAX), seconds(14));
        assert_eq!(requested(Duration::MAX, Duration::MAX, 0), seconds(300));
        assert_eq!(requested(seconds(3_600), seconds(240), u32::MAX), seconds(240), "until full");
        assert_eq!(requested(seconds(3_600), Duration::ZERO, 0), seconds(30), "our own delay");
        assert_eq!(requested(Duration::ZERO, Duration::MAX, 0), seconds(1), "no busy loop");
    }
}
