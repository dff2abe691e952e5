//! Sampling of one GPU: polls due metrics at each tick, and reopens the GPU after a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::{
    Device, Driver, DriverCall, Event, LossReason, Metric, Observation, Observed, OpenDriver,
    QueryError, UnsupportedReason,
};

use super::backoff::{MAX_PERIOD, PeriodLimits, PollBackoff};
use super::gpu_counters::GpuCounters;
use super::queue::Queue;
use super::ticker::Ticker;
use super::turns::Sampling;

/// The first retry after the loss of a GPU; the delay doubles each time.
const RETRY_FIRST: Nanos = Nanos::SECOND;

/// The maximum delay between retries. A GPU recovers by a manual reset or driver restart, which two
/// retries per minute detect soon enough without interfering.
const RETRY_MAX: Nanos = Nanos::from_secs(30);

/// The time after which a value of a slow metric is cleared.
pub(super) const VALUE_LIFETIME: Nanos = Nanos::from_secs(10);

/// A GPU is lost once this many queries in a row report it. A single metric may always fail like that,
/// while others are answered.
const LOSSES: u32 = 3;

/// How long events are drained for before the driver is closed.
const MAX_DRAIN: Nanos = Nanos::from_millis(100);

/// After this many ticks in a row in which no query was answered, all basic queries decide whether the
/// GPU is lost, whatever the errors.
const UNANSWERED_TICKS: u32 = 3;

/// The parameters of a GPU's sampling.
#[derive(Debug)]
pub(super) struct GpuSampler {
    pub(super) gpu: usize,
    pub(super) uuid: String,
    pub(super) driver: Arc<dyn Driver>,
    pub(super) tick: Nanos,
    pub(super) stale_after: Nanos,
    /// When tick 0 is due, in time awake.
    pub(super) start: Nanos,
    pub(super) clock: Clock,
    pub(super) queue: Arc<Queue>,
    pub(super) stats: Arc<GpuCounters>,
    pub(super) stop: Arc<AtomicBool>,
}

/// The state of sampling, which survives the loss of the GPU.
struct State {
    ticker: Ticker,
    values: Reading,
    metrics: [MetricState; Metric::ALL.len()],
    /// The retry delay while the GPU is lost.
    retry: Option<Nanos>,
    /// Queries that have reported the loss of the GPU since the last one that was answered.
    losses: u32,
    /// Ticks in a row in which queries failed and none was answered.
    unanswered: u32,
}

#[derive(Clone, Copy)]
struct MetricState {
    metric: Metric,
    backoff: PollBackoff,
    /// The time of the last poll.
    polled_at: Timestamp,
    /// Why it is not supported, once reported.
    unsupported: Option<UnsupportedReason>,
}

impl GpuSampler {
    /// Samples until stopped, one tick at each poll. `open` is the initialized driver; after a loss it is reopened.
    pub(super) fn sample_from(self, open: Arc<dyn OpenDriver>) -> Sampling {
        Box::pin(async move { self.run(open).await })
    }

    async fn run(&self, open: Arc<dyn OpenDriver>) {
        let mut state = State::new(self);
        let mut open = Some(open);
        while !self.stop.load(Ordering::Acquire) {
            let Some(loss) = self.generation(open.take(), &mut state).await else { return };
            let retry = match state.retry {
                Some(retry) => retry.saturating_mul(2).min(RETRY_MAX),
                None => {
                    self.emit(Observed::Event(Event::Lost(loss)));
                    RETRY_FIRST
                }
            };
            state.retry = Some(retry);
            self.wait_for_retry(&mut state, retry).await;
        }
    }

    /// Samples with one driver instance until the driver or the GPU is lost. The driver is closed
    /// afterwards: holding it would block a GPU reset or driver update.
    async fn generation(
        &self,
        open: Option<Arc<dyn OpenDriver>>,
        state: &mut State,
    ) -> Option<LossReason> {
        self.stats.begin(DriverCall::Search, self.clock.awake());
        let open = open.map_or_else(|| self.driver.open(), Ok);
        let loss = match &open {
            Ok(open) => self.find_and_sample(&**open, state).await,
            Err(_) => Some(LossReason::Driver),
        };
        self.stats.begin(DriverCall::Close, self.clock.awake());
        drop(open);
        self.stats.end();
        loss
    }

