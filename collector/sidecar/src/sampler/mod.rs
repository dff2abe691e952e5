//! Samples GPUs on one thread per GPU, with absolute deadlines.
//!
//! NVML calls block and sometimes hang. One thread per GPU keeps a slow GPU from delaying the others;
//! NVML may be called from many threads. The GPUs are staggered within a tick, which avoids most of the
//! lock contention.
//!
//! Each thread sends to a bounded channel without blocking. The thread that drains them also detects
//! hung calls.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phasemeter_meter::units::Nanos;

mod backoff;
#[cfg(test)]
mod simulation;
mod stats;
mod ticker;
mod worker;
mod worker_stats;

use phasemeter_sources::clock::Clock;
use phasemeter_sources::nvml::{Discovery, Driver, Event, Nvml, Observation, Observed};
pub use stats::{GpuStats, MetricStats, Quantiles, SamplerStats};
use worker::Worker;
pub use worker_stats::StatsHandle;
use worker_stats::{Call, WorkerStats};

/// The offset between the ticks of two GPUs: longer than the usual calls of one, to avoid contention
/// for the driver's lock; short enough to keep the processor's caches warm, which halves the cost of a
/// tick.
const STAGGER: Nanos = Nanos(200_000);

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

/// How often ending threads are polled.
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
    driver: Driver,
    config: SamplerConfig,
    /// When the first tick is due, in time awake.
    start: Nanos,
    threads: Vec<Thread>,
    stats: StatsHandle,
    stop: Arc<AtomicBool>,
    clock: Clock,
}

#[derive(Debug)]
struct Thread {
    /// What is to be started, if no thread could be.
    waiting: Option<(Worker, Arc<Nvml>)>,
    handle: Option<JoinHandle<()>>,
    observations: Receiver<Observation>,
    stats: Arc<WorkerStats>,
    /// The call that was reported as hung.
    hung: Option<Call>,
}

impl Sampler {
    /// A sampler without GPUs. Observations have the time of `clock`.
    #[must_use]
    pub fn new(driver: Driver, config: SamplerConfig, clock: Clock) -> Self {
        let config = SamplerConfig { tick: config.tick.max(SamplerConfig::MIN_TICK), ..config };
        Self {
            driver,
            config,
            start: clock.awake(),
            threads: Vec::new(),
            stats: StatsHandle::default(),
            stop: Arc::default(),
            clock,
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
        let Discovery { nvml, driver, gpus: found, .. } = discovery;
        let mut sampler = Self::new(driver, config, clock);
        for place in gpus {
            let uuid = found.get(*place).and_then(|found| found.identity.uuid.clone());
            sampler.add(uuid.unwrap_or_default(), Arc::clone(&nvml))?;
        }
        Ok(sampler)
    }

    /// Starts sampling the GPU with this UUID. Observations identify GPUs by their number, in the order
    /// in which they were added.
    ///
    /// # Errors
    /// Returns an error if no thread can be started. Each call of [`Sampler::drain`] tries again.
    pub fn add(&mut self, uuid: String, nvml: Arc<Nvml>) -> io::Result<()> {
        let SamplerConfig { tick, stale_after } = self.config;
        let gpu = self.threads.len();
        let (sender, observations) = mpsc::sync_channel(capacity(tick));
        let stats = Arc::new(WorkerStats::new());
        let worker = Worker {
            gpu,
            uuid,
            driver: self.driver.clone(),
            tick,
            stale_after,
            start: self.first_tick(gpu),
            clock: self.clock,
            sender,
            stats: Arc::clone(&stats),
            stop: Arc::clone(&self.stop),
        };
        self.stats.add(Arc::clone(&stats));
        let waiting = Some((worker, nvml));
        let mut thread = Thread { waiting, handle: None, observations, stats, hung: None };
        let started = thread.start();
        self.threads.push(thread);
        started
    }

    /// When the first tick of a GPU is due, offset from those of others: now, or if it is added late, at
    /// the next tick.
    fn first_tick(&self, gpu: usize) -> Nanos {
        let tick = self.config.tick;
        let turn = u64::try_from(gpu).unwrap_or(u64::MAX);
        let offset = STAGGER.saturating_mul(turn).0.checked_rem(tick.0).unwrap_or(0);
        let passed = (self.clock.awake() - self.start).0.checked_div(tick.0).unwrap_or(0);
        let ticks = if passed == 0 { 0 } else { passed + 1 };
        self.start + tick.saturating_mul(ticks) + Nanos(offset)
    }

    /// Returns all observations since the last call, without blocking. They are in order for each GPU.
    /// Call it a few times per second: it also detects hung calls.
    pub fn drain(&mut self, mut take: impl FnMut(Observation)) {
        let now = self.clock.awake();
        for gpu in 0..self.threads.len() {
            let start = self.first_tick(gpu);
            let Some(thread) = self.threads.get_mut(gpu) else { continue };
            if let Some((worker, _)) = &mut thread.waiting {
                worker.start = start;
                // It remains unobserved until a thread can be started.
                let _ = thread.start();
            }
            thread.observations.try_iter().for_each(&mut take);
            for event in thread.watch(now).into_iter().flatten() {
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

    /// Stops sampling after a last poll of each GPU. Threads that have not ended after `grace` hang in
    /// the driver; they are detached, and the indices of their GPUs returned. Drain once more to get
    /// the last observations.
    pub fn stop(&mut self, grace: Duration) -> Vec<usize> {
        self.end();
        let began = Instant::now();
        let running = |(gpu, thread): (usize, &Thread)| {
            (!thread.handle.as_ref()?.is_finished()).then_some(gpu)
        };
        loop {
            let left: Vec<_> = self.threads.iter().enumerate().filter_map(running).collect();
            if left.is_empty() || began.elapsed() >= grace {
                return left;
            }
            thread::sleep(JOIN_POLL);
        }
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Release);
        let handles = self.threads.iter().filter_map(|thread| thread.handle.as_ref());
        handles.for_each(|handle| handle.thread().unpark());
    }
}

/// Stops all threads.
impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Thread {
    /// Starts what waits.
    fn start(&mut self) -> io::Result<()> {
        let Some((worker, nvml)) = self.waiting.clone() else { return Ok(()) };
        let thread = thread::Builder::new().name(format!("gpu-{}", worker.gpu));
        self.handle = Some(thread.spawn(move || worker.run(nvml))?);
        self.waiting = None;
        Ok(())
    }

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

/// The capacity of a GPU's queue in observations: 100 KiB at 10 Hz.
fn capacity(tick: Nanos) -> usize {
    let ticks = BUFFER_TIME.0.checked_div(tick.0).unwrap_or(0) + 1;
    usize::try_from(ticks * MESSAGES_PER_TICK + EXTRA_MESSAGES).unwrap_or(usize::MAX)
}
