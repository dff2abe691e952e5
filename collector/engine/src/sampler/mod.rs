//! Samples GPUs at ticks with absolute deadlines.
//!
//! Calls of a driver block and sometimes hang. GPUs take turns on one thread while none does; the others go on
//! without one that does, on another thread, as drivers may be called from many.
//!
//! Each GPU has a limited queue of observations. The thread that drains them also detects hung calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_meter::units::Nanos;

mod backoff;
#[cfg(test)]
mod driver_tests;
mod gpu_counters;
mod gpu_sampler;
mod queue;
#[cfg(test)]
mod simulation;
mod stats;
mod ticker;
mod turns;

pub use gpu_counters::StatsHandle;
use gpu_counters::{Call, GpuCounters};
use gpu_sampler::GpuSampler;
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::{Discovery, Driver, Event, Observation, Observed, OpenDriver};
use queue::Queue;
pub use stats::{GpuStats, MetricStats, Quantiles, SamplerStats};
use ticker::Ticker;
use turns::Turns;

/// Observations are queued for this long before any is dropped: the allowed lateness, after which
/// they would be rejected anyway.
const BUFFER_TIME: Nanos = Nanos::from_secs(15);

/// The maximum number of messages per tick, over any period: a reading, an activity every
/// other tick, and occasional events.
const MESSAGES_PER_TICK: u64 = 2;

/// Further messages: a full ring of driver samples, drained twice while the pipeline is stalled, 14
/// device metrics per second, and every ten seconds those of 18 NVLink links, fans or MIG instances.
const EXTRA_MESSAGES: u64 = 256 + 14 * 15 + 2 * 110;

/// A longer call is hung. Readings are stale after a second at the earliest, so a shorter call loses no
/// observed time.
const HUNG_AFTER: Nanos = Nanos::SECOND;

/// How often it is checked whether sampling has ended.
const JOIN_POLL: Duration = Duration::from_millis(5);

/// Configuration of a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerConfig {
    /// The time between ticks: the period of the fastest metrics.
    pub tick: Nanos,
    /// The maximum time that a driver sample may cover.
    pub stale_after: Nanos,
}

impl SamplerConfig {
    /// The default, 10 Hz.
    pub const DEFAULT_TICK: Nanos = Nanos::from_millis(100);

    /// The minimum: no driver value changes more often.
    pub const MIN_TICK: Nanos = Nanos::from_millis(10);
}

/// Samples GPUs until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    driver: Arc<dyn Driver>,
    config: SamplerConfig,
    /// When the first tick is due, in time awake.
    start: Nanos,
    gpus: Vec<Sampled>,
    turns: Arc<Turns>,
    stats: StatsHandle,
    stop: Arc<AtomicBool>,
    clock: Clock,
    /// For draining.
    buffer: Vec<Observation>,
}

/// A GPU that is sampled.
#[derive(Debug)]
struct Sampled {
    queue: Arc<Queue>,
    stats: Arc<GpuCounters>,
    /// The call that was reported as hung.
    hung: Option<Call>,
}

impl Sampler {
    /// How long the end of a run waits for calls of the driver: one that takes longer hangs.
    pub const GRACE: Duration = Duration::from_secs(1);

    /// A sampler without GPUs. Observations have the time of `clock`.
    #[must_use]
    pub fn new(driver: Arc<dyn Driver>, config: SamplerConfig, clock: Clock) -> Self {
        let config = SamplerConfig { tick: config.tick.max(SamplerConfig::MIN_TICK), ..config };
        let (start, stop) = (clock.awake(), Arc::default());
        let turns = Turns::new(Ticker::new(start, config.tick), clock, Arc::clone(&stop));
        Self {
            driver,
            config,
            start,
            gpus: Vec::new(),
            turns: Arc::new(turns),
            stats: StatsHandle::default(),
            stop,
            clock,
            buffer: Vec::new(),
        }
    }

    /// Starts sampling the GPUs at these indices of the discovery; observations identify them by their
    /// index in `gpus`, and have the time of `clock`.
    ///
    /// # Errors
    /// Returns an error if a thread cannot be started.
    pub fn start(
        discovery: Discovery,
        gpus: &[usize],
        config: SamplerConfig,
        clock: Clock,
    ) -> io::Result<Self> {
        // Drops the rest of the discovery.
        let Discovery { open, driver, gpus: found, .. } = discovery;
        let mut sampler = Self::new(driver, config, clock);
        for place in gpus {
            let uuid = found.get(*place).and_then(|found| found.identity.uuid.clone());
            sampler.add(uuid.unwrap_or_default(), Arc::clone(&open))?;
        }
        Ok(sampler)
    }

