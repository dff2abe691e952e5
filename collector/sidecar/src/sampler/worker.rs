//! The thread of one GPU: asks what is due at each tick, and finds the GPU again when it was lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;
use std::time::Instant;

use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::Nanos;
use phasemeter_sources::clock::Clock;
use phasemeter_sources::nvml::{
    Driver, Event, Gpu, LossReason, Metric, Nvml, Observation, Observed, QueryError,
    UnsupportedReason, clear_metric,
};

use super::backoff::PollBackoff;
use super::ticker::Ticker;
use super::worker_stats::WorkerStats;

/// A GPU that is gone is looked for after a second, and each time twice as much later.
const RETRY_FIRST: Nanos = Nanos::SECOND;

/// A GPU comes back by hand, after a reset or a restart of the driver: looking twice a minute finds
/// it soon enough, and keeps out of the way of who repairs it.
const RETRY_MAX: Nanos = Nanos::from_secs(30);

/// A value is shown for so long after it was asked. Its metric may have become slow.
const VALUE_LIFETIME: Nanos = Nanos::from_secs(10);

/// What the thread of a GPU begins with.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) gpu: usize,
    pub(super) uuid: String,
    pub(super) driver: Driver,
    pub(super) tick: Nanos,
    pub(super) stale_after: Nanos,
    /// When tick 0 is due.
    pub(super) start: Instant,
    pub(super) sender: SyncSender<Observation>,
    pub(super) stats: Arc<WorkerStats>,
    pub(super) stop: Arc<AtomicBool>,
}

/// Where the thread is: what it carries from tick to tick, whether the GPU is there or not.
struct State {
    ticker: Ticker,
    clock: Clock,
    values: Reading,
    metrics: [MetricState; Metric::ALL.len()],
    /// While the GPU is gone: how long it is left alone before it is looked for.
    retry: Option<Nanos>,
}

#[derive(Clone, Copy)]
struct MetricState {
    metric: Metric,
    backoff: PollBackoff,
    /// When it was asked last.
    polled_at: Instant,
    /// Why it is not supported, once that was said.
    lack: Option<UnsupportedReason>,
}

impl Worker {
    /// Samples until it is stopped. `nvml` is the driver as it was found; where it goes, it is
    /// opened again.
    pub(super) fn run(&self, nvml: Arc<Nvml>) {
        let mut state = State::new(self);
        let mut open = Some(nvml);
        while !self.stop.load(Ordering::Acquire) {
            let Some(loss) = self.generation(open.take(), &mut state) else { return };
            let retry = match state.retry {
                Some(retry) => retry.saturating_mul(2).min(RETRY_MAX),
                None => {
                    self.emit(Observed::Event(Event::Lost(loss)));
                    RETRY_FIRST
                }
            };
            state.retry = Some(retry);
            self.wait_for_retry(&mut state, retry);
        }
    }

    /// One generation of the driver: as long as it and the GPU are there. After it nothing of the
    /// driver is held: it would stand in the way of the GPU's reset, or of another driver.
    fn generation(&self, open: Option<Arc<Nvml>>, state: &mut State) -> Option<LossReason> {
        let open = open.map_or_else(|| self.driver.open().map(Arc::new), Ok);
        let Ok(nvml) = open else { return Some(LossReason::Driver) };
        match Gpu::find(&nvml, &self.uuid, self.stale_after) {
            Ok(gpu) => {
                if state.retry.take().is_some() {
                    self.emit(Observed::Event(Event::Recovered));
                }
                self.sample(gpu, state)
            }
            Err(QueryError::Lost(loss)) => Some(loss),
            Err(QueryError::Unsupported(_) | QueryError::Failed) => Some(LossReason::Gpu),
        }
    }

    /// Asks the GPU at each tick, and a last time when stopped. Ends with the loss of the GPU.
    fn sample(&self, mut gpu: Gpu<'_>, state: &mut State) -> Option<LossReason> {
        while let Some(tick) = state.ticker.wait(&self.stop) {
            self.stats.tick(tick);
            self.follow_clock(state, Some(&mut gpu));
            let due = |metric: &MetricState| metric.backoff.due(tick.number);
            if let Err(loss) = self.poll(&mut gpu, state, due, tick.number) {
                return Some(loss);
            }
        }
        let cheap = |metric: &MetricState| metric.lack.is_none() && !metric.backoff.is_slowed();
        // Whether it is lost now is no news any more.
        let _ = self.poll(&mut gpu, state, cheap, 0);
        None
    }

