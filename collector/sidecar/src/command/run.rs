//! `phasemeter run`: meters this machine's GPUs while a command runs, or until a signal.
//!
//! Errors of the command line are found before the command starts. What this machine refuses does not
//! prevent it, and from then on it is not disturbed.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::OtlpFile;
use phasemeter_otlp::encode::CommandExit;
use phasemeter_otlp::experiment::{
    ExperimentKind, ExperimentRequest, SERVICE_INSTANCE_ID, TraceId,
};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::nvml::Driver;
use tracing::{error, warn};

use super::alerts;
use super::child::{self, Child};
use super::claims::Claims;
use super::delivery::Delivery;
use super::delivery_report::DeliveryReport;
use super::dump::Dump;
use super::error::CommandError;
use super::exit_status::EX_IOERR;
use super::files::{self, ReplacedFile};
use super::finished_run::FinishedRun;
use super::gpus::GpuArrivals;
use super::hardware_export::HardwareExport;
use super::interruptions::Interruptions;
use super::live::Live;
use super::live_sink::{live_sink, stop_file};
use super::load_trial;
use super::local_zone::LocalZone;
use super::long_trace::LongTrace;
use super::metering::{self, Provenance};
use super::optional::Optional;
use super::output_files::OutputFiles;
use super::own_resources::OwnResources;
use super::policies;
#[cfg(feature = "gateway")]
use super::receive::{self, Receiving};
use super::run_report;
use super::signals::SignalListener;
use super::supervision::{Happened, Supervision, contained};
use super::window_scheduler::WindowScheduler;
use super::work_intake::WorkIntake;
use super::work_kinds::WorkKinds;
use super::work_socket::{self, WorkSocket};
use crate::cli::RunArgs;
use crate::detectors::{self, Container};
use crate::gateway::Unplaced;
use crate::pipeline::{Pipeline, PipelineError, Settings};
use crate::policies::{PolicyManager, Worker};
use crate::pricing::GpuOfModel;
use crate::sampler::{Sampler, SamplerConfig};
use crate::slurm;

/// Interval of draining observations and detecting hung calls: waking up costs more than a reading.
const DRAIN_INTERVAL: Duration = Duration::from_millis(500);

/// The same if telemetry is received, which waits in a short queue.
#[cfg(feature = "gateway")]
const RECEIVE_INTERVAL: Duration = Duration::from_millis(250);

/// Deadline of the final flush.
const GRACE: Duration = Duration::from_secs(5);

/// The delivery outcome if no endpoint is configured.
const NO_ENDPOINT: &str = "nothing was sent: OTEL_EXPORTER_OTLP_ENDPOINT is not set";

/// The delivery outcome if no signal is exported.
const NO_EXPORTER: &str = "nothing was sent: every OTEL_…_EXPORTER is none";

/// The metered GPUs if the driver has not answered.
const NO_DRIVER: &str = "no GPU was metered: the NVIDIA driver did not respond";

/// The delivery outcome if the thread that sends could not be started.
const NO_THREAD: &str = "nothing was sent: export could not be started; see the log";

/// What the end of a run has to report.
struct Ended {
    /// Whether a backend has accepted all that was to be delivered.
    is_delivered: bool,
    reported: Result<(), CommandError>,
}

