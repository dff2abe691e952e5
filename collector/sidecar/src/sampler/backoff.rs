//! How often a metric is asked: as often as it is worth while its calls are cheap, less often where
//! they are slow.
//!
//! Time is a number of ticks; it knows no clock and no driver.

use phasemeter_meter::units::Nanos;

/// A metric of one GPU takes at most one part in so many of a thread's time: 1 %. A call that is
/// slow mostly waits for the driver's lock, and the workload waits for the same lock.
const MAX_LOAD_DIVISOR: u64 = 100;

/// The slowest that it gets, and how often what is not supported is asked again.
const MAX_PERIOD: Nanos = Nanos::from_secs(60);

/// The cadence of one metric of one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollBackoff {
    /// How many ticks after the first one it is asked again, at the most: so that metrics of one
    /// period take turns.
    turn: u64,
    /// How often its period was doubled.
    slowed: u32,
    period: Nanos,
    /// What the call before the last one took.
    before: Nanos,
    /// The tick at which it is asked next.
    next: u64,
}

impl PollBackoff {
    /// Due at once, then after `turn` ticks or a period, then each period.
    pub(crate) const fn new(turn: u64) -> Self {
        Self { turn, slowed: 0, period: Nanos::ZERO, before: Nanos::ZERO, next: 0 }
    }

    /// Whether it is to be asked at this tick.
    pub(crate) const fn due(&self, tick: u64) -> bool {
        tick >= self.next
    }

    /// Whether its calls are slow.
    pub(crate) const fn is_slowed(&self) -> bool {
        self.slowed > 0
    }

    /// The period as it is now; zero before the first call.
    pub(crate) const fn period(&self) -> Nanos {
        self.period
    }

    /// It was asked at `tick`, which took `cost`; `wanted` is how often it would be asked if it
    /// cost nothing. The period doubles while two calls in a row cost too much for it, up to a
    /// minute, and halves while two in a row would be cheap enough at half of it. (One alone may
    /// have met a busy machine.) Tells whether it did either.
    pub(crate) fn record(
        &mut self,
        tick: u64,
        tick_length: Nanos,
        cost: Nanos,
        wanted: Nanos,
    ) -> bool {
        let cheaper = cost.min(self.before).saturating_mul(MAX_LOAD_DIVISOR);
        let dearer = cost.max(self.before).saturating_mul(MAX_LOAD_DIVISOR);
        self.before = cost;

        let wanted = wanted.max(tick_length);
        let doubled = |times: u32| {
            wanted
                .saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX))
                .min(MAX_PERIOD.max(wanted))
        };
        let (slowed, period) = (self.slowed, doubled(self.slowed));
        if cheaper > period && period < MAX_PERIOD {
            self.slowed += 1;
        } else if slowed > 0 && dearer <= doubled(slowed - 1) {
            self.slowed -= 1;
        }
        self.period = doubled(self.slowed);
        self.schedule(tick, tick_length);
        self.slowed != slowed
    }

    /// It is not supported: asked again after a minute.
    pub(crate) fn unsupported(&mut self, tick: u64, tick_length: Nanos) {
        self.turn = u64::MAX;
        self.period = MAX_PERIOD.max(tick_length);
        self.schedule(tick, tick_length);
    }

    fn schedule(&mut self, tick: u64, tick_length: Nanos) {
        let ticks = self.period.0.checked_div(tick_length.0).unwrap_or(1).max(1);
        self.next = tick + ticks.min(std::mem::replace(&mut self.turn, u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Nanos = Nanos::from_millis(100);

    /// The periods after calls of these costs in µs, each asked when it was due.
    fn periods(wanted: Nanos, costs: &[u64]) -> Vec<u64> {
        let mut backoff = PollBackoff::new(1);
        let mut tick = 0;
        costs
            .iter()
            .map(|micros| {
                while !backoff.due(tick) {
                    tick += 1;
                }
                backoff.record(tick, TICK, Nanos(micros * 1_000), wanted);
                backoff.period().0 / 1_000_000
            })
            .collect()
    }

    #[test]
    fn a_cheap_metric_keeps_its_period() {
        assert_eq!(periods(Nanos::ZERO, &[5, 900, 5, 900]), [100; 4]);
        assert_eq!(periods(Nanos::SECOND, &[5, 9_000, 9_000]), [1_000; 3]);
    }

    #[test]
    fn one_slow_call_changes_nothing() {
        assert_eq!(periods(Nanos::ZERO, &[5, 300_000, 5, 5]), [100; 4]);
    }

    #[test]
    fn slow_calls_back_off_to_one_percent_and_return() {
        let slow = periods(Nanos::ZERO, &[20_000; 8]);
        // The call before the first cost nothing.
        assert_eq!(slow, [100, 200, 400, 800, 1_600, 3_200, 3_200, 3_200]);

        let mut costs = vec![20_000; 6];
        costs.extend([5; 8]);
        let returned = periods(Nanos::ZERO, &costs);
        assert_eq!(returned[6..], [3_200, 1_600, 800, 400, 200, 100, 100, 100]);
    }

    #[test]
    fn it_is_asked_once_a_minute_at_least() {
        let costs = [30_000_000; 20];
        assert_eq!(periods(Nanos::ZERO, &costs).last(), Some(&60_000));
    }

    #[test]
    fn metrics_of_one_period_take_turns() {
        let due = |turn| {
            let mut backoff = PollBackoff::new(turn);
            let mut due = Vec::new();
            for tick in 0..=30 {
                if backoff.due(tick) {
                    due.push(tick);
                    backoff.record(tick, TICK, Nanos::ZERO, Nanos::SECOND);
                }
            }
            due
        };
        assert_eq!(due(1), [0, 1, 11, 21]);
        assert_eq!(due(7), [0, 7, 17, 27]);
        assert_eq!(due(12), [0, 10, 20, 30]);
    }
}
