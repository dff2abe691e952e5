//! Ticks at absolute deadlines: tick n is due n periods after the start, regardless of the duration of
//! earlier ticks.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use phasemeter_meter::units::Nanos;
use phasemeter_sources::clock::Clock;

/// Waits for ticks.
#[derive(Debug)]
pub(crate) struct Ticker {
    /// In time awake: ticks that a suspended machine does not run are not missed.
    start: Nanos,
    period: Nanos,
    next: u64,
}

/// A tick that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Its number.
    pub(crate) number: u64,
    /// The delay after its deadline.
    pub(crate) late: Nanos,
    /// The number of ticks missed before it.
    pub(crate) missed: u64,
}

impl Ticker {
    /// Tick 0 is due at `start`.
    pub(crate) const fn new(start: Nanos, period: Nanos) -> Self {
        Self { start, period, next: 0 }
    }

    /// The next tick, once it is due; `None` once `stop` is set. It is polled when it may be due.
    pub(crate) async fn wait(&mut self, clock: &Clock, stop: &AtomicBool) -> Option<Tick> {
        poll_fn(|_| {
            if stop.load(Ordering::Acquire) {
                return Poll::Ready(None);
            }
            self.tick_at(clock.awake()).map_or(Poll::Pending, |tick| Poll::Ready(Some(tick)))
        })
        .await
    }

    /// When the next tick is due.
    pub(crate) fn next_due(&self) -> Nanos {
        self.start + self.period.saturating_mul(self.next)
    }

    /// The tick that is due, or the time until the next one. Deadlines more than a period ago are
    /// missed.
    pub(crate) fn tick_at(&mut self, now: Nanos) -> Result<Tick, Nanos> {
        let since = now - self.start;
        let deadline = self.period.saturating_mul(self.next);
        let early = self.next_due() - now;
        if early > Nanos::ZERO {
            return Err(early);
        }
        let missed = (since - deadline).0.checked_div(self.period.0).unwrap_or(0);
        let number = self.next + missed;
        self.next = number + 1;
        Ok(Tick { number, late: since - self.period.saturating_mul(number), missed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_do_not_drift_and_passed_ones_are_missed() {
        let start = Nanos::from_secs(1_000);
        let mut ticker = Ticker::new(start, Nanos::from_millis(100));
        let after = |micros: u64| start + Nanos(micros * 1_000);
        let tick = |number, late_micros: u64, missed| {
            Ok(Tick { number, late: Nanos(late_micros * 1_000), missed })
        };
        assert_eq!(ticker.tick_at(after(30)), tick(0, 30, 0));
        assert_eq!(ticker.tick_at(after(99_000)), Err(Nanos::from_millis(1)));
        assert_eq!(ticker.tick_at(after(100_050)), tick(1, 50, 0));
        // A call that took 320 ms.
        assert_eq!(ticker.tick_at(after(420_050)), tick(4, 20_050, 2));
        assert_eq!(ticker.tick_at(after(420_100)), Err(Nanos(79_900_000)));
        assert_eq!(ticker.tick_at(after(500_000)), tick(5, 0, 0));
    }
}
