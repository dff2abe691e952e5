//! When the driver is asked, and on whose time: a thread a GPU, with absolute deadlines.
//!
//! NVML blocks, and now and then it hangs. A thread a GPU is the one mechanism that makes a slow
//! GPU cost the others nothing, from the first slow call on; NVML allows calls from many threads.
//! What one shared thread would spare is bought back by the GPUs taking turns within a tick.
//!
//! All of them feed one bounded channel, which never blocks them. The thread that drains it is the
//! watchdog as well: it is outside, and it comes by anyway.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phasemeter_meter::units::Nanos;

mod backoff;
mod stats;
mod ticker;
mod worker;
mod worker_stats;

use phasemeter_sources::nvml::{Discovery, Event, Observation, Observed};
pub use stats::{GpuStats, MetricStats, Quantiles, SamplerStats};
use worker::Worker;
pub use worker_stats::StatsHandle;
use worker_stats::{Call, WorkerStats};

/// The ticks of two GPUs are so far apart: longer than the calls of one usually take, so that they
/// do not meet at the driver's lock; short enough that each finds the processor's caches warm, which
/// halves what a tick costs.
const STAGGER: Nanos = Nanos(200_000);

/// Observations wait for whoever drains them this long before one is dropped: as long as anything
/// may be late, so that a pipeline that stands still for longer has lost them anyway.
const BUFFER_TIME: Nanos = Nanos::from_secs(15);

/// Messages of one GPU in one tick, at the most over any length of time: a reading, and beside it
/// an activity every other tick and some events.
const MESSAGES_PER_TICK: u64 = 2;

/// Messages beside: a whole ring of samples, drained twice while the pipeline stands still, and a
/// dozen measurements a second.
const EXTRA_MESSAGES: u64 = 256 + 12 * 15;

/// A call that lasts longer is stuck. Readings hold for a second at least, so a shorter one costs
/// no observed time.
const HUNG_AFTER: Nanos = Nanos::SECOND;

/// How often threads are looked at while they end.
const JOIN_POLL: Duration = Duration::from_millis(5);

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerConfig {
    /// The time between ticks: that of the fastest metrics.
    pub tick: Nanos,
    /// How long a sample of the driver may cover.
    pub stale_after: Nanos,
}

impl SamplerConfig {
    /// 10 Hz.
    pub const DEFAULT_TICK: Nanos = Nanos::from_millis(100);

    /// The fastest that is of any use: no driver's value changes more often.
    pub const MIN_TICK: Nanos = Nanos::from_millis(10);
}

/// Samples GPUs until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    threads: Vec<Thread>,
    observations: Receiver<Observation>,
    stop: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Thread {
    handle: JoinHandle<()>,
    stats: Arc<WorkerStats>,
    /// The call that was said to be stuck.
    hung: Option<Call>,
}

impl Sampler {
    /// Starts sampling the GPUs at these places of the discovery; observations name them by their
    /// place in `gpus`.
    ///
    /// # Errors
    /// Where the system has no more threads.
    pub fn start(discovery: Discovery, gpus: &[usize], config: SamplerConfig) -> io::Result<Self> {
        // The discovery's own hold on the driver ends here.
        let Discovery { nvml, driver, gpus: found, .. } = discovery;
        let tick = config.tick.max(SamplerConfig::MIN_TICK);
        let count = u64::try_from(gpus.len().max(1)).unwrap_or(u64::MAX);
        let (sender, observations) = mpsc::sync_channel(capacity(count, tick));
        let stop = Arc::new(AtomicBool::new(false));
        let mut sampler = Self { threads: Vec::new(), observations, stop };
        let apart = STAGGER.min(Nanos(tick.0 / count));
        let start = Instant::now();
        for ((gpu, place), turn) in gpus.iter().enumerate().zip(0..) {
            let uuid = found.get(*place).and_then(|found| found.identity.uuid.clone());
            let stats = Arc::new(WorkerStats::new(start));
            let worker = Worker {
                gpu,
                uuid: uuid.unwrap_or_default(),
                driver: driver.clone(),
                tick,
                stale_after: config.stale_after,
                start: start + Duration::from_nanos(apart.0 * turn),
                sender: sender.clone(),
                stats: Arc::clone(&stats),
                stop: Arc::clone(&sampler.stop),
            };
            let nvml = Arc::clone(&nvml);
            let thread = thread::Builder::new().name(format!("gpu-{gpu}"));
            let handle = thread.spawn(move || worker.run(nvml))?;
            sampler.threads.push(Thread { handle, stats, hung: None });
        }
        Ok(sampler)
    }

    /// Takes all that was observed since the last time, without waiting. In the order of each GPU's
    /// events; readings of several GPUs are mixed. To be called a few times a second: a call that
    /// is stuck is found out here.
    pub fn drain(&mut self, mut take: impl FnMut(Observation)) {
        self.observations.try_iter().for_each(&mut take);
        let now = Instant::now();
        for (gpu, thread) in self.threads.iter_mut().enumerate() {
            for event in thread.watch(now).into_iter().flatten() {
                take(Observation { gpu, observed: Observed::Event(event) });
            }
        }
    }

    /// What sampling costs and how well it keeps time.
    #[must_use]
    pub fn stats(&self) -> SamplerStats {
        self.stats_handle().stats()
    }

    /// A handle on that, for whoever watches from another thread.
    #[must_use]
    pub fn stats_handle(&self) -> StatsHandle {
        StatsHandle::new(self.threads.iter().map(|thread| Arc::clone(&thread.stats)).collect())
    }

    /// Stops: each GPU is asked a last time, its ring drained. Threads that have not ended after
    /// `grace` hang in the driver; they are left to themselves, and their places returned. What was
    /// observed until now is still to be drained.
    pub fn stop(&mut self, grace: Duration) -> Vec<usize> {
        self.end();
        let began = Instant::now();
        let running =
            |(gpu, thread): (usize, &Thread)| (!thread.handle.is_finished()).then_some(gpu);
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
        self.threads.iter().for_each(|thread| thread.handle.thread().unpark());
    }
}

/// However it ends, the threads end with it.
impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Thread {
    /// What is new about its call.
    fn watch(&mut self, now: Instant) -> [Option<Event>; 2] {
        let call = self.stats.call(now);
        let hung = call.filter(|(_, lasts)| *lasts > HUNG_AFTER).map(|(call, _)| call);
        let before = self.hung;
        if hung == before {
            return [None, None];
        }
        self.hung = hung;
        [
            before.map(|call| Event::CallRecovered(call.metric)),
            hung.map(|call| Event::CallHung(call.metric)),
        ]
    }
}

/// How many observations wait at most: 75 KiB a GPU at 10 Hz.
fn capacity(gpus: u64, tick: Nanos) -> usize {
    let ticks = BUFFER_TIME.0.checked_div(tick.0).unwrap_or(0) + 1;
    let messages = gpus.max(1).saturating_mul(ticks * MESSAGES_PER_TICK + EXTRA_MESSAGES);
    usize::try_from(messages).unwrap_or(usize::MAX)
}