    /// Says at each tick that the GPU is gone, for so long.
    fn wait_for_retry(&self, state: &mut State, wait: Nanos) {
        let began = Instant::now();
        state.reset();
        while let Some(tick) = state.ticker.wait(&self.stop) {
            self.stats.tick(tick);
            self.follow_clock(state, None);
            state.values.at = state.clock.now();
            self.emit(Observed::Reading(state.values));
            if Nanos::from(began.elapsed()) >= wait {
                return;
            }
        }
    }

    /// Asks the metrics that are due, in their order.
    fn poll(
        &self,
        gpu: &mut Gpu<'_>,
        state: &mut State,
        due: impl Fn(&MetricState) -> bool,
        tick: u64,
    ) -> Result<(), LossReason> {
        let now = Instant::now();
        let State { clock, values, metrics, .. } = state;
        // The reading waits for the process list: without it a GPU that a small process holds
        // would be free until the next. A list that hangs holds up this thread anyway.
        let mut read_at = None;
        for metric in metrics {
            let due = due(metric);
            let age = Nanos::from(now.saturating_duration_since(metric.polled_at));
            if due {
                self.call(metric, gpu, clock, values, tick)?;
            } else if age > VALUE_LIFETIME && metric.lack.is_none() {
                clear_metric(metric.metric, values);
            }
            // A GPU without utilization still tells the rest; one whose utilization is slow tells
            // nothing in between.
            let is_read = due || values.utilization == Err(MissingReason::NotSupported);
            if metric.metric == Metric::Utilization && is_read {
                read_at = Some(clock.now());
            }
            if metric.metric == Metric::Processes
                && let Some(at) = read_at.take()
            {
                values.at = at;
                self.emit(Observed::Reading(*values));
            }
        }
        Ok(())
    }

    /// Asks one metric and sees to its cadence.
    fn call(
        &self,
        state: &mut MetricState,
        gpu: &mut Gpu<'_>,
        clock: &Clock,
        values: &mut Reading,
        tick: u64,
    ) -> Result<(), LossReason> {
        let metric = state.metric;
        let began = Instant::now();
        self.stats.begin(metric, began);
        let answer = gpu.query(metric, clock, values, |observed| self.emit(observed));
        state.polled_at = Instant::now();
        let cost = Nanos::from(state.polled_at - began);
        self.stats.end(metric, cost, answer.is_err());

        let emit = |event| self.emit(Observed::Event(event));
        let lack = match answer {
            Err(QueryError::Lost(loss)) => return Err(loss),
            Err(QueryError::Unsupported(lack)) => Some(lack),
            Err(QueryError::Failed) | Ok(()) => None,
        };
        if let Some(lack) = lack {
            state.backoff.unsupported(tick, self.tick);
            if state.lack.is_none() {
                emit(Event::Unsupported(metric, lack));
            }
        } else {
            let changed = state.backoff.record(tick, self.tick, cost, gpu.period(metric));
            if state.lack.is_some() {
                emit(Event::Supported(metric));
            }
            if changed {
                emit(Event::PollPeriod(metric, state.backoff.period()));
            }
        }
        state.lack = lack;
        self.stats.period(metric, state.backoff.period());
        Ok(())
    }

    fn follow_clock(&self, state: &mut State, gpu: Option<&mut Gpu<'_>>) {
        if let Some(step) = state.clock.detect_step() {
            gpu.into_iter().for_each(Gpu::reset_clock);
            self.emit(Observed::Event(Event::ClockStepped(step)));
        }
    }

    /// Never waits: what finds the channel full is counted and gone.
    fn emit(&self, observed: Observed) {
        if self.sender.try_send(Observation { gpu: self.gpu, observed }).is_err() {
            self.stats.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl State {
    fn new(worker: &Worker) -> Self {
        let clock = Clock::start();
        let polled_at = Instant::now();
        let metrics = Metric::ALL.map(|metric| MetricState {
            metric,
            backoff: PollBackoff::new(metric as u64 + 1),
            polled_at,
            lack: None,
        });
        let ticker = Ticker::new(worker.start, worker.tick);
        Self { ticker, clock, values: Reading::at(clock.now()), metrics, retry: None }
    }

    /// The GPU is gone: nothing is known of it, and all is asked at once when it is back.
    fn reset(&mut self) {
        self.values =
            Reading { utilization: Err(MissingReason::Lost), ..Reading::at(self.values.at) };
        for metric in &mut self.metrics {
            metric.backoff = PollBackoff::new(metric.metric as u64 + 1);
        }
    }
}
