//! Poll periods of metrics: the preferred period while calls are cheap, longer if they are slow.
//!
//! Time is a number of ticks.

use phasemeter_meter::units::Nanos;

/// One metric of one GPU that is polled several times a second uses at most this fraction of a thread's time: 1%.
/// Slow calls mostly wait for the driver's lock, which the workload waits for as well.
const MAX_LOAD_DIVISOR: u64 = 100;

/// One that is polled once a second or less often: 0.1%. On an H200 with driver 580, a call for the energy counter
/// takes 4 ms of CPU time, and its value loses nothing by being read later.
const MAX_SLOW_LOAD_DIVISOR: u64 = 1_000;

/// The maximum period, and that of unsupported metrics.
pub(crate) const MAX_PERIOD: Nanos = Nanos::from_secs(60);

/// A metric that has answered before is polled at every tick for this many refusals in a row: a driver
/// refuses calls for a moment while it is busy with others.
const QUICK_RETRIES: u32 = 8;

/// The poll period of one metric of one GPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PollBackoff {
    /// The number of ticks between the first and second poll, less whole periods, which staggers polls of the same
    /// period. Zero is a whole period.
    stagger: u64,
    /// How often the period was doubled.
    slowed: u32,
    period: Nanos,
    /// The duration of the previous call.
    before: Nanos,
    /// Whether it was ever supported.
    answered: bool,
    /// How often it was refused since it last answered.
    refusals: u32,
    /// The tick of the next poll.
    next: u64,
}

/// What limits the period of a metric.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeriodLimits {
    /// The time between ticks: the minimum.
    pub(crate) tick: Nanos,
    /// The period if calls were free.
    pub(crate) preferred: Nanos,
    /// The maximum, however expensive calls are, unless it is preferred to be longer.
    pub(crate) max: Nanos,
}

impl PeriodLimits {
    /// How long a call of this duration is not to be repeated.
    const fn pause_after(&self, cost: Nanos) -> Nanos {
        let is_slow = self.preferred.0 >= Nanos::SECOND.0;
        cost.saturating_mul(if is_slow { MAX_SLOW_LOAD_DIVISOR } else { MAX_LOAD_DIVISOR })
    }
}

impl PollBackoff {
    /// Due immediately, then after `stagger` ticks, less whole periods, then every period.
    pub(crate) const fn new(stagger: u64) -> Self {
        Self {
            stagger,
            slowed: 0,
            period: Nanos::ZERO,
            before: Nanos::ZERO,
            answered: false,
            refusals: 0,
            next: 0,
        }
    }

