//! The sampler on the scripted driver, in real time: what it observes, what faults cost whom.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fake_nvml::{Control, Fake, Model};
use phasemeter::sampler::{Sampler, SamplerConfig, SamplerStats};
use phasemeter_meter::device_metric::DeviceMetric;
use phasemeter_meter::reading::{Interval, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_sources::nvml::{Driver, Event, Observation, Observed};

mod advice;
#[path = "../../../otlp/tests/backend/mod.rs"]
mod backend;
mod driver;
mod faults;
mod generations;
mod lost;
#[path = "../../../../tests/otlp/mod.rs"]
mod otlp;
#[path = "../../../../rules/tests/support/mod.rs"]
mod policies;
mod run;
mod sent;
mod telemetry;
mod traces;
mod values;

/// A driver with a script that starts now.
struct Rig {
    start: Timestamp,
    fake: Fake,
    _control: Control,
    _folder: tempfile::TempDir,
}

impl Rig {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let script = format!("start_unix_ms = {millis}\n{script}");
        let fake = Fake::install(folder.path(), &script).unwrap();
        let control = fake.load().unwrap();
        let start = Timestamp::from_millis(u64::try_from(millis).unwrap()).unwrap();
        Self { start, fake, _control: control, _folder: folder }
    }

    fn driver(&self) -> Driver {
        Driver::at(self.fake.library())
    }

    fn model(&self) -> Model {
        self.fake.model().unwrap()
    }

    /// Time since the script's start.
    fn since(&self, at: Timestamp) -> Nanos {
        at.since(self.start)
    }

    /// Samples all GPUs at 10 Hz.
    fn sampler(&self) -> Sampler {
        let discovery = self.driver().discover().unwrap();
        let all: Vec<usize> = (0..discovery.gpus.len()).collect();
        let config = SamplerConfig { tick: SamplerConfig::TICK, stale_after: Nanos::SECOND };
        Sampler::start(discovery, &all, config).unwrap()
    }

    /// Samples all GPUs at 10 Hz for so long, and stops.
    fn sample(&self, seconds: f64) -> Run {
        let mut sampler = self.sampler();
        let mut observations = Vec::new();
        watch(&mut sampler, seconds, &mut observations);
        assert_eq!(sampler.stop(Duration::from_secs(1)), [0; 0], "threads that hang");
        sampler.drain(|observation| observations.push(observation));
        Run { observations, stats: sampler.stats() }
    }
}

/// Drains a sampler for so long, as the pipeline does.
fn watch(sampler: &mut Sampler, seconds: f64, observations: &mut Vec<Observation>) {
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs_f64(seconds) {
        std::thread::sleep(Duration::from_millis(50));
        sampler.drain(|observation| observations.push(observation));
    }
}

/// What was observed.
struct Run {
    observations: Vec<Observation>,
    stats: SamplerStats,
}

impl Run {
    fn of(&self, gpu: usize) -> impl Iterator<Item = Observed> {
        self.observations.iter().filter(move |seen| seen.gpu == gpu).map(|seen| seen.what)
    }

    fn readings(&self, gpu: usize) -> Vec<Reading> {
        let reading = |seen| match seen {
            Observed::Reading(reading) => Some(reading),
            _ => None,
        };
        self.of(gpu).filter_map(reading).collect()
    }

    /// Samples of the ring and what stands beside them.
    fn intervals(&self, gpu: usize) -> Vec<Interval> {
        let intervals = |seen| match seen {
            Observed::Interval(interval) => vec![interval],
            Observed::Activity(activity) => activity.intervals().collect(),
            Observed::Reading(_) | Observed::DeviceMetric(_) | Observed::Event(_) => Vec::new(),
        };
        self.of(gpu).flat_map(intervals).collect()
    }

    /// What is known beside, without the activity.
    fn device_metrics(&self, gpu: usize) -> Vec<DeviceMetric> {
        let metric = |seen| match seen {
            Observed::DeviceMetric(metric) => Some(metric),
            _ => None,
        };
        self.of(gpu).filter_map(metric).collect()
    }

    /// What befell a GPU. How often it is asked is no matter of the GPU alone but of how busy the
    /// machine is, and has a test of its own.
    fn befell(&self, gpu: usize) -> Vec<Event> {
        let events = self.events(gpu).into_iter();
        events.filter(|event| !matches!(event, Event::Cadence(..))).collect()
    }

    fn events(&self, gpu: usize) -> Vec<Event> {
        let event = |seen| match seen {
            Observed::Event(event) => Some(event),
            _ => None,
        };
        self.of(gpu).filter_map(event).collect()
    }

    /// The longest time without a reading of a GPU.
    fn longest_gap(&self, gpu: usize) -> Nanos {
        let readings = self.readings(gpu);
        readings.windows(2).map(|two| two[1].at.since(two[0].at)).max().unwrap()
    }
}
