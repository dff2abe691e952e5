//! Runs a plan: samples GPUs one after another on the scripted driver, by clocks that a
//! fault only advances; then the pipeline, on what they observed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fake_nvml::{Control, Fake};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::Request;
use phasemeter_otlp::encode::ExportSettings;
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceId};
use phasemeter_sources::clock::{Clock, ClockReading, TimeSource};
use phasemeter_sources::live::nvml::NvmlDriver;
use phasemeter_sources::live::{Event, Observation, Observed, discover};

use super::plan::{GPUS, Plan, start};
use crate::alert_rules::AlertRules;
use crate::pipeline::{Pipeline, Settings};
use crate::policies::{PolicyResults, Quotes};
use crate::pricing::{PriceOptions, Pricing};
use crate::sampler::gpu_counters::GpuCounters;
use crate::sampler::gpu_sampler::GpuSampler;
use crate::sampler::queue::Queue;
use crate::sampler::ticker::Ticker;
use crate::sampler::turns::Turns;

/// The machine started a day before.
const UPTIME: Nanos = Nanos::from_secs(86_400);

/// The price of a GPU-hour in nano-dollars.
pub(super) const RATE: u64 = 3_300_000_001;

/// The interval at which a run drains its sampler.
const DRAIN_INTERVAL: Nanos = Nanos::from_millis(250);

/// What was metered, reported and exported.
pub(super) struct Outcome {
    pub(super) summaries: Vec<Summary>,
    pub(super) events: Vec<Vec<Event>>,
    pub(super) requests: Vec<Request>,
}

/// The simulation in this thread.
struct Simulation {
    control: Control,
    end: Nanos,
    stop: Arc<AtomicBool>,
    queue: Arc<Queue>,
    buffer: Vec<Observation>,
    /// What was observed, with the time of its arrival.
    observed: Vec<(Nanos, Observation)>,
    /// Steps of the wall clock in milliseconds.
    steps: Vec<(Nanos, i64)>,
    /// When the machine is suspended, and for how long.
    suspensions: Vec<(Nanos, Nanos)>,
}

thread_local! {
    static SIMULATION: RefCell<Option<Simulation>> = const { RefCell::new(None) };
}

fn simulated<T>(f: impl FnOnce(&mut Simulation) -> T) -> T {
    SIMULATION.with_borrow_mut(|simulation| f(simulation.as_mut().unwrap()))
}

impl Simulation {
    fn now(&self) -> Nanos {
        self.control.time().unwrap()
    }

    fn clocks(&self) -> ClockReading {
        let now = self.now();
        let steps = self.steps.iter().filter(|(at, _)| *at <= now).map(|(_, millis)| *millis);
        let wall = start() + now;
        let wall = wall.as_nanos().saturating_add_signed(steps.sum::<i64>() * 1_000_000);
        let wall = Timestamp::from_nanos(wall).unwrap();
        let suspended = self.suspensions.iter().map(|(at, lasts)| (now - *at).min(*lasts));
        let awake = UPTIME + (now - suspended.sum());
        ClockReading { boot: UPTIME + now, awake, wall, gap: Nanos::ZERO }
    }

    fn receive(&mut self) {
        let now = self.now();
        let observed = &mut self.observed;
        self.queue.drain(&mut self.buffer, |observation| observed.push((now, observation)));
    }

    fn wait(&mut self, duration: Duration) {
        self.receive();
        let before = self.now();
        let mut now = before + Nanos::from(duration);
        for (at, lasts) in &self.suspensions {
            // Nothing runs until it is over.
            if before < *at && *at <= now {
                now += *lasts;
            }
        }
        self.control.set_time(now).unwrap();
        self.stop.store(now >= self.end, Ordering::Release);
    }
}

const SIMULATED: TimeSource = TimeSource::Simulated {
    read: || simulated(|simulation| simulation.clocks()),
    wait: |duration| simulated(|simulation| simulation.wait(duration)),
};

