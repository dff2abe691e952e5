//! `phasemeter gateway`: forwards OTLP, and meters the GPUs whose metrics pass.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::delivery::Destination;
use phasemeter_otlp::experiment::{ExperimentKind, TraceId};
use phasemeter_sources::clock::{Clock, wall_time};
use phasemeter_sources::mapping::{HeldReading, ReadingBuffer};
use phasemeter_workload::held::{HeldWork, WorkDone};
use phasemeter_workload::ledger::WorkLedger;
use tracing::warn;

use super::alerts;
use super::claims::Claims;
use super::delivery::{Delivery, Export};
use super::delivery_report::DeliveryReport;
use super::dump::Dump;
use super::error::CommandError;
use super::files::{self, ReplacedFile};
use super::gateway_identity::identify;
use super::gateway_notes::{self, Dropped};
use super::live_error::LiveError;
use super::live_sink::{live_sink, stop_file};
use super::local_zone::LocalZone;
use super::mappings;
use super::metering::{self, Provenance};
use super::optional::Optional;
use super::output_files::OutputFiles;
use super::policies;
use super::probes::Probes;
use super::receive::{self, Receiving};
use super::run_report;
use super::signals::{SignalEvent, SignalListener};
use super::span_pricing::{self, GpuNumbers, SpanPricing};
use super::window_scheduler::WindowScheduler;
use super::work_intake::by_hour;
use super::work_serving::WorkServing;
use crate::cli::GatewayArgs;
use crate::gateway::{
    CounterIntake, DropCounts, DroppedBy, Exclusions, FarFromClock, GatewayBilling, GatewayCounts,
    GatewayStatus, Intake, Metered, Replicas, SpanSummary, Unplaced,
};
use crate::pipeline::{Finished, Pipeline, PipelineError, Settings};
use crate::policies::{PolicyManager, Worker};
use crate::report::WorkByHour;
use crate::resource;

/// How long the gateway waits for requests before it releases readings and looks for signals.
const STEP: Duration = Duration::from_millis(100);

/// Deadline of the final flush of a gateway that meters nothing.
const GRACE: Duration = Duration::from_secs(5);

/// Additional time to deliver the last points of each metered GPU.
const GRACE_PER_GPU: Duration = Duration::from_millis(1);

/// Most time for the final flush, within the 30 s between SIGTERM and SIGKILL of Kubernetes.
const MAX_GRACE: Duration = Duration::from_secs(20);