    /// Starts sampling the GPU with this UUID. Observations identify GPUs by their number, in the order
    /// in which they were added.
    ///
    /// # Errors
    /// Returns an error if no thread can be started. Each call of [`Sampler::drain`] tries again.
    pub fn add(&mut self, uuid: String, open: Arc<dyn OpenDriver>) -> io::Result<()> {
        let SamplerConfig { tick, stale_after } = self.config;
        let queue = Arc::new(Queue::new(capacity(tick)));
        let stats = Arc::new(GpuCounters::new());
        let gpu_sampler = GpuSampler {
            gpu: self.gpus.len(),
            uuid,
            driver: Arc::clone(&self.driver),
            tick,
            stale_after,
            start: self.first_tick(),
            clock: self.clock,
            queue: Arc::clone(&queue),
            stats: Arc::clone(&stats),
            stop: Arc::clone(&self.stop),
        };
        self.stats.add(Arc::clone(&stats));
        self.gpus.push(Sampled { queue, stats, hung: None });
        self.turns.add(gpu_sampler.sample_from(open));
        self.turns.start_threads()
    }

    /// When the first tick of a GPU is due: now, or if it is added late, at the next tick.
    fn first_tick(&self) -> Nanos {
        let tick = self.config.tick;
        let passed = (self.clock.awake() - self.start).0.checked_div(tick.0).unwrap_or(0);
        let ticks = if passed == 0 { 0 } else { passed + 1 };
        self.start + tick.saturating_mul(ticks)
    }

    /// Returns all observations since the last call, without blocking. They are in order for each GPU.
    /// Call it a few times per second: it also detects hung calls.
    pub fn drain(&mut self, mut take: impl FnMut(Observation)) {
        // All remain unobserved until a thread can be started.
        let _ = self.turns.start_threads();
        let now = self.clock.awake();
        for (gpu, sampled) in self.gpus.iter_mut().enumerate() {
            sampled.queue.drain(&mut self.buffer, &mut take);
            for event in sampled.watch(now).into_iter().flatten() {
                take(Observation { gpu, observed: Observed::Event(event) });
            }
        }
    }

    /// The punctuality and cost of sampling.
    #[must_use]
    pub fn stats(&self) -> SamplerStats {
        self.stats_handle().stats()
    }

    /// A handle on the statistics, for other threads.
    #[must_use]
    pub fn stats_handle(&self) -> StatsHandle {
        self.stats.clone()
    }

    /// Stops sampling after a last poll of each GPU. GPUs whose sampling has not ended after `grace` hang in
    /// the driver; their threads are detached, and their indices returned. Drain once more to get the last
    /// observations.
    pub fn stop(&mut self, grace: Duration) -> Vec<usize> {
        self.end();
        let began = Instant::now();
        loop {
            let left = self.turns.unfinished();
            if left.is_empty() || began.elapsed() >= grace {
                return left;
            }
            thread::sleep(JOIN_POLL);
        }
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.turns.wake();
    }
}

/// Stops all threads.
impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Sampled {
    /// Events if its call has hung or recovered since the last time.
    fn watch(&mut self, now: Nanos) -> [Option<Event>; 2] {
        let call = self.stats.call(now);
        let hung = call.filter(|(_, lasts)| *lasts > HUNG_AFTER).map(|(call, _)| call);
        let before = self.hung;
        if hung == before {
            return [None, None];
        }
        self.hung = hung;
        [
            before.map(|call| Event::CallRecovered(call.purpose)),
            hung.map(|call| Event::CallHung(call.purpose)),
        ]
    }
}

/// The capacity of a GPU's queue in observations.
fn capacity(tick: Nanos) -> usize {
    let ticks = BUFFER_TIME.0.checked_div(tick.0).unwrap_or(0) + 1;
    usize::try_from(ticks * MESSAGES_PER_TICK + EXTRA_MESSAGES).unwrap_or(usize::MAX)
}