/// Meters, runs the command, and reports.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CommandError> {
    let failed = |what| move |source| CommandError::System { what, source };
    let command = args.command.split_first();
    let optional = Optional(command.is_some());
    let signals = SignalListener::start(command.is_some());
    let signals = signals.map_err(failed("cannot listen for signals"))?;
    let mut environment = metering::environment(&args.metering);
    slurm::add_job(&mut environment.experiment.attributes, |name| std::env::var(name).ok());
    let report_path = args.report_file.as_deref();
    metering::check_outputs(OutputFiles::default(), &args.metering, report_path)?;
    let alerts = alerts::select(&args.metering.alerts)?;
    let report_file = report_path.map(ReplacedFile::unchecked).transpose()?;
    optional.result(report_file.iter().try_for_each(ReplacedFile::check))?;
    let otlp_file = args.metering.report.otlp_file.as_deref();
    otlp_file.map_or(Ok(()), files::reject_pipe)?;
    let otlp_file = otlp_file.map(files::create_otlp).transpose();
    let mut otlp_file = optional.result(otlp_file)?.flatten();
    let delivery = Delivery::for_run(optional)?;
    let (is_exported, delivery) = (delivery.is_some(), delivery.flatten());
    #[cfg(feature = "gateway")]
    let work_mappings = receive::work_mappings(&args.work_mappings)?;
    #[cfg(feature = "gateway")]
    let receiving = match receive::requested(args)? {
        Some(listen) => {
            let (listen, size) = (listen.as_ref(), args.request_size);
            optional.result(receive::for_command(listen, size, &args.spans, optional))?
        }
        None => None,
    };
    #[cfg(feature = "gateway")]
    let (mut receiving, metered) = receiving.unzip();
    let claims = args.state_file.as_deref().map(Claims::open).transpose();
    let mut claims = optional.result(claims)?.flatten();
    let mut arrivals = GpuArrivals::start(&args.gpus, command.is_some() && !args.require_gpu)?;
    signals.ready();

    let trace = TraceId::random();
    let kind = match command {
        Some(_) => ExperimentKind::Command { trace },
        None => ExperimentKind::Sidecar { trace },
    };
    // Prices follow what is given.
    let resource = environment.experiment.attributes.clone();
    let container = if command.is_some() { Container::Workload } else { Container::Own };
    detectors::add(&mut environment.experiment.attributes, container);
    let request = metering::request(&args.metering, environment.experiment);
    let executable = command.map(|(program, _)| child::executable_name(program));
    let executable = executable.or(request.executable);
    let request = ExperimentRequest { traces: args.trace_mode, executable, ..request };
    let clock = Clock::start();
    let clock_note = claims.as_mut().and_then(|claims| claims.begin(clock));
    let mut experiment = request.open(clock.now(), kind);
    let own = OwnResources::new(&mut experiment, trace, command.is_some());
    if let (Some(delivery), Some(id)) = (&delivery, own.hardware.get(SERVICE_INSTANCE_ID)) {
        delivery.spread(id, environment.export.every);
    }
    let propagation_env = experiment.propagation_env();
    let zone = LocalZone::of(args.utc_offset, |name| std::env::var(name).ok());
    let config = MeterConfig { utc_offset: zone.offset(), ..args.config() };
    // The driver is searched meanwhile.
    let manager = policies::open(&args.metering.policies, policies::Evaluations::Periodic);
    let manager = optional.result(manager)?.flatten();
    let gpus = if args.require_gpu { arrivals.wait_for_all()? } else { arrivals.wait()? };
    let mut pricing = metering::pricing(&args.metering.price, &resource, manager.clone())?;
    // Query prices first, so that metering does not wait for policies.
    for model in gpus.iter().map(|gpu| gpu.identity.model.as_deref()) {
        let same = gpus.iter().filter(|gpu| gpu.identity.model.as_deref() == model).count();
        let gpus = u32::try_from(same).unwrap_or(u32::MAX);
        let now = clock.now();
        let _known = pricing.at(&GpuOfModel { model, rank: 0, gpus }, now, now);
    }
    #[cfg(feature = "gateway")]
    let costs = receiving.as_ref().and_then(|receiving| {
        let instance = experiment.attributes.get(SERVICE_INSTANCE_ID).cloned().unwrap_or_default();
        receiving.span_costs(&args.spans, Unplaced::AllGpus, instance)
    });
    #[cfg(feature = "gateway")]
    let divert = costs.as_ref().map(receive::divert);
    #[cfg(not(feature = "gateway"))]
    let divert = None;
    let held = claims.as_ref().map(Claims::held);
    let sink = live_sink(delivery.as_ref(), divert, held, &mut otlp_file);
    let settings = Settings {
        meter: config,
        alerts,
        pricing,
        work: metering::work(&args.metering),
        export: sink.map(|sink| (environment.export, sink)),
    };
    let trace = LongTrace::watch(&experiment, settings.export.is_some());
    let mut pipeline = Pipeline::live(settings, experiment, &own.hardware);
    pipeline.set_host(&own.hardware);
    claims.iter().for_each(|claims| claims.resume(&mut pipeline));

    let watcher = manager.as_ref().map(PolicyManager::watch).transpose();
    let watcher = watcher.map_err(failed("cannot watch the policy directory"));
    let _watcher = optional.result(watcher)?;
    let worker = manager.clone().map(Worker::new);
    let stale_after = config.stale_after.fixed().unwrap_or(Nanos::SECOND);
    let sampler_config = SamplerConfig { tick: args.interval, stale_after };
    let driver = Driver::installed().after(load_trial::load);
    let sampler = Sampler::new(driver, sampler_config, clock);
    let every = Duration::from_nanos(args.windows.window_interval.0);
    let dump = args.metering.policies.dump_windows.as_deref().map(Dump::to);
    let scheduler = WindowScheduler::new(worker, dump, every);
    let socket = optional
        .result(WorkSocket::for_run(args.work_socket.as_deref(), command.is_some(), clock))?
        .flatten();
    let path = socket.as_ref().and_then(|socket| socket.path().to_str());
    let socket_env = path.map(|path| (work_socket::VARIABLE, Some(path.to_owned())));
    let work = WorkIntake::new(socket);
    let mut live = Live::new(sampler, pipeline, clock, zone, scheduler, work, manager.clone());
    #[cfg(feature = "gateway")]
    if let Some(metered) = metered {
        live.receive(metered, costs, work_mappings);
    }
    let kinds = WorkKinds::start(&args.command, args.procfs.as_deref());
    let kinds = optional.result(kinds.map_err(failed("kinds of work are unknown")))?;
    live.set_kinds(kinds.unwrap_or_default());
    live.watch_trace(trace);
    live.hardware = HardwareExport::new(own.slot);
    gpus.into_iter().for_each(|gpu| live.join(gpu));
    let metrics = delivery.as_ref().filter(|_| !environment.sdk_disabled);
    let telemetry =
        metrics.and_then(|it| it.telemetry(environment.export.every, &own.process, None));
    if let Some(telemetry) = &telemetry {
        live.observe(telemetry);
        manager.iter().for_each(|manager| telemetry.watch_policies(manager));
    }
    let command_env = propagation_env.into_iter().chain(socket_env);
    #[cfg(feature = "gateway")]
    let command_env = command_env.chain(receiving.iter().flat_map(Receiving::command_env));
    let command_env: Vec<_> = command_env.collect();
    let interruptions = Interruptions::start(&args.interruptions);
    let interruptions = interruptions.map_err(failed("interruptions are not watched"));
    let mut interruptions = optional.result(interruptions)?.flatten();
    let child = command.map(|(program, rest)| Child::start(program, rest, command_env));
    let child = match (child.transpose(), command) {
        (Err(error), Some((program, rest))) if error.is_exhausted() => {
            let error = error.in_one_line();
            warn!(
                "no process can start: the command takes the place of this one, unmetered: {error}"
            );
            drop((live, interruptions));
            let _ = run_report::flush(|| false);
            return Err(Child::replace(program, rest));
        }
        (child, _) => child?,
    };
    let supervision = Supervision::start(child, signals);
    let interval = DRAIN_INTERVAL;
    #[cfg(feature = "gateway")]
    let interval = receiving.as_ref().map_or(interval, |_| RECEIVE_INTERVAL);
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    let metered = contained(|| {
        let attended = command.map(|_| &supervision);
        let step = |live: &mut Live<'_>| {
            let mut claims = claims.iter_mut();
            claims.try_for_each(|claims| live.claim(claims, delivery.as_ref()))?;
            let mut notices = interruptions.iter_mut();
            notices.try_for_each(|notices| notices.take(live, attended))
        };
        let exit = meter(&mut live, &mut arrivals, &supervision, until, interval, step)?;
        let is_cut = supervision.cut();
        let watched = interruptions.take().is_some();
        #[cfg(feature = "gateway")]
        receiving.iter_mut().for_each(Receiving::stop);
        Ok((live.finish(exit, arrivals.missing())?, is_cut, watched))
    });
    let ended = metered.and_then(|(finished, is_cut, watched)| {
        contained(|| {
            let FinishedRun {
                run,
                gpus,
                sampling,
                attribution,
                assumptions,
                work_by_hour,
                interruptions,
            } = finished;
            if let Some(Err(error)) = otlp_file.map(OtlpFile::finish) {
                stop_file(&error);
            }

            let until = Instant::now() + GRACE;
            #[cfg(feature = "gateway")]
            let forwarded = receiving.map(|receiving| receiving.finish(GRACE, &is_cut));
            #[cfg(feature = "gateway")]
            let (forwarded, passed) = forwarded.unwrap_or_default();
            #[cfg(not(feature = "gateway"))]
            let (forwarded, passed) = (Vec::new(), None);
            claims.iter_mut().for_each(|claims| claims.finish(&run, &gpus, delivery.as_ref()));
            let delivered = delivery.map(|delivery| delivery.finish(GRACE, &is_cut));
            claims.into_iter().for_each(|claims| claims.conclude(&run));
            let sentences: Vec<_> = match &delivered {
                Some(report) => report.sentences().collect(),
                None if !is_exported => vec![NO_THREAD.to_owned()],
                None if environment.exports_nothing => vec![NO_EXPORTER.to_owned()],
                None => vec![NO_ENDPOINT.to_owned()],
            };
            if let Some(telemetry) = telemetry {
                let left = until.saturating_duration_since(Instant::now());
                telemetry.finish(if is_cut() { Duration::ZERO } else { left });
            }
            let selected = arrivals.description().unwrap_or(NO_DRIVER);
            let provenance = Provenance {
                title: title(&args.command),
                work_by_hour,
                interruptions: watched.then_some(interruptions),
                rejected_rows: Vec::new(),
                rejected_total: 0,
                assumptions: [vec![selected.to_owned()], assumptions].concat(),
                sampling: sampling.into_iter().chain(clock_note).collect(),
                attribution,
                delivery: [sentences, forwarded].concat(),
                timed: true,
            };
            let reported = run_report::write(&args.metering, &gpus, &run, provenance, report_file);
            if let (Err(error), Some(_)) = (&reported, command) {
                error!("{}", error.in_one_line());
            }
            let lost = delivered.iter().chain(&passed).find_map(DeliveryReport::loss);
            lost.iter().for_each(|lost| warn!("{lost}"));
            let reported = reported.and(run_report::flush(is_cut));
            Ok(Ended { is_delivered: is_exported && lost.is_none(), reported })
        })
    });
    let status = supervision.wait()?;
    let undelivered = |ended: &Ended| args.fail_on_undelivered && !ended.is_delivered;
    match (ended, status) {
        (Ok(Ended { reported: Err(error), .. }) | Err(error), None) => Err(error),
        (Ok(ended), None | Some(0)) if undelivered(&ended) => Ok(EX_IOERR.into()),
        (Ok(_), status) => Ok(status.map_or(ExitCode::SUCCESS, ExitCode::from)),
        (Err(error), Some(status)) => {
            error!("{}", error.in_one_line());
            Ok(status.into())
        }
    }
}

/// Meters until the command ends, and returns how; without a command, until a signal or the end of
/// the duration. `step` is called after each `interval`.
fn meter(
    live: &mut Live<'_>,
    arrivals: &mut GpuArrivals,
    supervision: &Supervision,
    until: Option<Instant>,
    interval: Duration,
    mut step: impl FnMut(&mut Live<'_>) -> Result<(), PipelineError>,
) -> Result<Option<CommandExit>, CommandError> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(None);
        }
        let wait = left.map_or(interval, |left| left.min(interval));
        let happened = supervision.next(wait)?;
        arrivals.poll()?.into_iter().try_for_each(|gpu| live.join_late(gpu))?;
        live.drain()?;
        step(live)?;
        live.evaluate_policies()?;
        match happened {
            Happened::Nothing => {}
            Happened::Ended(exit) => return Ok(Some(exit)),
            Happened::Stopped => return Ok(None),
        }
    }
}

/// The title of the report: the program, without its arguments, which may contain secrets.
fn title(command: &[OsString]) -> String {
    command
        .first()
        .map_or_else(|| "this machine".to_owned(), |program| child::executable_name(program))
}
