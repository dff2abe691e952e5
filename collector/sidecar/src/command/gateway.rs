//! `phasemeter gateway`: forwards OTLP, and meters the GPUs whose metrics pass.
//!
//! Must not depend on how requests are received.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use phasemeter_meter::units::Nanos;
use phasemeter_otlp::delivery::Destination;
use phasemeter_otlp::experiment::{
    Attributes, Experiment, ExperimentKind, SERVICE_INSTANCE_ID, TraceId,
};
use phasemeter_otlp::receiver::Received;
use phasemeter_sources::clock::Clock;
use phasemeter_sources::mapping::{MappingFile, Mappings, ReadingBuffer};

use super::alerts;
use super::delivery::Delivery;
use super::error::CommandError;
use super::files::{self, ReplacedFile};
use super::live_error::LiveError;
use super::metering::{self, Provenance};
use super::output_files::OutputFiles;
use super::policies;
use super::receive::{self, Receiving};
use super::run::{report, request_sink, stop_file};
use super::signals::{SignalEvent, SignalListener};
use super::window_scheduler::WindowScheduler;
use crate::cli::GatewayArgs;
use crate::gateway::{Exclusions, GatewayBilling, GatewaySummary, Intake};
use crate::pipeline::{Finished, Pipeline, Settings};
use crate::policies::{PolicyManager, Worker};
use crate::report::WorkByHour;
use crate::resource;

/// How long the gateway waits for metrics before it releases readings and looks for signals.
const STEP: Duration = Duration::from_millis(100);

/// Deadline of the final flush.
const GRACE: Duration = Duration::from_secs(5);

/// Forwards and meters until a signal, and reports.
pub(super) fn run(args: &GatewayArgs) -> Result<(), CommandError> {
    let failed = |what| move |source| CommandError::System { what, source };
    let signals = SignalListener::start(false).map_err(failed("cannot listen for signals"))?;
    let environment = metering::environment();
    let report_path = args.report_file.as_deref();
    metering::check_outputs(OutputFiles::default(), &args.metering, report_path)?;
    let report_file = report_path.map(ReplacedFile::at).transpose()?;
    let otlp_file = args.metering.report.otlp_file.as_deref();
    otlp_file.map_or(Ok(()), files::reject_pipe)?;
    let mut otlp_file = otlp_file.map(files::create_otlp).transpose()?;
    let mappings = mappings(args)?;
    let (mut receiving, metrics) = Receiving::start(receive::config(&args.receive)?)?;
    let delivery = Delivery::start(Destination::Environment)?;
    signals.ready();

    let clock = Clock::start();
    let resource = environment.experiment.attributes.clone();
    let request = metering::request(&args.metering, environment.experiment);
    let mut experiment =
        request.open(clock.now(), ExperimentKind::Sidecar { trace: TraceId::random() });
    let own_instance = identify(&mut experiment);
    let hardware = resource::for_log(&experiment);
    let manager = policies::open(&args.metering.policies, policies::Evaluations::Periodic)?;
    manager.iter().for_each(|manager| manager.wait());
    let settings = Settings {
        meter: args.config(),
        alerts: alerts::select(&args.metering.alerts)?,
        pricing: metering::pricing(&args.metering.price, &resource, manager.clone())?,
        work: metering::work(&args.metering),
        export: request_sink(delivery.as_ref(), &mut otlp_file)
            .map(|sink| (environment.export, sink)),
    };
    let pipeline = Pipeline::live(settings, experiment, &hardware);
    let watcher = manager.as_ref().map(PolicyManager::watch).transpose();
    let _watcher = watcher.map_err(failed("cannot watch the policy directory"))?;
    let worker = manager.map(Worker::start).transpose();
    let worker = worker.map_err(failed("cannot start the policy thread"))?;
    let every = Duration::from_nanos(args.windows.window_interval.0);
    let scheduler = WindowScheduler::new(worker, None, every);
    let exclusions = Exclusions {
        gpus: args.exclude_gpu.iter().cloned().collect(),
        hosts: args.exclude_host.iter().cloned().collect(),
    };
    let mut gateway = Gateway {
        intake: Intake::new(mappings, exclusions, own_instance),
        buffer: ReadingBuffer::new(args.hold, args.basis, args.metering.meter.stale_after),
        billing: GatewayBilling::default(),
        pipeline,
        scheduler,
        clock,
        started: Instant::now(),
    };
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    gateway.run(&metrics, &signals, until)?;
    receiving.stop();
    let (run, billing, dropped) = gateway.finish(&metrics)?;
    if let Some(Err(error)) = otlp_file.map(phasemeter_otlp::OtlpFile::finish) {
        stop_file(&error);
    }
    let mut sent = receiving.finish(GRACE);
    sent.extend(
        delivery
            .into_iter()
            .flat_map(|delivery| delivery.finish(GRACE).sentences().collect::<Vec<_>>()),
    );
    let provenance = Provenance {
        title: "gateway".to_owned(),
        work_by_hour: WorkByHour::new(),
        interruptions: None,
        rejected_rows: Vec::new(),
        rejected_total: 0,
        assumptions: Vec::new(),
        sampling: sentences(&billing.summary(), dropped),
        delivery: sent,
        timed: true,
    };
    report(&args.metering, billing.gpus(), &run, provenance, report_file)
}

