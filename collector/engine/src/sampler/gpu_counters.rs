//! Statistics of the sampling of one GPU: written by its thread, read by any.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::duration_histogram::{Counts, Durations, quantiles};
use phasemeter_sources::live::{DriverCall, Metric};

use super::stats::{GpuStats, MetricStats, SamplerStats};
use super::ticker::Tick;

const METRICS: usize = Metric::ALL.len();

/// No call is in progress.
const NO_CALL: u64 = 0;

/// The bits of a [`Call`] that identify its purpose; the others are its start in µs.
const CALL_BITS: u32 = 8;

/// The number of a purpose in a [`Call`], never zero.
const fn number(purpose: DriverCall) -> u64 {
    match purpose {
        DriverCall::Search => 1,
        DriverCall::Close => 2,
        DriverCall::Query(metric) => metric as u64 + 3,
    }
}

/// The purpose with this number.
fn purpose(number: u64) -> Option<DriverCall> {
    match number {
        1 => Some(DriverCall::Search),
        2 => Some(DriverCall::Close),
        query => {
            let place = usize::try_from(query.checked_sub(3)?).ok()?;
            Metric::ALL.get(place).copied().map(DriverCall::Query)
        }
    }
}

/// Counters of the sampling of one GPU.
#[derive(Debug)]
pub(crate) struct GpuCounters {
    ticks: AtomicU64,
    missed: AtomicU64,
    pub(crate) dropped: AtomicU64,
    lateness: Durations,
    call: AtomicU64,
    metrics: [MetricCounters; METRICS],
}

#[derive(Debug, Default)]
struct MetricCounters {
    calls: Durations,
    failed: AtomicU64,
    total: AtomicU64,
    period: AtomicU64,
}

/// A handle on the statistics of all GPUs of a sampler, during sampling and after.
#[derive(Clone, Debug, Default)]
pub struct StatsHandle(Arc<Mutex<Vec<Arc<GpuCounters>>>>);

/// A call in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// What it is made for.
    pub(crate) purpose: DriverCall,
    /// Its start in µs of time awake.
    began: u64,
}

impl GpuCounters {
    pub(crate) fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            lateness: Durations::default(),
            call: AtomicU64::new(NO_CALL),
            metrics: Default::default(),
        }
    }

    /// Records a tick.
    pub(crate) fn tick(&self, tick: Tick) {
        self.ticks.fetch_add(1, Ordering::Relaxed);
        self.missed.fetch_add(tick.missed, Ordering::Relaxed);
        self.lateness.add(tick.late);
    }

    /// Records the start of a call. `now` is time awake: a suspended machine hangs in no call.
    pub(crate) fn begin(&self, purpose: DriverCall, now: Nanos) {
        let word = (micros(now) << CALL_BITS) | number(purpose);
        self.call.store(word, Ordering::Relaxed);
    }

    /// Records the end of a call.
    pub(crate) fn end(&self) {
        self.call.store(NO_CALL, Ordering::Relaxed);
    }

    /// Records the cost of a query.
    pub(crate) fn count(&self, metric: Metric, cost: Nanos, failed: bool) {
        if let Some(stats) = self.metrics.get(metric as usize) {
            stats.calls.add(cost);
            stats.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
            stats.total.fetch_add(cost.0, Ordering::Relaxed);
        }
    }

    /// Records the poll period of a metric.
    pub(crate) fn period(&self, metric: Metric, period: Nanos) {
        if let Some(stats) = self.metrics.get(metric as usize) {
            stats.period.store(period.0, Ordering::Relaxed);
        }
    }

    /// The call in progress and its duration so far.
    pub(crate) fn call(&self, now: Nanos) -> Option<(Call, Nanos)> {
        let word = self.call.load(Ordering::Relaxed);
        let purpose = purpose(word & ((1 << CALL_BITS) - 1))?;
        let call = Call { purpose, began: word >> CALL_BITS };
        let micros = micros(now).saturating_sub(call.began);
        Some((call, Nanos(micros.saturating_mul(1_000))))
    }

    pub(crate) fn stats(&self) -> GpuStats {
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed);
        let metric = |(metric, stats): (Metric, &MetricCounters)| MetricStats {
            metric,
            period: Nanos(load(&stats.period)),
            calls: Counts::of(std::iter::once(&stats.calls)).total(),
            failed: load(&stats.failed),
            total: Nanos(load(&stats.total)),
            max: stats.calls.max(),
        };
        GpuStats {
            ticks: load(&self.ticks),
            missed: load(&self.missed),
            dropped: load(&self.dropped),
            lateness: quantiles(std::iter::once(&self.lateness)),
            metrics: Metric::ALL.into_iter().zip(&self.metrics).map(metric).collect(),
        }
    }
}

const fn micros(nanos: Nanos) -> u64 {
    nanos.0 / 1_000
}

impl StatsHandle {
    pub(super) fn add(&self, counters: Arc<GpuCounters>) {
        self.gpus().push(counters);
    }

    fn gpus(&self) -> MutexGuard<'_, Vec<Arc<GpuCounters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The punctuality and cost of sampling.
    #[must_use]
    pub fn stats(&self) -> SamplerStats {
        let gpus = self.gpus();
        SamplerStats {
            lateness: quantiles(gpus.iter().map(|stats| &stats.lateness)),
            gpus: gpus.iter().map(|stats| stats.stats()).collect(),
        }
    }

    /// Lateness of ticks, over all GPUs.
    #[must_use]
    pub fn lateness(&self) -> Counts {
        Counts::of(self.gpus().iter().map(|stats| &stats.lateness))
    }

    /// Durations of a metric's calls, over all GPUs.
    #[must_use]
    pub fn calls(&self, metric: Metric) -> Counts {
        let gpus = self.gpus();
        let metrics = gpus.iter().filter_map(|stats| stats.metrics.get(metric as usize));
        Counts::of(metrics.map(|stats| &stats.calls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_is_visible_while_in_progress() {
        let start = Nanos::from_secs(1_000);
        let stats = GpuCounters::new();
        assert_eq!(stats.call(start), None);
        let queries = Metric::ALL.map(DriverCall::Query);
        for purpose in [DriverCall::Search, DriverCall::Close].into_iter().chain(queries) {
            stats.begin(purpose, start + Nanos::SECOND);
            let (call, lasts) = stats.call(start + Nanos::from_millis(3_500)).unwrap();
            assert_eq!((call.purpose, lasts), (purpose, Nanos::from_millis(2_500)));
            stats.end();
            assert_eq!(stats.call(start), None);
        }
    }
}