/// Forwards and meters until a signal, and reports.
pub(super) fn run(args: &GatewayArgs) -> Result<(), CommandError> {
    let failed = |what| move |source| CommandError::System { what, source };
    let signals = SignalListener::start(false).map_err(failed("cannot listen for signals"))?;
    let environment = metering::environment(&args.metering);
    let report_path = args.report_file.as_deref();
    metering::check_outputs(OutputFiles::default(), &args.metering, report_path)?;
    let report_file = report_path.map(ReplacedFile::at).transpose()?;
    let otlp_file = args.metering.report.otlp_file.as_deref();
    otlp_file.map_or(Ok(()), files::reject_pipe)?;
    let mut otlp_file = otlp_file.map(files::create_otlp).transpose()?;
    let mappings = mappings::read(&args.mapping)?;
    let work_mappings = receive::work_mappings(&args.work)?;
    let replicas = args.replica.as_deref().map(|own| Replicas::new(&args.replicas, own));
    let replicas = replicas.transpose().map_err(LiveError::from)?.unwrap_or_default();
    let probes = Probes::bind(args.health_listen)?;
    let config = receive::config(&args.receive)?;
    let (mut receiving, metered) =
        Receiving::start(config, &args.spans, replicas.clone(), Optional(false))?;
    let delivery = Delivery::start(Destination::Environment, Export::Required)?;
    let mut claims = args.state_file.as_deref().map(Claims::open).transpose()?;
    claims.iter_mut().for_each(Claims::begin_reported);
    let held = claims.as_ref().map(Claims::held);
    signals.ready();

    let clock = Clock::start();
    let zone = LocalZone::of(args.utc_offset, |name| std::env::var(name).ok());
    let assumptions = vec![zone.describe()];
    let resource = environment.experiment.attributes.clone();
    let request = metering::request(&args.metering, environment.experiment);
    let mut experiment =
        request.open(clock.now(), ExperimentKind::Sidecar { trace: TraceId::random() });
    let own_instance =
        identify(&mut experiment, args.replica.as_deref(), claims.as_mut(), &receiving.addresses());
    let hardware = resource::for_log(&experiment);
    let manager = policies::open(&args.metering.policies, policies::Evaluations::Periodic)?;
    manager.iter().for_each(|manager| manager.wait());
    let every = (!environment.sdk_disabled).then_some(environment.export.every);
    let status = Arc::<GatewayStatus>::default();
    let telemetry = every.and_then(|every| probes.telemetry(delivery.as_ref(), every, &experiment));
    if let Some(telemetry) = &telemetry {
        telemetry.watch_gateway(receiving.stats(), Arc::clone(&status));
        manager.iter().for_each(|manager| telemetry.watch_policies(manager));
    }
    let health = probes.answer(telemetry.is_some())?;
    let unplaced = if args.span_all_gpus { Unplaced::AllGpus } else { Unplaced::Unattributed };
    let spans = receiving.span_costs(&args.spans, unplaced, own_instance.clone());
    let settings = Settings {
        meter: MeterConfig { utc_offset: zone.offset(), ..args.config() },
        alerts: alerts::select(&args.metering.alerts)?,
        pricing: metering::pricing(&args.metering.price, &resource, manager.clone())?,
        work: metering::work(&args.metering),
        export: live_sink(
            delivery.as_ref(),
            spans.as_ref().map(receive::divert),
            held,
            &mut otlp_file,
        )
        .map(|sink| (environment.export, sink)),
    };
    let mut pipeline = Pipeline::live(settings, experiment, &hardware);
    if !replicas.is_single() {
        pipeline.leave_out_unit_costs();
    }
    let spans = spans.map(|costs| SpanPricing::start(costs, &mut pipeline));
    let mut buffer = ReadingBuffer::new(args.hold, args.basis, args.metering.meter.stale_after)
        .with_max_gpus(args.max_gpus);
    if let Some(claims) = &claims {
        claims.resume(&mut pipeline);
        // What an earlier gateway has billed may arrive again.
        let billed = claims.billed().iter();
        billed.for_each(|(uuid, until)| buffer.resume(uuid, Timestamp::EPOCH, *until));
    }
    let watcher = manager.as_ref().map(PolicyManager::watch).transpose();
    let _watcher = watcher.map_err(failed("cannot watch the policy directory"))?;
    let worker = manager.map(Worker::new);
    let every = Duration::from_nanos(args.windows.window_interval.0);
    let dump = args.metering.policies.dump_windows.as_deref().map(Dump::to);
    let scheduler = WindowScheduler::new(worker, dump, every);
    let exclusions = Exclusions {
        gpus: args.exclude_gpu.iter().cloned().collect(),
        hosts: args.exclude_host.iter().cloned().collect(),
        replicas: replicas.clone(),
    };
    let mut gateway = Gateway {
        intake: Intake::new(mappings, exclusions, own_instance, args.max_age),
        counters: CounterIntake::new(work_mappings, clock.now(), args.max_age, replicas),
        work: HeldWork::new(args.hold),
        ledger: WorkLedger::default(),
        serving: WorkServing::default(),
        buffer,
        billing: GatewayBilling::default(),
        pipeline,
        spans,
        scheduler,
        clock,
        zone,
        started: Instant::now(),
        status,
    };
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    gateway.run(&metered, &signals, until, |pipeline, gpus| {
        health.step();
        claims.iter_mut().try_for_each(|claims| claims.step(pipeline, gpus, delivery.as_ref()))
    })?;
    let is_cut = signals.cut();
    health.end();
    receiving.stop();
    let Metering { run, billing, spans, work_by_hour, dropped, notes } =
        gateway.finish(&metered)?;
    if let Some(Err(error)) = otlp_file.map(phasemeter_otlp::OtlpFile::finish) {
        stop_file(&error);
    }
    let gpus = billing.gpus();
    let grace = grace(gpus.len());
    let until = Instant::now() + grace;
    let (mut sent, passed) = receiving.finish(grace, &is_cut);
    claims.iter_mut().for_each(|claims| claims.finish(&run, gpus, delivery.as_ref()));
    let delivered = delivery.map(|delivery| delivery.finish(grace, &is_cut));
    claims.into_iter().for_each(|claims| claims.conclude(&run));
    let left = until.saturating_duration_since(Instant::now());
    telemetry.into_iter().for_each(|it| it.finish(if is_cut() { Duration::ZERO } else { left }));
    sent.extend(delivered.iter().flat_map(DeliveryReport::sentences));
    let provenance = Provenance {
        title: "gateway".to_owned(),
        work_by_hour,
        interruptions: None,
        rejected_rows: Vec::new(),
        rejected_total: 0,
        assumptions: assumptions.into_iter().chain(notes).collect(),
        sampling: [
            gateway_notes::sentences(&billing.summary(), &dropped, args.max_age),
            spans.as_ref().map(span_pricing::sentences).unwrap_or_default(),
        ]
        .concat(),
        attribution: spans.as_ref().map(span_pricing::attribution),
        delivery: sent,
        timed: true,
    };
    run_report::write(&args.metering, gpus, &run, provenance, report_file)?;
    let lost = delivered.iter().chain(&passed).find_map(DeliveryReport::loss);
    lost.iter().for_each(|lost| warn!("{lost}"));
    run_report::flush(is_cut)
}