/// A running gateway.
struct Gateway<'a> {
    intake: Intake,
    buffer: ReadingBuffer,
    billing: GatewayBilling,
    pipeline: Pipeline<'a>,
    scheduler: WindowScheduler,
    clock: Clock,
    started: Instant,
}

impl Gateway<'_> {
    /// Meters until a signal or the end of the duration.
    fn run(
        &mut self,
        metrics: &Receiver<Received>,
        signals: &SignalListener,
        until: Option<Instant>,
    ) -> Result<(), CommandError> {
        while until.is_none_or(|until| Instant::now() < until) {
            match metrics.recv_timeout(STEP) {
                Ok(received) => self.take(&received),
                Err(RecvTimeoutError::Timeout) => {}
                // The forwarder has ended, and nothing passes any more.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            let released = self.buffer.release(Nanos::from(self.started.elapsed()));
            self.meter(&released)?;
            let (pipeline, gpus) = (&mut self.pipeline, self.billing.gpus());
            if let Some(results) = self.scheduler.step(|| pipeline.window(gpus, false)) {
                self.pipeline.export_results(&results, self.billing.gpus(), self.clock.now())?;
            }
            if let Some(SignalEvent::Signal(_)) = signals.next(Duration::ZERO) {
                return Ok(());
            }
        }
        Ok(())
    }

    fn take(&mut self, received: &Received) {
        let arrived = Nanos::from(self.started.elapsed());
        self.intake.take(received, arrived, &mut self.buffer);
    }

    fn meter(
        &mut self,
        released: &[phasemeter_sources::mapping::HeldReading],
    ) -> Result<(), CommandError> {
        for held in released {
            if let Some(identity) = self.buffer.identities().get(held.gpu) {
                self.billing.meter(&mut self.pipeline, held, identity)?;
            }
        }
        Ok(())
    }

    /// Meters what is held, once the receiver has stopped.
    fn finish(
        mut self,
        metrics: &Receiver<Received>,
    ) -> Result<(Finished, GatewayBilling, u64), CommandError> {
        metrics.iter().for_each(|received| self.take(&received));
        let released = self.buffer.release_all();
        self.meter(&released)?;
        let Self { pipeline, scheduler, billing, buffer, .. } = self;
        let run = pipeline.finish(billing.gpus(), |window| scheduler.finish(window))?;
        Ok((run, billing, buffer.dropped()))
    }
}

/// The mappings: those of Phasemeter, then the user's.
fn mappings(args: &GatewayArgs) -> Result<Mappings, CommandError> {
    let invalid = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source| LiveError::Mapping { path, source }
    };
    let built_in = std::path::Path::new("otel-config/mappings");
    let mut mappings = Mappings::built_in().map_err(invalid(built_in))?;
    for path in &args.mapping {
        let text = std::fs::read_to_string(path)
            .map_err(|source| LiveError::MappingFile { path: path.clone(), source })?;
        mappings.replace(MappingFile::parse(&text).map_err(invalid(path))?);
    }
    Ok(mappings)
}

/// Identifies what the gateway sends, unless the environment does.
fn identify(experiment: &mut Experiment) -> String {
    let id = experiment.id.clone();
    let workload: &mut Attributes = &mut experiment.attributes;
    workload.entry(SERVICE_INSTANCE_ID.to_owned()).or_insert(id).clone()
}

/// What was not billed, and why.
fn sentences(summary: &GatewaySummary, dropped: u64) -> Vec<String> {
    let GatewaySummary { gaps, gap_time, billed_elsewhere, billed_twice, late } = *summary;
    let seconds = |time: Nanos| format!("{:.1} s", time.as_secs_f64());
    let mut sentences = Vec::new();
    if gaps > 0 {
        let time = seconds(gap_time);
        sentences.push(format!("{gaps} pauses between readings, {time} in all, are not billed"));
    }
    if billed_elsewhere > Nanos::ZERO {
        sentences.push(format!("{} billed by other meters", seconds(billed_elsewhere)));
    }
    if billed_twice > Nanos::ZERO {
        let time = seconds(billed_twice);
        sentences.push(format!("{time} billed twice: other meters reported after --hold"));
    }
    if late + dropped > 0 {
        sentences.push(format!("{} values arrived too late and were dropped", late + dropped));
    }
    sentences
}