impl Plan {
    /// Samples all GPUs one after another, and meters what they observed.
    pub(super) fn run(&self) -> Outcome {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::install(dir.path(), &self.script()).unwrap();
        let control = fake.load().unwrap();
        let discovery = discover(Arc::new(NvmlDriver::at(fake.library()))).unwrap();
        let gpus: Vec<_> = discovery.gpus.iter().map(|gpu| gpu.identity.clone()).collect();
        assert_eq!(gpus.len(), GPUS);
        let (driver, open) = (discovery.driver, discovery.open);
        let (stop, end) = (Arc::new(AtomicBool::new(false)), self.length);
        let queue = Arc::new(Queue::new(4_096));
        let millis = |(at, by): (&u64, &i64)| (Nanos::from_millis(*at), *by);
        let steps = self.steps.iter().map(millis).collect();
        let suspended =
            |(at, lasts): (&u64, &u64)| (Nanos::from_millis(*at), Nanos::from_millis(*lasts));
        let suspensions = self.suspensions.iter().map(suspended).collect();
        let state = Simulation {
            control,
            end,
            stop: Arc::clone(&stop),
            queue: Arc::clone(&queue),
            buffer: Vec::new(),
            observed: Vec::new(),
            steps,
            suspensions,
        };
        SIMULATION.set(Some(state));

        for (gpu, identity) in gpus.iter().enumerate() {
            simulated(|simulation| simulation.control.set_time(Nanos::ZERO)).unwrap();
            stop.store(false, Ordering::Release);
            let clock = Clock::starting(SIMULATED);
            let (start, stats) = (clock.awake(), Arc::new(GpuCounters::new()));
            let gpu_sampler = GpuSampler {
                gpu,
                uuid: identity.uuid.clone().unwrap(),
                driver: Arc::clone(&driver),
                tick: self.tick,
                stale_after: self.stale_after(),
                start,
                clock,
                queue: Arc::clone(&queue),
                stats: Arc::clone(&stats),
                stop: Arc::clone(&stop),
            };
            let turns = Turns::new(Ticker::new(start, self.tick), clock, Arc::clone(&stop));
            turns.add(gpu_sampler.sample_from(Arc::clone(&open)));
            Arc::new(turns).lead();
            simulated(Simulation::receive);
            assert_eq!(stats.dropped.load(Ordering::Relaxed), 0);
        }
        let outcome = self.meter(&gpus);
        SIMULATION.set(None);
        drop(open);
        outcome
    }

    /// Meters the observations in the order of their arrival.
    fn meter(&self, gpus: &[GpuIdentity]) -> Outcome {
        let mut observed = simulated(|simulation| std::mem::take(&mut simulation.observed));
        observed.sort_by_key(|(arrival, _)| *arrival);
        simulated(|simulation| simulation.control.set_time(Nanos::ZERO)).unwrap();
        let clock = Clock::starting(SIMULATED);
        let mut watch = clock.watch();
        let requests = RefCell::new(Vec::new());
        let rate = Rate::new(RATE).unwrap();
        let given = PriceOptions { given: Some(rate), ..PriceOptions::default() };
        let settings = Settings {
            meter: MeterConfig {
                allowed_lateness: MeterConfig::LIVE_ALLOWED_LATENESS,
                stale_after: StaleAfter::Fixed(self.stale_after()),
                basis: Basis::NvmlSamples,
                ..MeterConfig::default()
            },
            pricing: Pricing::new(given, Quotes::default(), PriceBook::built_in()),
            alerts: AlertRules::default(),
            work: BTreeMap::new(),
            export: Some((
                ExportSettings::default(),
                Box::new(|outgoing| {
                    requests.borrow_mut().extend(outgoing.requests);
                    Ok(())
                }),
            )),
        };
        let kind = ExperimentKind::Command { trace: TraceId::random() };
        let experiment = ExperimentRequest::default().open(clock.now(), kind);
        let mut pipeline = Pipeline::live(settings, experiment, &BTreeMap::new());
        gpus.iter().for_each(|gpu| pipeline.add(gpu, clock.now()));
        let mut events = vec![Vec::new(); GPUS];
        let (mut observed, mut now) = (observed.into_iter().peekable(), Nanos::ZERO);
        while now < self.length {
            now += DRAIN_INTERVAL;
            simulated(|simulation| simulation.control.set_time(now)).unwrap();
            if let Some(step) = watch.check().step {
                pipeline.step_wall_clock(&step).unwrap();
            }
            // The last poll, and calls that hang at the end.
            let until = if now < self.length { now } else { Nanos(u64::MAX) };
            if now >= self.length {
                pipeline.end_at(start() + self.length);
            }
            while let Some((_, Observation { gpu, observed })) =
                observed.next_if(|(arrival, _)| *arrival <= until)
            {
                match observed {
                    Observed::Reading(reading) => {
                        pipeline.ingest(gpu, &reading, gpus).unwrap().unwrap();
                    }
                    Observed::Interval(interval) => {
                        pipeline.ingest_interval(gpu, interval);
                    }
                    Observed::Event(event) => events[gpu].push(event),
                    Observed::Activity(_)
                    | Observed::DeviceMetric(_)
                    | Observed::Process(_)
                    | Observed::ProcessUse(_)
                    | Observed::MigMode(_)
                    | Observed::MigInstance(_) => {}
                }
            }
        }
        let run = pipeline.finish(gpus, |_| PolicyResults::default()).unwrap();
        let summaries = run.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
        drop(run);
        Outcome { summaries, events, requests: requests.into_inner() }
    }
}