/// Deadline of the final flush with so many metered GPUs.
fn grace(gpus: usize) -> Duration {
    let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
    GRACE.saturating_add(GRACE_PER_GPU.saturating_mul(gpus)).min(MAX_GRACE)
}

/// A running gateway.
struct Gateway<'a> {
    intake: Intake,
    counters: CounterIntake,
    work: HeldWork,
    ledger: WorkLedger,
    serving: WorkServing,
    buffer: ReadingBuffer,
    billing: GatewayBilling,
    pipeline: Pipeline<'a>,
    spans: Option<SpanPricing>,
    scheduler: WindowScheduler,
    clock: Clock,
    zone: LocalZone,
    started: Instant,
    status: Arc<GatewayStatus>,
}

/// What a gateway has metered.
struct Metering {
    run: Finished,
    billing: GatewayBilling,
    spans: Option<SpanSummary>,
    work_by_hour: WorkByHour,
    dropped: Dropped,
    /// Notes on what the mappings made of points.
    notes: Vec<String>,
}

/// Spans are charged for the GPUs of the buffer, which are known before their first reading is metered.
impl GpuNumbers for GatewayBilling {
    fn number(&self, gpu: usize) -> Option<usize> {
        self.source(gpu)
    }

    fn metered(&self, gpu: usize) -> Option<usize> {
        self.metered(gpu)
    }
}

