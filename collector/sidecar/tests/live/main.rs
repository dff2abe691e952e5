//! Live tests on the scripted driver: the sampler in this process, and the binary.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fake_nvml::{Control, Fake, Model};
use phasemeter_engine::sampler::{Sampler, SamplerConfig, SamplerStats};
use phasemeter_meter::device_metric::DeviceMetric;
use phasemeter_meter::reading::{Interval, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::live::nvml::NvmlDriver;
use phasemeter_sources::live::{
    Discovery, Driver, DriverError, Event, Observation, Observed, ProcessUse, discover,
};
// For the generator of policy directories.
use policies as support;

mod addresses;
mod agent_accounts;
mod alerts;
mod churn;
mod claimed;
mod claims;
mod clock;
mod command_first;
mod components;
mod configuration;
mod discovery;
mod doctor;
mod driver;
mod environment;
mod experiments;
mod exports;
#[path = "../../../holders/tests/node/fake_kubelet.rs"]
#[allow(dead_code, reason = "each test uses a part")]
mod fake_kubelet;
mod faults;
mod files;
mod generations;
mod hand_over;
mod interruptions;
mod kinds;
mod limits;
mod lost;
mod mig;
#[path = "../../../otlp/tests/mock_backend/mod.rs"]
mod mock_backend;
mod mps;
#[path = "../../../../tests/otlp/mod.rs"]
mod otlp;
mod own_gpus;
#[path = "../../../../rules/tests/support/mod.rs"]
mod policies;
#[path = "../../../../rules/tests/policy_dir_trees/tree.rs"]
mod policy_dir_tree;
mod policy_reload;
#[path = "../../../../tests/audit/prng.rs"]
#[allow(dead_code, reason = "each test uses a part")]
#[allow(clippy::cast_possible_truncation, reason = "its numbers are small")]
mod prng;
mod python;
mod python_module;
#[path = "../../../../tests/registry/mod.rs"]
mod registry;
#[path = "../../../../tests/relay/mod.rs"]
mod relay;
mod reload;
mod reloads;
mod report_periods;
mod resources;
mod restart;
mod restart_continued;
mod run;
mod sensors;
mod signals;
mod soak;
mod startup;
mod supervision;
mod telemetry;
mod tokens;
mod traces;
mod values;
#[path = "../wall_clock/mod.rs"]
mod wall_clock;
mod wire_registry;
mod work;
mod xids;

/// Deadline for conditions that hold soon on an idle machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(120);

/// A scripted driver.
struct Rig {
    start: Timestamp,
    fake: Fake,
    control: Control,
    _dir: tempfile::TempDir,
}

impl Rig {
    /// The script starts when a process initializes the driver, however long that takes to start.
    fn new(script: &str) -> Self {
        Self::install(script, Timestamp::EPOCH)
    }

    /// The script starts now, for comparison with the ground truth.
    fn started(script: &str) -> Self {
        let (start, millis) = now();
        Self::install(&format!("start_unix_ms = {millis}\n{script}"), start)
    }

    /// Script time advances only by [`Rig::set_time`], so that a fault lasts until its effect was
    /// observed. For drivers loaded into this process.
    fn stepped(script: &str) -> Self {
        let (start, millis) = now();
        let rig = Self::install(
            &format!("time = \"virtual\"\nstart_unix_ms = {millis}\n{script}"),
            start,
        );
        rig.set_time(0);
        rig
    }

    fn install(script: &str, start: Timestamp) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let fake = Fake::install(dir.path(), script).unwrap();
        let control = fake.load().unwrap();
        Self { start, fake, control, _dir: dir }
    }

    fn set_time(&self, millis: u64) {
        self.control.set_time(Nanos::from_millis(millis)).unwrap();
    }

    fn driver(&self) -> Arc<dyn Driver> {
        Arc::new(NvmlDriver::at(self.fake.library()))
    }

    fn discover(&self) -> Result<Discovery, DriverError> {
        discover(self.driver())
    }

    fn model(&self) -> Model {
        self.fake.model().unwrap()
    }

    /// Time since the script's start.
    fn since(&self, at: Timestamp) -> Nanos {
        at.since(self.start)
    }

    /// Starts sampling all GPUs at 10 Hz.
    fn sample(&self) -> Sampling {
        let discovery = self.discover().unwrap();
        let all: Vec<usize> = (0..discovery.gpus.len()).collect();
        let config =
            SamplerConfig { tick: SamplerConfig::DEFAULT_TICK, stale_after: Nanos::SECOND };
        let sampler = Sampler::start(discovery, &all, config, Clock::start()).unwrap();
        let run = Run { observations: Vec::new(), stats: sampler.stats() };
        Sampling { sampler, run, began: Instant::now() }
    }

    /// Samples all GPUs at 10 Hz until a condition holds.
    fn sample_until(&self, condition: impl Fn(&Run) -> bool) -> Run {
        let mut sampling = self.sample();
        sampling.until(condition);
        sampling.stop()
    }
}

