//! Ticks at absolute deadlines: tick n is due n periods after the start, regardless of the duration of
//! earlier ticks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_meter::units::Nanos;

/// Waits for ticks.
#[derive(Debug)]
pub(crate) struct Ticker {
    start: Instant,
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
    pub(crate) const fn new(start: Instant, period: Nanos) -> Self {
        Self { start, period, next: 0 }
    }

    /// Waits for the next tick; `None` once `stop` is set. The thread must be unparked after setting it.
    pub(crate) fn wait(&mut self, stop: &AtomicBool) -> Option<Tick> {
        loop {
            if stop.load(Ordering::Acquire) {
                return None;
            }
            match self.tick_at(Instant::now()) {
                Ok(tick) => return Some(tick),
                Err(early) => thread::park_timeout(early),
            }
        }
    }

    /// The tick that is due, or the time until the next one. Deadlines more than a period ago are
    /// missed.
    fn tick_at(&mut self, now: Instant) -> Result<Tick, Duration> {
        let since = Nanos::from(now.saturating_duration_since(self.start));
        let deadline = self.period.saturating_mul(self.next);
        let early = (self.start + Duration::from_nanos(deadline.0)).checked_duration_since(now);
        if let Some(early) = early.filter(|early| !early.is_zero()) {
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
        let start = Instant::now();
        let mut ticker = Ticker::new(start, Nanos::from_millis(100));
        let after = |micros: u64| start + Duration::from_micros(micros);
        let tick = |number, late_micros: u64, missed| {
            Ok(Tick { number, late: Nanos(late_micros * 1_000), missed })
        };
        assert_eq!(ticker.tick_at(after(30)), tick(0, 30, 0));
        assert_eq!(ticker.tick_at(after(99_000)), Err(Duration::from_millis(1)));
        assert_eq!(ticker.tick_at(after(100_050)), tick(1, 50, 0));
        // A call that took 320 ms.
        assert_eq!(ticker.tick_at(after(420_050)), tick(4, 20_050, 2));
        assert_eq!(ticker.tick_at(after(420_100)), Err(Duration::from_micros(79_900)));
        assert_eq!(ticker.tick_at(after(500_000)), tick(5, 0, 0));
    }
}
