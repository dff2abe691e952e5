//! Deadlines: tick n is due at the start plus n periods, however long the ticks before it took.

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

/// A tick that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Which.
    pub(crate) number: u64,
    /// How long after its deadline it came.
    pub(crate) late: Nanos,
    /// How many before it did not come at all.
    pub(crate) missed: u64,
}

impl Ticker {
    /// Tick 0 is due at `start`.
    pub(crate) const fn new(start: Instant, period: Nanos) -> Self {
        Self { start, period, next: 0 }
    }

    /// Waits for the next tick; `None` once `stop` is set. Whoever sets it unparks this thread.
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

    /// The tick that is due, or how long it is until then. Deadlines that passed a whole period ago
    /// are missed.
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
    fn deadlines_do_not_drift_and_what_passed_is_missed() {
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