fn now() -> (Timestamp, u64) {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let millis = u64::try_from(millis).unwrap();
    (Timestamp::from_millis(millis).unwrap(), millis)
}

/// A running sampler.
struct Sampling {
    sampler: Sampler,
    run: Run,
    began: Instant,
}

impl Sampling {
    /// Drains the sampler as the pipeline does, until a condition holds.
    fn until(&mut self, condition: impl Fn(&Run) -> bool) -> &Run {
        let began = Instant::now();
        loop {
            self.drain();
            if condition(&self.run) {
                return &self.run;
            }
            let state = &self.run.observations;
            assert!(began.elapsed() < TIMEOUT, "timed out; observations: {state:#?}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn drain(&mut self) {
        let observations = &mut self.run.observations;
        self.sampler.drain(|observation| observations.push(observation));
        self.run.stats = self.sampler.stats();
    }

    /// Stops the sampler; no thread may hang.
    fn stop(mut self) -> Run {
        assert_eq!(self.sampler.stop(TIMEOUT), [0; 0], "threads that hang");
        self.drain();
        self.run
    }
}

/// Runs a test that depends on the timing of several threads or processes. If it fails while this
/// machine delayed an idle thread noticeably, the failure may be the machine's: the test is repeated,
/// a few times at most.
pub(crate) fn unless_stalled(test: impl Fn()) {
    const ATTEMPTS: u32 = 5;
    const NOTICEABLE: Duration = Duration::from_millis(20);
    for attempt in 1..=ATTEMPTS {
        let done = AtomicBool::new(false);
        let (result, stall) = thread::scope(|scope| {
            let longest_stall = scope.spawn(|| {
                let mut longest = Duration::ZERO;
                while !done.load(Ordering::Relaxed) {
                    let began = Instant::now();
                    thread::sleep(Duration::from_millis(5));
                    longest = longest.max(began.elapsed().saturating_sub(Duration::from_millis(5)));
                }
                longest
            });
            let result = catch_unwind(AssertUnwindSafe(&test));
            done.store(true, Ordering::Relaxed);
            (result, longest_stall.join().unwrap())
        });
        match result {
            Ok(()) => return,
            Err(_) if attempt < ATTEMPTS && stall > NOTICEABLE => {
                eprintln!("attempt {attempt} failed during a stall of {stall:?}: repeated");
            }
            Err(panic) => resume_unwind(panic),
        }
    }
}

/// Observations of a sampler.
struct Run {
    observations: Vec<Observation>,
    stats: SamplerStats,
}

impl Run {
    fn of(&self, gpu: usize) -> impl Iterator<Item = Observed> {
        self.observations.iter().filter(move |it| it.gpu == gpu).map(|it| it.observed)
    }

    fn readings(&self, gpu: usize) -> Vec<Reading> {
        let reading = |observed| match observed {
            Observed::Reading(reading) => Some(reading),
            _ => None,
        };
        self.of(gpu).filter_map(reading).collect()
    }

    /// What processes used.
    fn uses(&self, gpu: usize) -> Vec<ProcessUse> {
        let used = |observed| match observed {
            Observed::ProcessUse(used) => Some(used),
            _ => None,
        };
        self.of(gpu).filter_map(used).collect()
    }

    /// Driver samples and activity.
    fn intervals(&self, gpu: usize) -> Vec<Interval> {
        let intervals = |observed| match observed {
            Observed::Interval(interval) => vec![interval],
            Observed::Activity(activity) => activity.intervals().collect(),
            Observed::Reading(_)
            | Observed::DeviceMetric(_)
            | Observed::Process(_)
            | Observed::ProcessUse(_)
            | Observed::MigMode(_)
            | Observed::MigInstance(_)
            | Observed::Event(_) => Vec::new(),
        };
        self.of(gpu).flat_map(intervals).collect()
    }

    /// Device metrics without activity.
    fn device_metrics(&self, gpu: usize) -> Vec<DeviceMetric> {
        let metric = |observed| match observed {
            Observed::DeviceMetric(metric) => Some(metric),
            _ => None,
        };
        self.of(gpu).filter_map(metric).collect()
    }

    /// Events of a GPU, without changes of polling intervals: those depend on the load of the machine
    /// as well and have their own test.
    fn faults(&self, gpu: usize) -> Vec<Event> {
        let events = self.events(gpu).into_iter();
        events.filter(|event| !matches!(event, Event::PollPeriod(..))).collect()
    }

    fn events(&self, gpu: usize) -> Vec<Event> {
        let event = |observed| match observed {
            Observed::Event(event) => Some(event),
            _ => None,
        };
        self.of(gpu).filter_map(event).collect()
    }
}