    async fn find_and_sample(
        &self,
        open: &dyn OpenDriver,
        state: &mut State,
    ) -> Option<LossReason> {
        let found = open.find(&self.uuid, self.stale_after);
        self.stats.end();
        match found {
            Ok(mut gpu) => {
                if state.retry.take().is_some() {
                    self.emit(Observed::Event(Event::Recovered));
                }
                self.sample(&mut *gpu, state).await
            }
            Err(QueryError::Lost(loss)) => Some(loss),
            Err(QueryError::Unsupported(_) | QueryError::Failed) => Some(LossReason::Unanswered),
        }
    }

    /// Polls the GPU at each tick, and a last time when stopped. Returns the loss of the GPU, if any.
    async fn sample(
        &self,
        gpu: &mut (dyn Device + Send + '_),
        state: &mut State,
    ) -> Option<LossReason> {
        while let Some(tick) = state.ticker.wait(&self.clock, &self.stop).await {
            self.stats.tick(tick);
            let due = |metric: &MetricState| metric.backoff.due(tick.number);
            if let Err(loss) = self.poll(gpu, state, due, tick.number) {
                // What has happened to it is often the cause.
                self.drain_events(gpu, state);
                return Some(loss);
            }
        }
        let cheap =
            |metric: &MetricState| metric.unsupported.is_none() && !metric.backoff.is_slowed();
        // A loss at the end is not reported.
        let _ = self.poll(gpu, state, cheap, 0);
        self.drain_events(gpu, state);
        if state.metrics[Metric::Utilization as usize].backoff.is_slowed() {
            // The last reading covers no time, but has the energy until the end.
            let utilization = Err(MissingReason::NotCollected);
            let last = Reading { at: self.clock.now(), utilization, ..state.values };
            self.emit(Observed::Reading(last));
        }
        None
    }

    /// Queries the events that have not been read yet: none are after the driver is closed.
    fn drain_events(&self, gpu: &mut dyn Device, state: &mut State) {
        let State { values, metrics, .. } = state;
        let events = &mut metrics[Metric::Events as usize];
        let until = self.clock.awake() + MAX_DRAIN;
        while events.unsupported.is_none() {
            let result = self.call(events, gpu, values, 0);
            if result.is_err() || !gpu.is_incomplete(Metric::Events) || self.clock.awake() >= until
            {
                return;
            }
        }
    }

    /// Emits a reading of a lost GPU at each tick until the retry delay has passed.
    async fn wait_for_retry(&self, state: &mut State, wait: Nanos) {
        let began = self.clock.awake();
        state.reset(self);
        while let Some(tick) = state.ticker.wait(&self.clock, &self.stop).await {
            self.stats.tick(tick);
            state.values.at = self.clock.now();
            self.emit(Observed::Reading(state.values));
            if self.clock.awake() - began >= wait {
                return;
            }
        }
    }

    /// Polls the due metrics in order.
    fn poll(
        &self,
        gpu: &mut dyn Device,
        state: &mut State,
        due: impl Fn(&MetricState) -> bool,
        tick: u64,
    ) -> Result<(), LossReason> {
        let now = self.clock.now();
        let State { values, metrics, losses, unanswered, .. } = state;
        // Slow queries of other metrics give way to the next reading.
        let has_time = || self.clock.now().since(now) < Nanos(self.max_gap().0 / 2);
        // The reading is emitted after the process list: otherwise a GPU held by a small process would
        // count as free until the next reading. A hung list blocks this GPU anyway.
        let mut read_at = None;
        let (mut answered, mut failed) = (false, false);
        for metric in metrics {
            let age = now.since(metric.polled_at);
            let due = due(metric) && (metric.metric == Metric::Utilization || has_time());
            if due {
                let before = *values;
                let result = self.call(metric, gpu, values, tick);
                // The value of a call that took long is not of the reading's time: the next one has it.
                // But a reading waits for its process list.
                if metric.metric != Metric::Processes
                    && !has_time()
                    && let Some(at) = read_at.take()
                {
                    self.emit(Observed::Reading(Reading { at, ..before }));
                }
                match result {
                    // The event set is the driver's: it has no events of a dead GPU either.
                    Ok(()) => answered |= metric.metric != Metric::Events,
                    Err(QueryError::Lost(_) | QueryError::Failed) => failed = true,
                    Err(QueryError::Unsupported(_)) => {}
                }
                *losses = match result {
                    Ok(()) => 0,
                    Err(QueryError::Lost(loss)) if *losses + 1 == LOSSES => return Err(loss),
                    Err(QueryError::Lost(_)) => *losses + 1,
                    Err(QueryError::Unsupported(_) | QueryError::Failed) => *losses,
                };
            } else if age > VALUE_LIFETIME && metric.unsupported.is_none() {
                metric.metric.clear(values);
            }
            // A GPU without utilization still emits other values; one with slow utilization emits
            // readings only when it is polled.
            let is_read = due || values.utilization == Err(MissingReason::NotSupported);
            if metric.metric == Metric::Utilization && is_read {
                read_at = Some(self.clock.now());
            }
            if metric.metric == Metric::Processes
                && let Some(at) = read_at.take()
            {
                values.at = at;
                self.emit(Observed::Reading(*values));
            }
        }
        *unanswered = if answered || !failed { 0 } else { *unanswered + 1 };
        if *unanswered == UNANSWERED_TICKS {
            *unanswered = 0;
            return gpu.loss().map_or(Ok(()), Err);
        }
        Ok(())
    }

    /// Polls one metric and updates its period. Returns the result of the query.
    fn call(
        &self,
        state: &mut MetricState,
        gpu: &mut dyn Device,
        values: &mut Reading,
        tick: u64,
    ) -> Result<(), QueryError> {
        let metric = state.metric;
        let began = self.clock.awake();
        self.stats.begin(DriverCall::Query(metric), began);
        let result = gpu.query(metric, &self.clock, values, &mut |observed| self.emit(observed));
        let cost = self.clock.awake() - began;
        state.polled_at = self.clock.now();
        self.stats.end();
        self.stats.count(metric, cost, result.is_err());

        let emit = |event| self.emit(Observed::Event(event));
        let max = if metric == Metric::Utilization { self.max_gap() } else { MAX_PERIOD };
        let limits = PeriodLimits { tick: self.tick, preferred: gpu.period(metric), max };
        let unsupported = match result {
            Err(QueryError::Unsupported(unsupported)) => Some(unsupported),
            Err(QueryError::Lost(_) | QueryError::Failed) | Ok(()) => None,
        };
        if let Some(unsupported) = unsupported {
            state.backoff.refuse(tick, limits);
            if state.unsupported.is_none() {
                let refused = state.backoff.has_answered();
                let event = if refused { Event::Refused } else { Event::Unsupported };
                emit(event(metric, unsupported));
            }
        } else {
            let is_incomplete = gpu.is_incomplete(metric);
            // Its cost is not that of one call.
            let changed = !is_incomplete && state.backoff.record(tick, cost, limits);
            if is_incomplete {
                state.backoff.repeat(tick);
            }
            if state.unsupported.is_some() {
                emit(Event::Supported(metric));
            }
            if changed {
                emit(Event::PollPeriod(metric, state.backoff.period()));
            }
        }
        state.unsupported = unsupported;
        self.stats.period(metric, state.backoff.period());
        result
    }

    /// The maximum time between two readings: with an allowance for late ticks, the time that a reading
    /// covers.
    const fn max_gap(&self) -> Nanos {
        Nanos(self.stale_after.0 / 5 * 4)
    }

    /// When a metric is polled again for the first time, in ticks: few of those that are slow are due in one tick,
    /// for this GPU and for all.
    const fn stagger(&self, metric: Metric) -> u64 {
        metric as u64 + 1 + self.gpu as u64 * Metric::ALL.len() as u64
    }

    /// Queues an observation. If the queue is full, it is dropped and counted.
    fn emit(&self, observed: Observed) {
        if !self.queue.push(Observation { gpu: self.gpu, observed }) {
            self.stats.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl State {
    fn new(sampler: &GpuSampler) -> Self {
        let polled_at = sampler.clock.now();
        let metrics = Metric::ALL.map(|metric| MetricState {
            metric,
            backoff: PollBackoff::new(sampler.stagger(metric)),
            polled_at,
            unsupported: None,
        });
        let ticker = Ticker::new(sampler.start, sampler.tick);
        Self {
            ticker,
            values: Reading::at(polled_at),
            metrics,
            retry: None,
            losses: 0,
            unanswered: 0,
        }
    }

    /// Clears all values after a loss, so that every metric is polled immediately after recovery.
    fn reset(&mut self, sampler: &GpuSampler) {
        self.values =
            Reading { utilization: Err(MissingReason::Lost), ..Reading::at(self.values.at) };
        self.losses = 0;
        self.unanswered = 0;
        for metric in &mut self.metrics {
            metric.backoff.restart(sampler.stagger(metric.metric));
        }
    }
}
