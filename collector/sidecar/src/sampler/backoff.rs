//! Poll periods of metrics: the preferred period while calls are cheap, longer if they are slow.
//!
//! Time is a number of ticks. Must not depend on a clock or the driver.

use phasemeter_meter::units::Nanos;

/// One metric of one GPU uses at most this fraction of a thread's time: 1%. Slow calls mostly wait for
/// the driver's lock, which the workload waits for as well.
const MAX_LOAD_DIVISOR: u64 = 100;

/// The maximum period, and that of unsupported metrics.
const MAX_PERIOD: Nanos = Nanos::from_secs(60);

/// The poll period of one metric of one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollBackoff {
    /// The maximum number of ticks between the first and second poll, which staggers metrics of the
    /// same period.
    stagger: u64,
    /// How often the period was doubled.
    slowed: u32,
    period: Nanos,
    /// The duration of the previous call.
    before: Nanos,
    /// The tick of the next poll.
    next: u64,
}

impl PollBackoff {
    /// Due immediately, then after the lesser of `stagger` ticks and a period, then every period.
    pub(crate) const fn new(stagger: u64) -> Self {
        Self { stagger, slowed: 0, period: Nanos::ZERO, before: Nanos::ZERO, next: 0 }
    }

    /// Whether it is due at this tick.
    pub(crate) const fn due(&self, tick: u64) -> bool {
        tick >= self.next
    }

    /// Whether its period is increased.
    pub(crate) const fn is_slowed(&self) -> bool {
        self.slowed > 0
    }

    /// The current period; zero before the first call.
    pub(crate) const fn period(&self) -> Nanos {
        self.period
    }

    /// Records a call at `tick` that took `cost`; `preferred` is the period if calls were free. The
    /// period doubles while two successive calls are too expensive for it, up to a minute, and halves
    /// while two successive calls are cheap enough for half of it. (A single slow call may be due to a
    /// busy machine.) Returns whether the period changed.
    pub(crate) fn record(
        &mut self,
        tick: u64,
        tick_length: Nanos,
        cost: Nanos,
        preferred: Nanos,
    ) -> bool {
        let cheaper = cost.min(self.before).saturating_mul(MAX_LOAD_DIVISOR);
        let dearer = cost.max(self.before).saturating_mul(MAX_LOAD_DIVISOR);
        self.before = cost;

        let preferred = preferred.max(tick_length);
        let doubled = |times: u32| {
            preferred
                .saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX))
                .min(MAX_PERIOD.max(preferred))
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

    /// Records that the metric is not supported; it is polled again after a minute.
    pub(crate) fn unsupported(&mut self, tick: u64, tick_length: Nanos) {
        self.stagger = u64::MAX;
        self.period = MAX_PERIOD.max(tick_length);
        self.schedule(tick, tick_length);
    }

    fn schedule(&mut self, tick: u64, tick_length: Nanos) {
        let ticks = self.period.0.checked_div(tick_length.0).unwrap_or(1).max(1);
        self.next = tick + ticks.min(std::mem::replace(&mut self.stagger, u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Nanos = Nanos::from_millis(100);

    /// The periods after calls of these durations in µs, each made when due.
    fn periods(preferred: Nanos, costs: &[u64]) -> Vec<u64> {
        let mut backoff = PollBackoff::new(1);
        let mut tick = 0;
        costs
            .iter()
            .map(|micros| {
                while !backoff.due(tick) {
                    tick += 1;
                }
                backoff.record(tick, TICK, Nanos(micros * 1_000), preferred);
                backoff.period().0 / 1_000_000
            })
            .collect()
    }

    #[test]
    fn cheap_calls_keep_the_period() {
        assert_eq!(periods(Nanos::ZERO, &[5, 900, 5, 900]), [100; 4]);
        assert_eq!(periods(Nanos::SECOND, &[5, 9_000, 9_000]), [1_000; 3]);
    }

    #[test]
    fn single_slow_call_keeps_the_period() {
        assert_eq!(periods(Nanos::ZERO, &[5, 300_000, 5, 5]), [100; 4]);
    }

    #[test]
    fn slow_calls_back_off_to_one_percent_and_recover() {
        let slow = periods(Nanos::ZERO, &[20_000; 8]);
        // The duration before the first call is zero.
        assert_eq!(slow, [100, 200, 400, 800, 1_600, 3_200, 3_200, 3_200]);

        let mut costs = vec![20_000; 6];
        costs.extend([5; 8]);
        let recovered = periods(Nanos::ZERO, &costs);
        assert_eq!(recovered[6..], [3_200, 1_600, 800, 400, 200, 100, 100, 100]);
    }

    #[test]
    fn period_is_at_most_a_minute() {
        let costs = [30_000_000; 20];
        assert_eq!(periods(Nanos::ZERO, &costs).last(), Some(&60_000));
    }

    #[test]
    fn metrics_of_one_period_are_staggered() {
        let due = |stagger| {
            let mut backoff = PollBackoff::new(stagger);
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