impl Gateway<'_> {
    /// Meters until a signal or the end of the duration.
    fn run(
        &mut self,
        metered: &Receiver<Metered>,
        signals: &SignalListener,
        until: Option<Instant>,
        mut step: impl FnMut(&mut Pipeline<'_>, &[GpuIdentity]) -> Result<(), PipelineError>,
    ) -> Result<(), CommandError> {
        while until.is_none_or(|until| Instant::now() < until) {
            if self.spans.as_ref().is_some_and(SpanPricing::is_full) {
                // Then forwarding waits, too, and clients are asked to retry.
                thread::sleep(STEP);
            } else {
                match metered.recv_timeout(STEP) {
                    Ok(received) => self.take(received),
                    Err(RecvTimeoutError::Timeout) => {}
                    // The forwarder has ended, and nothing passes any more.
                    Err(RecvTimeoutError::Disconnected) => return Ok(()),
                }
            }
            let now = Nanos::from(self.started.elapsed());
            // Work counts with the cost of its time.
            let work = self.work.release(now);
            self.record(work);
            let released = self.buffer.release(now);
            self.meter(&released)?;
            if self.status.set(self.counts()) {
                let FarFromClock { ahead, old } = self.far_from_clock();
                let late = self.intake.late().clone();
                self.status.set_dropped_by(DroppedBy { late, ahead, old });
            }
            self.price_spans()?;
            step(&mut self.pipeline, self.billing.gpus())?;
            let (pipeline, gpus, zone) = (&mut self.pipeline, self.billing.gpus(), &self.zone);
            let results = self.scheduler.step(|| {
                // Daylight saving time may have begun or ended.
                pipeline.set_utc_offset(zone.offset());
                pipeline.window(gpus, false)
            });
            if let Some(results) = results {
                self.pipeline.export_results(&results, self.billing.gpus(), self.clock.now())?;
            }
            if let Some(SignalEvent::Signal(_)) = signals.next(Duration::ZERO) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, metered: Metered) {
        match metered {
            Metered::Metrics(received) => {
                // It was decoded before it was accepted.
                let Ok(request) = received.decode() else { return };
                let (arrived, now) = (Nanos::from(self.started.elapsed()), wall_time());
                self.intake.take(&request, now, arrived, &mut self.buffer);
                let (pods, meters) = (self.intake.take_pods(), self.intake.take_meters());
                if let Some(pricing) = &mut self.spans {
                    let costs = pricing.costs();
                    meters.iter().for_each(|meter| costs.see_meter(meter));
                    costs.add_gpus(self.buffer.identities());
                    pods.iter().for_each(|it| costs.see_pod(it.gpu, it.at, it.pod.as_ref()));
                }
                WorkServing::see(&mut self.counters, &self.buffer, &pods);
                for done in self.counters.take(&request, now) {
                    self.work.add(done, arrived);
                }
            }
            Metered::Spans(spans) => {
                if let Some(pricing) = &mut self.spans {
                    pricing.costs().add_gpus(self.buffer.identities());
                    pricing.take(spans, self.clock.now());
                }
            }
        }
    }

    fn record(&mut self, work: Vec<WorkDone>) {
        for WorkDone { at, unit, group, count } in work {
            self.pipeline.record_work(at, unit.name(), &group, count);
            self.ledger.add(at, unit, count);
        }
    }

    /// What is metered so far, and what is not.
    fn counts(&self) -> GatewayCounts {
        let far = [self.intake.far_from_clock(), self.counters.far_from_clock()];
        let over_limit = self.buffer.over_limit();
        let dropped = DropCounts {
            late: self.billing.summary().late + self.buffer.dropped() + self.counters.dropped(),
            ahead: far.iter().map(|it| it.ahead.total()).sum(),
            old: far.iter().map(|it| it.old.total()).sum(),
            over_limit: over_limit.values(),
        };
        let gpus = self.billing.gpus().len();
        GatewayCounts { gpus, gpus_over_limit: over_limit.count(), dropped }
    }

    /// Values whose time was far from the clock.
    fn far_from_clock(&self) -> FarFromClock {
        self.intake.far_from_clock().clone().with(self.counters.far_from_clock())
    }

    /// Divides what GPUs cost among the spans that wait.
    fn price_spans(&mut self) -> Result<(), CommandError> {
        let Some(pricing) = self.spans.as_mut().filter(|it| it.is_due()) else { return Ok(()) };
        let now = self.clock.now();
        let costs = pricing.costs();
        costs.add_gpus(self.buffer.identities());
        for (gpu, until) in self.buffer.final_until(Nanos::from(self.started.elapsed()), now) {
            costs.finalize(gpu, until);
        }
        pricing.advance(&mut self.pipeline, &self.billing, now)?;
        Ok(())
    }

    fn meter(&mut self, released: &[HeldReading]) -> Result<(), CommandError> {
        let newest = released.iter().map(|held| held.reading.at).max();
        self.serving.find(&mut self.counters, newest);
        for held in released {
            if let Some(identity) = self.buffer.identities().get(held.gpu) {
                self.serving.pass(held.gpu, &self.billing, &mut self.pipeline);
                self.billing.meter(&mut self.pipeline, held, identity)?;
            }
        }
        Ok(self.billing.advance(&mut self.pipeline, &self.buffer)?)
    }

    /// Meters what is held, once the receiver has stopped.
    fn finish(mut self, metered: &Receiver<Metered>) -> Result<Metering, CommandError> {
        metered.iter().for_each(|received| self.take(received));
        let work = self.work.release_all();
        self.record(work);
        let released = self.buffer.release_all();
        self.serving.find(&mut self.counters, Some(Timestamp::LAST));
        self.meter(&released)?;
        self.serving.pass_all(&self.billing, &mut self.pipeline);
        let (far_from_clock, counts) = (self.far_from_clock(), self.counts());
        let Self {
            mut pipeline, spans, scheduler, billing, buffer, ledger, intake, counters, ..
        } = self;
        billing.hand_over(&mut pipeline, &buffer);
        pipeline.finish_gpus(billing.gpus())?;
        let finish = |mut pricing: SpanPricing| {
            pricing.costs().add_gpus(buffer.identities());
            pricing.finish(&mut pipeline, &billing)
        };
        let spans = spans.map(finish).transpose()?;
        let run = pipeline.finish(billing.gpus(), |window| scheduler.finish(window))?;
        let late = intake.late().clone();
        let excess = buffer.dropped().saturating_sub(late.total()) + counters.dropped();
        let (over_limit_by, is_full) = (intake.over_limit_by().clone(), buffer.is_full());
        let dropped = Dropped { late, far_from_clock, excess, counts, over_limit_by, is_full };
        let mut notes = mappings::notes(buffer.added_up(), buffer.refused());
        notes.extend(gateway_notes::covered_by(intake.covered_by()));
        Ok(Metering { run, billing, spans, work_by_hour: by_hour(&ledger), dropped, notes })
    }
}
