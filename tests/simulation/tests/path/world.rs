//! Lives of a process on one machine, one after another, until the power fails, it is killed or it ends.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Pipeline, Settings};
use phasemeter_engine::policies::{PolicyResults, Quotes};
use phasemeter_engine::pricing::{PriceOptions, Pricing};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PriceBook;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::staleness::StaleAfter;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::delivery::{
    Config, DataDirectory, Delivery, DeliveryHandle, Destination, Outcome, RequestSender, Storage,
    StorageKind,
};
use phasemeter_otlp::encode::{ExportSettings, MetricSelection, MetricSet, Outgoing};
use phasemeter_otlp::experiment::{Attributes, ExperimentKind, ExperimentRequest, TraceId};
use phasemeter_otlp::{Request, Signal};
use phasemeter_outbox::Limits;
use phasemeter_simulation::{Machine, Rng, SimulatedDirectories};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Bug;
use crate::network::{Backend, Link};
use crate::oracle::History;
use crate::readings::{Input, any_input, any_price, memory_total};

/// When a seed begins, in seconds since 1970.
const EPOCH: u64 = 1_785_110_395;

thread_local! {
    /// The instant of that.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// One process, from its start to its end.
pub(crate) struct Life {
    /// The ID of its experiment.
    pub(crate) experiment: String,
    pub(crate) start: Timestamp,
    /// Of each GPU.
    pub(crate) histories: Vec<History>,
    /// The requests that it made, in order.
    pub(crate) made: Vec<(Signal, Bytes)>,
    /// The number of those before its last step.
    pub(crate) made_before: usize,
    /// How many of each signal were in memory alone at its end.
    pub(crate) in_memory: BTreeMap<Signal, u64>,
    /// Whether its disk refused, so that those need not be the last ones.
    pub(crate) is_disk_faulty: bool,
}

/// The state of one seed.
pub(crate) struct World {
    rng: Rng,
    machine: Machine,
    pub(crate) backend: Arc<Mutex<Backend>>,
    config: Config,
    limits: Limits,
    pub(crate) is_limited: bool,
    /// Whether the power failed while a process took over what others had left: what it dropped is noted on disk, and in no
    /// count.
    pub(crate) is_start_cut: bool,
    meter: MeterConfig,
    export: ExportSettings,
    pub(crate) gpus: Vec<GpuIdentity>,
    price: Rate,
    bug: Option<Bug>,
    pub(crate) lives: Vec<Life>,
    /// Requests that were counted as lost by a process, per signal.
    pub(crate) counted_lost: BTreeMap<Signal, u64>,
    pub(crate) crashes: u64,
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    let elapsed = BEGAN.get().map(|began| began.elapsed()).unwrap_or_default();
    EPOCH * 1_000_000_000 + u64::try_from(elapsed.as_nanos()).unwrap()
}

fn timestamp() -> Timestamp {
    Timestamp::from_nanos(now()).unwrap()
}

impl World {
    pub(crate) fn new(seed: u64, bug: Option<Bug>) -> Self {
        BEGAN.set(Some(Instant::now()));
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
            lives: Vec::new(),
            counted_lost: BTreeMap::new(),
            crashes: 0,
        }
    }

    /// Runs with this many crashes, then delivers what is left.
    pub(crate) async fn run(&mut self, crashes: u64) -> Result<(), String> {
        while self.crashes < crashes {
            let most = if self.rng.percent(20) { 400 } else { 60 };
            let operations = 1 + self.rng.below(most);
            self.machine.cut_after(operations);
            self.live().await?;
            sleep(Duration::from_millis(self.rng.below(20_000))).await;
        }
        self.machine.kill();
        self.machine.set_faults(false, 0);
        {
            let mut backend = self.backend.lock().unwrap();
            (backend.health, backend.is_kind) = (100, true);
        }
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

    fn data(&self) -> Arc<DataDirectory> {
        let runs = Arc::new(SimulatedDirectories(self.machine.clone()));
        Arc::new(DataDirectory::new(Path::new("data"), [runs.clone(), runs], self.limits, now))
    }

    fn delivery(&self, storage: Option<Storage>) -> (Delivery<Link>, DeliveryHandle) {
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
        let begun = Storage::begin(&self.data(), &self.config, StorageKind::Own);
        let has_storage = begun.is_ok();
        self.is_start_cut |= self.machine.is_off();
        let (delivery, handle) = self.delivery(begun.ok());
        let task = tokio::spawn(delivery.run());
        let mut life = self.begin();
        self.meter_until_the_end(&mut life, &handle).await?;
        let is_killed = life.histories.iter().all(|history| history.end.is_none());
        if !is_killed && !self.machine.is_off() {
            handle.close(Duration::from_secs(self.rng.below(60)));
            sleep(Duration::from_secs(70)).await;
        }
        let outcome = handle.stats().read();
        task.abort();
        let _ = task.await;
        self.count(&outcome);
        for (signal, counts) in outcome.iter() {
            life.in_memory.insert(signal, counts.unsent.requests - counts.kept.requests);
        }
        life.is_disk_faulty = is_full || failing > 0 || !has_storage;
        self.lives.push(life);
        self.crashes += u64::from(is_killed || self.machine.is_off());
        if self.machine.is_off() && self.rng.percent(65) {
            self.machine.lose_power();
        } else {
            self.machine.kill();
        }
        Ok(())
    }

    fn count(&mut self, outcome: &Outcome) {
        for (signal, counts) in outcome.iter() {
            let lost = [counts.dropped, counts.expired, counts.unreadable];
            *self.counted_lost.entry(signal).or_default() +=
                lost.iter().map(|it| it.requests).sum::<u64>();
        }
    }

    fn begin(&mut self) -> Life {
        let mut start = timestamp();
        let before = self.lives.last().and_then(|life| life.histories.first()?.end);
        if let Some(end) = before.filter(|_| self.bug == Some(Bug::SecondTwice)) {
            start = end.saturating_sub(Nanos::SECOND);
        }
        let history = History {
            config: self.meter,
            start,
            prices: vec![(start, self.price)],
            readings: Vec::new(),
            end: None,
        };
        Life {
            experiment: String::new(),
            start,
            histories: vec![history; self.gpus.len()],
            made: Vec::new(),
            made_before: 0,
            in_memory: BTreeMap::new(),
            is_disk_faulty: false,
        }
    }

    async fn meter_until_the_end(
        &mut self,
        life: &mut Life,
        handle: &DeliveryHandle,
    ) -> Result<(), String> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.rng.number().to_le_bytes());
        let kind = ExperimentKind::Sidecar { trace: TraceId::new(bytes).unwrap() };
        let experiment = ExperimentRequest::default().open(life.start, kind);
        life.experiment.clone_from(&experiment.id);
        let made = Rc::new(RefCell::new(Vec::new()));
        let given = |rate| PriceOptions { given: Some(rate), ..PriceOptions::default() };
        let settings = Settings {
            meter: self.meter,
            pricing: Pricing::new(given(self.price), Quotes::default(), PriceBook::of(Vec::new())),
            alerts: AlertRules::default(),
            work: BTreeMap::new(),
            export: Some((self.export, {
                let (made, sender, bug) = (Rc::clone(&made), handle.sender(), self.bug);
                Box::new(move |outgoing| {
                    send(outgoing, &mut made.borrow_mut(), &sender, bug);
                    Ok(())
                })
            })),
        };
        let mut pipeline = Pipeline::live(settings, experiment, &Attributes::new());
        self.gpus.iter().for_each(|gpu| pipeline.add(gpu, life.start));
        let seconds = 10 + self.rng.below(120);
        let input = any_input(&mut self.rng, self.gpus.len(), timestamp(), seconds);
        for (arrival, input) in input {
            // Delivery has its turn.
            yield_now().await;
            sleep_until(Instant::now() + Duration::from_nanos(arrival.since(timestamp()).0)).await;
            // The process is killed between two operations.
            if self.machine.is_off() || self.rng.below(2_000) == 0 {
                life.made = made.take();
                return Ok(());
            }
            life.made_before = made.borrow().len();
            match input {
                Input::Reading(gpu, reading) => {
                    let taken = pipeline.ingest(gpu, &reading, &self.gpus);
                    if taken.map_err(|error| error.to_string())?.is_ok() {
                        life.histories[gpu].readings.push(reading);
                    }
                }
                Input::Price(rate) => {
                    self.price = rate;
                    let at = timestamp();
                    let late = self.bug == Some(Bug::LatePrice);
                    let used = if late { at + Nanos::SECOND } else { at };
                    pipeline.change_prices(&given(rate), None, used);
                    life.histories.iter_mut().for_each(|history| history.prices.push((at, rate)));
                }
            }
        }
        yield_now().await;
        if self.machine.is_off() {
            life.made = made.take();
            return Ok(());
        }
        life.made_before = made.borrow().len();
        let end = timestamp();
        pipeline.end_at(end);
        let finished = pipeline.finish(&self.gpus, |_| PolicyResults::default());
        finished.map_err(|error| error.to_string())?;
        life.histories.iter_mut().for_each(|history| history.end = Some(end));
        life.made = made.take();
        Ok(())
    }
}

/// Passes requests to delivery.
fn send(
    outgoing: Outgoing,
    made: &mut Vec<(Signal, Bytes)>,
    sender: &RequestSender,
    bug: Option<Bug>,
) {
    let mut requests = outgoing.requests;
    if bug == Some(Bug::BoundaryTwice)
        && let Some(again) = requests.iter().find(|it| matches!(it, Request::Metrics(_)))
    {
        // The same points, in other requests.
        requests.extend(again.clone().split(500));
    }
    for request in requests {
        let encoded = request.encode();
        made.push((encoded.signal(), encoded.body().clone()));
        sender.enqueue(encoded);
    }
}
