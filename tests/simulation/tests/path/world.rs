//! Lives of a process on one machine, one after another, until the power fails, it is killed or it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::Rate;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Signal;
use phasemeter_otlp::delivery::{
    Config, Delivery, DeliveryHandle, Destination, Outcome, Storage, StorageKind,
};
use phasemeter_otlp::encode::{ExportSettings, MetricSelection, MetricSet};
use phasemeter_outbox::Limits;
use phasemeter_simulation::{Machine, Rng};
use tokio::time::sleep;

use crate::Bug;
use crate::clocks::{self, Boot, Moment};
use crate::life::Metered;
use crate::network::{Backend, Link};
use crate::readings::{any_price, memory_total};
use crate::run::Run;

/// The state of one seed.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) machine: Machine,
    pub(crate) backend: Arc<Mutex<Backend>>,
    pub(crate) config: Config,
    pub(crate) limits: Limits,
    pub(crate) is_limited: bool,
    /// Whether the power failed while a process took over what others had left: what it dropped is noted on disk, and in no
    /// count.
    pub(crate) is_start_cut: bool,
    pub(crate) meter: MeterConfig,
    pub(crate) export: ExportSettings,
    pub(crate) gpus: Vec<GpuIdentity>,
    pub(crate) price: Rate,
    pub(crate) bug: Option<Bug>,
    pub(crate) boot: Boot,
    pub(crate) runs: Vec<Run>,
    /// When runs began, also those that were killed before they had metered.
    pub(crate) begun: Vec<Moment>,
    /// The numbers of runs before which a process had a faulty disk that did not begin to meter.
    pub(crate) faults_before: BTreeSet<usize>,
    /// Requests that were counted as lost by a process, per signal.
    pub(crate) counted_lost: BTreeMap<Signal, u64>,
    pub(crate) crashes: u64,
    pub(crate) lives: u64,
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        clocks::begin();
        let mut rng = Rng(seed);
        let planted = match bug {
            Some(Bug::Disk(bug)) => Some(bug),
            _ => None,
        };
        let endpoint = |name: &str| {
            (name == "OTEL_EXPORTER_OTLP_ENDPOINT").then(|| "http://backend:4318".to_owned())
        };
        let mut config = Config::read(Destination::Environment, endpoint).unwrap().unwrap();
        // Every fourth seed reaches the limits.
        let is_limited = seed % 4 == 3;
        let mut limits = Limits { segment_bytes: 6_000, ..Limits::default() };
        if is_limited {
            limits = Limits {
                bytes: 40_000,
                requests: 60,
                age: Duration::from_secs(120),
                segment_bytes: 6_000,
            };
            config.queue_bytes = 40_000;
        }
        let every = Nanos::from_secs([5, 10, 20][rng.index(3)]);
        let set = if seed.is_multiple_of(16) { MetricSet::All } else { MetricSet::Minimal };
        let export = ExportSettings {
            every,
            metrics: MetricSelection::of(set),
            ..ExportSettings::default()
        };
        let meter = MeterConfig {
            allowed_lateness: Nanos::from_secs([2, 5, 15][rng.index(3)]),
            stale_after: StaleAfter::Fixed(Nanos::from_secs(3)),
            session_every: Nanos::from_secs([0, 30, 3_600][rng.index(3)]),
            boundary_every: every,
            ..MeterConfig::default()
        };
        let gpus = (0..=u32::try_from(rng.below(3)).unwrap()).map(|index| GpuIdentity {
            name: format!("GPU {index}"),
            uuid: Some(format!("GPU-{index}")),
            index: Some(index),
            memory_total: memory_total(),
            ..GpuIdentity::default()
        });
        let machine = Machine::new(Rng(rng.number()), planted);
        Self {
            machine,
            backend: Arc::new(Mutex::new(Backend::new(Rng(rng.number())))),
            config,
            limits,
            is_limited,
            is_start_cut: false,
            meter,
            export,
            gpus: gpus.collect(),
            price: any_price(&mut rng),
            bug,
            rng,
            boot: Boot::begin(1),
            runs: Vec::new(),
            begun: Vec::new(),
            faults_before: BTreeSet::new(),
            lives: 0,
            counted_lost: BTreeMap::new(),
            crashes: 0,
        }
    }

    /// Runs with this many crashes, then delivers what is left.
    pub(crate) async fn run(&mut self, crashes: u64) -> Result<(), String> {
        while self.crashes < crashes {
            let most = if self.rng.percent(20) { 500 } else { 90 };
            let operations = 1 + self.rng.below(most);
            self.machine.cut_after(operations);
            if self.rng.percent(20) {
                self.flush().await;
            } else {
                self.live().await?;
            }
            let most = if self.rng.percent(2) { 5_000_000 } else { 20_000 };
            sleep(Duration::from_millis(self.rng.below(most))).await;
            if self.rng.percent(10) {
                clocks::set_forward(1 + self.rng.below(100));
            }
        }
        self.machine.kill();
        self.machine.set_faults(false, 0);
        {
            let mut backend = self.backend.lock().unwrap();
            (backend.health, backend.is_kind) = (100, true);
        }
        self.keep_notes();
        let storage =
            Storage::left(&self.data(), &self.config).map_err(|error| error.to_string())?;
        let (delivery, handle) = self.delivery(Some(storage));
        handle.close(Duration::from_secs(3_600));
        delivery.run().await;
        let outcome = handle.stats().read();
        self.count(&outcome);
        match outcome.queued().requests {
            0 => Ok(()),
            left => Err(format!("{left} requests are not delivered")),
        }
    }

    /// Operations of the disk and of the network.
    pub(crate) fn operations(&self) -> u64 {
        self.machine.operations()
    }

    pub(crate) fn delivery(&self, storage: Option<Storage>) -> (Delivery<Link>, DeliveryHandle) {
        Delivery::new(&self.config, storage, |signal, _| Link {
            signal,
            machine: self.machine.clone(),
            backend: Arc::clone(&self.backend),
            bug: self.bug,
        })
    }

    /// One life, to its end.
    async fn live(&mut self) -> Result<(), String> {
        let (is_full, failing) = (self.rng.percent(4), if self.rng.percent(4) { 20 } else { 0 });
        self.machine.set_faults(is_full, failing);
        self.backend.lock().unwrap().health = [100, 100, 90, 60, 0][self.rng.index(5)];
        let claims = self.open_claims();
        self.keep_notes();
        let has_claims = claims.is_some();
        let begun = Storage::begin(&self.data(), &self.config, StorageKind::Own);
        let has_storage = begun.is_ok();
        self.is_start_cut |= self.machine.is_off();
        let (delivery, handle) = self.delivery(begun.ok());
        let task = tokio::spawn(delivery.run());
        let metered = self.meter(&handle, claims).await?;
        let run = metered.as_ref().map(|it| it.run);
        let is_killed = run.is_none_or(|run| self.runs[run].histories[0].end.is_none());
        if !is_killed && !self.machine.is_off() {
            handle.close(Duration::from_secs(self.rng.below(60)));
            sleep(Duration::from_secs(70)).await;
        }
        let outcome = handle.stats().read();
        task.abort();
        let _ = task.await;
        self.count(&outcome);
        let is_faulty = is_full || failing > 0 || !has_storage || !has_claims;
        if let Some(Metered { run, mut life, claims }) = metered {
            for (signal, counts) in outcome.iter() {
                life.in_memory.insert(signal, counts.unsent.requests - counts.kept.requests);
            }
            life.is_disk_faulty |= is_faulty;
            self.runs[run].lives.push(life);
            if let Some((claims, wall)) = claims {
                claims.conclude(self, wall).await;
            }
        } else if is_faulty {
            self.faults_before.insert(self.runs.len());
        }
        self.lives += 1;
        self.crashes += u64::from(is_killed || self.machine.is_off());
        self.end_of_process();
        Ok(())
    }

    /// The process has ended, by a loss of power or otherwise.
    pub(crate) fn end_of_process(&mut self) {
        if self.machine.is_off() && self.rng.percent(65) {
            self.machine.lose_power();
            self.boot = self.boot.next();
            self.runs.iter_mut().for_each(Run::lose_power);
        } else {
            self.machine.kill();
        }
    }

    pub(crate) fn count(&mut self, outcome: &Outcome) {
        for (signal, counts) in outcome.iter() {
            let lost = [counts.dropped, counts.expired, counts.unreadable];
            *self.counted_lost.entry(signal).or_default() +=
                lost.iter().map(|it| it.requests).sum::<u64>();
        }
    }
}
