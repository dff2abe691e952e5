//! How long to leave a backend alone after it failed: exponential back-off with jitter, as the
//! Collector's `retry_on_failure`, in its words. This room knows no clock and draws no lots.

use std::time::Duration;

/// The longest that a backend may ask to be left alone. A clock that is wrong by a year, or a
/// number that is meant in milliseconds, must not silence the meter for good.
const MAX_ASKED: Duration = Duration::from_secs(3600);

/// How patiently to try again. There is no last attempt: a request leaves the queue when it is
/// answered, or when the queue is full and it is the oldest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The first wait. 1 s, where the Collector has 5 s: a run's last seconds are sent within a
    /// grace period of a few, and one lost connection must not use it up.
    pub initial_interval: Duration,
    /// The longest wait: 30 s.
    pub max_interval: Duration,
}

impl Default for Retry {
    fn default() -> Self {
        Self { initial_interval: Duration::from_secs(1), max_interval: Duration::from_secs(30) }
    }
}

/// The waits of one worker.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    retry: Retry,
    interval: Duration,
}

impl Backoff {
    pub(super) fn new(retry: Retry) -> Self {
        Self { retry, interval: retry.initial_interval }
    }

    /// The next wait after a failure. `jitter` is drawn anew each time: it puts the wait between half
    /// of the interval and all of it, so that many sidecars do not come back as one.
    pub(super) fn next(&mut self, jitter: u32) -> Duration {
        let half = self.interval.min(self.retry.max_interval) / 2;
        let share = f64::from(jitter) / f64::from(u32::MAX);
        self.interval = half.saturating_mul(3).min(self.retry.max_interval);
        half + half.mul_f64(share)
    }

    /// The wait that the backend asked for.
    pub(super) fn asked(after: Duration) -> Duration {
        after.min(MAX_ASKED)
    }

    /// It answered: the next failure is a first one.
    pub(super) fn reset(&mut self) {
        self.interval = self.retry.initial_interval;
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Retry};
    use std::time::Duration;

    #[test]
    fn waits_grow_by_half_up_to_the_longest_and_start_again() {
        let mut backoff = Backoff::new(Retry::default());
        let longest: Vec<u128> = (0..11).map(|_| backoff.next(u32::MAX).as_millis()).collect();
        let grown = [1000, 1500, 2250, 3375, 5062, 7593, 11_390, 17_085, 25_628, 30_000, 30_000];
        assert_eq!(longest, grown);
        backoff.reset();
        assert_eq!(backoff.next(0), Duration::from_millis(500));
        assert_eq!(backoff.next(0), Duration::from_millis(750));
    }

    #[test]
    fn a_backend_cannot_ask_for_silence_without_end() {
        assert_eq!(Backoff::asked(Duration::from_secs(7)), Duration::from_secs(7));
        assert_eq!(Backoff::asked(Duration::MAX), Duration::from_secs(3600));
    }
}