    /// Due immediately, like a new one, after a loss of the GPU.
    pub(crate) fn restart(&mut self, stagger: u64) {
        *self = Self { answered: self.answered, ..Self::new(stagger) };
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

    /// Whether it was ever supported.
    pub(crate) const fn has_answered(&self) -> bool {
        self.answered
    }

    /// Records a call at `tick` that took `cost`. The period doubles while two successive calls are too
    /// expensive for it, and halves while two successive calls are cheap enough for half of it. (A
    /// single slow call may be due to a busy machine.) Returns whether the period changed.
    pub(crate) fn record(&mut self, tick: u64, cost: Nanos, limits: PeriodLimits) -> bool {
        let cheaper = limits.pause_after(cost.min(self.before));
        let dearer = limits.pause_after(cost.max(self.before));
        self.before = cost;
        self.answered = true;
        self.refusals = 0;

        let preferred = limits.preferred.max(limits.tick);
        let max = limits.max.max(preferred);
        let doubled = |times: u32| {
            preferred.saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX)).min(max)
        };
        let (slowed, period) = (self.slowed, doubled(self.slowed));
        if cheaper > period && period < max {
            self.slowed += 1;
        } else if slowed > 0 && dearer <= doubled(slowed - 1) {
            self.slowed -= 1;
        }
        self.period = doubled(self.slowed);
        self.schedule(tick, self.period, limits.tick);
        self.slowed != slowed
    }

    /// Makes it due at the next tick, once: a call at `tick` has left work.
    pub(crate) const fn repeat(&mut self, tick: u64) {
        self.answered = true;
        self.next = tick + 1;
    }

    /// Records that the metric is not supported. One that has never answered is polled again after a
    /// minute; one that has, at the next ticks, and then less and less often, up to its maximum period.
    pub(crate) fn refuse(&mut self, tick: u64, limits: PeriodLimits) {
        self.refusals = self.refusals.saturating_add(1);
        self.stagger = 0;
        let wait = if self.answered {
            let doubled = self.refusals.saturating_sub(QUICK_RETRIES);
            let ticks = 1_u64.checked_shl(doubled).unwrap_or(u64::MAX);
            limits.tick.saturating_mul(ticks).min(limits.max)
        } else {
            self.period = MAX_PERIOD.max(limits.tick);
            self.period
        };
        self.schedule(tick, wait, limits.tick);
    }

    fn schedule(&mut self, tick: u64, wait: Nanos, tick_length: Nanos) {
        let ticks = wait.0.checked_div(tick_length.0).unwrap_or(1).max(1);
        let stagger = std::mem::take(&mut self.stagger) % ticks;
        self.next = tick + if stagger == 0 { ticks } else { stagger };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Nanos = Nanos::from_millis(100);

    const fn limits(preferred: Nanos) -> PeriodLimits {
        PeriodLimits { tick: TICK, preferred, max: MAX_PERIOD }
    }

    /// The periods after calls of these durations in µs, each made when due.
    fn periods(preferred: Nanos, costs: &[u64]) -> Vec<u64> {
        periods_within(limits(preferred), costs)
    }

    fn periods_within(limits: PeriodLimits, costs: &[u64]) -> Vec<u64> {
        let mut backoff = PollBackoff::new(1);
        let mut tick = 0;
        costs
            .iter()
            .map(|micros| {
                while !backoff.due(tick) {
                    tick += 1;
                }
                backoff.record(tick, Nanos(micros * 1_000), limits);
                backoff.period().0 / 1_000_000
            })
            .collect()
    }

    #[test]
    fn cheap_calls_keep_the_period() {
        assert_eq!(periods(Nanos::ZERO, &[5, 900, 5, 900]), [100; 4]);
        assert_eq!(periods(Nanos::SECOND, &[5, 900, 900]), [1_000; 3]);
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

    /// As the energy counter of an H200.
    #[test]
    fn slow_metric_takes_a_thousandth_of_a_core() {
        assert_eq!(periods(Nanos::SECOND, &[4_400; 6]), [1_000, 2_000, 4_000, 8_000, 8_000, 8_000]);
    }

    #[test]
    fn period_is_at_most_a_minute() {
        let costs = [30_000_000; 20];
        assert_eq!(periods(Nanos::ZERO, &costs).last(), Some(&60_000));
    }

    #[test]
    fn period_is_at_most_its_limit() {
        let limits = PeriodLimits { max: Nanos::from_millis(800), ..limits(Nanos::ZERO) };
        let slow = periods_within(limits, &[150_000; 8]);
        assert_eq!(slow, [100, 200, 400, 800, 800, 800, 800, 800]);
        // A preferred period is never shortened.
        let limits = PeriodLimits { preferred: Nanos::SECOND, ..limits };
        assert_eq!(periods_within(limits, &[150_000; 3]), [1_000; 3]);
    }

    /// The ticks of the polls of a metric that answers at ticks for which this holds.
    fn polls(answers: impl Fn(u64) -> bool, limits: PeriodLimits, until: u64) -> Vec<u64> {
        let mut backoff = PollBackoff::new(1);
        let due = (0..until).filter(|tick| {
            let due = backoff.due(*tick);
            if due && answers(*tick) {
                backoff.record(*tick, Nanos::ZERO, limits);
            } else if due {
                backoff.refuse(*tick, limits);
            }
            due
        });
        due.collect()
    }

    #[test]
    fn metric_that_never_answers_is_polled_every_minute() {
        assert_eq!(polls(|_| false, limits(Nanos::ZERO), 1_300), [0, 600, 1_200]);
    }

    #[test]
    fn refused_metric_is_polled_at_the_next_tick_and_then_less_often() {
        let each_second = limits(Nanos::SECOND);
        let transient = |tick| !(11..=13).contains(&tick);
        assert_eq!(polls(transient, each_second, 40), [0, 1, 11, 12, 13, 14, 24, 34]);
        let lasting = polls(|tick| tick < 2, each_second, 1_400);
        assert_eq!(lasting[..10], [0, 1, 11, 12, 13, 14, 15, 16, 17, 18]);
        assert_eq!(lasting[10..], [19, 21, 25, 33, 49, 81, 145, 273, 529, 1_041]);
        let limited = PeriodLimits { max: Nanos::from_millis(800), ..limits(Nanos::ZERO) };
        let lasting = polls(|tick| tick < 2, limited, 60);
        assert_eq!(lasting[10..], [10, 12, 16, 24, 32, 40, 48, 56]);
    }

    #[test]
    fn metrics_of_one_period_are_staggered() {
        let due = |stagger| {
            let mut backoff = PollBackoff::new(stagger);
            let mut due = Vec::new();
            for tick in 0..=30 {
                if backoff.due(tick) {
                    due.push(tick);
                    backoff.record(tick, Nanos::ZERO, limits(Nanos::SECOND));
                }
            }
            due
        };
        assert_eq!(due(1), [0, 1, 11, 21]);
        assert_eq!(due(7), [0, 7, 17, 27]);
        assert_eq!(due(10), [0, 10, 20, 30]);
        assert_eq!(due(12), [0, 2, 12, 22]);
    }
}
