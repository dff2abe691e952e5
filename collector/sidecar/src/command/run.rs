//! `phasemeter run`: the GPUs of this machine, while a command runs or until a signal comes.
//!
//! Everything that can be wrong is found before the command starts; from there on nothing of ours
//! stands in its way.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::Request;
use phasemeter_otlp::delivery::Destination;
use phasemeter_otlp::delivery::OtlpFile;
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceId};
use phasemeter_sources::clock::Clock;
use phasemeter_sources::nvml::Driver;
use phasemeter_sources::nvml::select::{By, Selection};
use tracing::{error, info, warn};

use super::advisor::Advisor;
use super::child::{self, Child};
use super::delivery::Delivery;
use super::dump::Dump;
use super::live::{FinishedRun, Live};
use super::metering::{self, Provenance};
use super::wakes::{Wake, Wakes};
use super::{Failure, advice, gpus};
use crate::advice::Worker;
use crate::cli::RunArgs;
use crate::host;
use crate::pipeline::{Finished, Outlet, Pipeline, Settings};
use crate::report::{Input, Report, json};
use crate::sampler::{Sampler, SamplerConfig};

/// What was observed is metered so often, and hanging calls are found out.
const ROUND: Duration = Duration::from_millis(250);

/// What is not sent this long after the end stays unsent.
const GRACE: Duration = Duration::from_secs(5);

/// The delivery outcome if no endpoint is configured.
const NO_ENDPOINT: &str = "nothing was sent: OTEL_EXPORTER_OTLP_ENDPOINT is not set";

/// The most characters of a command in the title of its report.
const TITLE: usize = 60;

/// What energy is the integral of, where a GPU does not count it.
const POWER: &str = "nvml.power_usage";

/// Meters, runs the command, and reports.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let environment = metering::environment();
    let report_file = args.report_file.as_deref().map(metering::create).transpose()?;
    let otlp_file = args.metering.report.otlp_file.as_deref();
    let mut otlp_file = otlp_file.map(metering::otlp_file).transpose()?;
    let delivery = Delivery::start(Destination::Environment)?;
    let discovery = Driver::installed().discover()?;
    let (selection, gpus) = gpus::choose(&args.gpus, &discovery)?;
    let chosen = describe(&selection, &gpus, discovery.gpus.len());
    info!("{chosen}");

    let command = args.command.split_first();
    let trace = TraceId::random();
    let opening = match command {
        Some(_) => ExperimentKind::Command { trace },
        None => ExperimentKind::Sidecar { trace },
    };
    let request = metering::request(&args.metering, environment.experiment);
    let request = ExperimentRequest { traces: args.trace_mode, ..request };
    let clock = Clock::start();
    let experiment = request.open(clock.now(), opening);
    let carriers = experiment.propagation_env();
    let meter = args.config();
    let policies = advice::policies(&args.metering.advice)?;
    let mut pricing = metering::pricing(&args.metering.price, policies.clone());
    // Asked before anything is metered: then nothing waits for a policy.
    for gpu in &gpus {
        let now = clock.now();
        let _known = pricing.at(gpu.model.as_deref(), now, now);
    }
    let host = host::attributes(&experiment.attributes);
    let outlet = outlet(delivery.as_ref(), &mut otlp_file);
    let settings = Settings {
        meter,
        pricing,
        host: host.clone(),
        work: metering::work(&args.metering),
        export: outlet.map(|outlet| (environment.export, outlet)),
    };
    let pipeline = Pipeline::live(settings, experiment);

    let refused = |what| move |source| Failure::System { what, source };
    let folder = policies.as_ref().map(|policies| policies.watch(advice::told)).transpose();
    let _folder = folder.map_err(refused("the folder of policies cannot be watched"))?;
    let worker = policies.clone().map(Worker::start).transpose();
    let worker = worker.map_err(refused("the thread that policies run on cannot be started"))?;
    let wakes = Wakes::listen(command.is_some()).map_err(refused("signals cannot be received"))?;
    let stale_after = meter.stale_after.fixed().unwrap_or(Nanos::SECOND);
    let config = SamplerConfig { tick: args.interval, stale_after };
    let sampler = Sampler::start(discovery, &selection.gpus, config)
        .map_err(refused("the threads that ask the driver cannot be started"))?;
    let every = Duration::from_nanos(args.windows.window_interval.0);
    let dump = args.metering.advice.dump_windows.as_deref().map(Dump::to);
    let advisor = Advisor::new(worker, dump, every);
    let mut live = Live::new(sampler, pipeline, &gpus, clock, advisor);
    let telling = delivery.as_ref().filter(|_| !environment.sdk_disabled);
    let mut telemetry = telling.and_then(|it| it.telemetry(environment.export.every, &host));
    if let Some(telemetry) = &mut telemetry {
        live.tell(telemetry);
        policies.iter().for_each(|policies| telemetry.watch_policies(policies));
    }
    let child = command.map(|(program, rest)| Child::start(program, rest, carriers)).transpose()?;
    let until = args.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    let status = watch(&mut live, &wakes, child, until)?;
    let FinishedRun { run, sampling, assumptions } = live.finish()?;
    if let Some(Err(error)) = otlp_file.map(OtlpFile::finish) {
        give_up(&error);
    }

    let until = Instant::now() + GRACE;
    let delivery = match delivery.map(|delivery| delivery.finish(GRACE)) {
        Some(arrival) => arrival.sentences().collect(),
        None => vec![NO_ENDPOINT.to_owned()],
    };
    if let Some(telemetry) = telemetry {
        telemetry.finish(until.saturating_duration_since(Instant::now()));
    }
    let provenance = Provenance {
        title: title(&args.command),
        power_basis: Some(POWER),
        rejected_rows: Vec::new(),
        rejected_total: 0,
        assumptions: [vec![chosen], assumptions].concat(),
        sampling,
        delivery,
        timed: true,
    };
    match (report(args, &gpus, &run, provenance, report_file), command) {
        (Ok(()), _) => Ok(status),
        (Err(failure), None) => Err(failure),
        // It is the command's status that whoever started it waits for.
        (Err(failure), Some(_)) => {
            error!("{}", failure.in_one_line());
            Ok(status)
        }
    }
}

/// Reports on standard error, and to the file where there is one.
fn report(
    args: &RunArgs,
    gpus: &[GpuIdentity],
    run: &Finished,
    provenance: Provenance,
    file: Option<File>,
) -> Result<(), Failure> {
    let input = metering::input(&args.metering, gpus, run, provenance);
    // What the command wrote last stands apart from it.
    let _ = writeln!(io::stderr());
    let shown = metering::write(&input, args.metering.report.format, io::stderr());
    let written = file.map_or(Ok(()), |file| write_json(&input, BufWriter::new(file)));
    shown.and(written).map_err(Failure::Output)
}

/// Meters until the command ends; without one, until a signal or the time asks for the end.
fn watch(
    live: &mut Live<'_>,
    wakes: &Wakes,
    mut child: Option<Child>,
    until: Option<Instant>,
) -> Result<ExitCode, Failure> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(ExitCode::SUCCESS);
        }
        let wake = wakes.next(left.map_or(ROUND, |left| left.min(ROUND)));
        live.drain()?;
        live.advise()?;
        match (wake, &mut child) {
            (Some(Wake::Child), Some(child)) => {
                if let Some(status) = child.ended()? {
                    return Ok(child::exit_code(status));
                }
            }
            (Some(Wake::Signal { signal, from_terminal: false }), Some(child)) => {
                child.signal(signal);
            }
            (Some(Wake::Signal { .. }), None) => return Ok(ExitCode::SUCCESS),
            (Some(Wake::Signal { from_terminal: true, .. }), Some(_))
            | (Some(Wake::Child), None)
            | (None, _) => {}
        }
    }
}

/// Which GPUs are metered, and who says so.
fn describe(selection: &Selection, gpus: &[GpuIdentity], all: usize) -> String {
    let by = match selection.by {
        By::Driver => return format!("GPUs metered: all that the driver shows, {all}"),
        By::Option => "--gpu",
        By::Variable(variable) => variable,
    };
    let indices = gpus.iter().filter_map(|gpu| gpu.index).map(|index| index.to_string());
    let indices: Vec<_> = indices.collect();
    format!("GPUs metered: {} of {all}, as {by} says: {}", gpus.len(), indices.join(", "))
}

/// What is sent goes to the backend and to the file, where there are such. A file that cannot be
/// written to any more is said once, and costs the run nothing.
fn outlet<'a>(
    delivery: Option<&'a Delivery>,
    file: &'a mut Option<OtlpFile<BufWriter<File>>>,
) -> Option<Outlet<'a>> {
    if delivery.is_none() && file.is_none() {
        return None;
    }
    Some(Box::new(move |request: Request| {
        if let Some(delivery) = delivery {
            delivery.send(&request);
        }
        if let Some(Err(error)) = file.as_mut().map(|file| file.write(&request)) {
            give_up(&error);
            *file = None;
        }
        Ok(())
    }))
}

fn give_up(error: &io::Error) {
    warn!("the OTLP file is given up: {error}");
}

/// The command, as far as a title has room for it.
fn title(command: &[OsString]) -> String {
    if command.is_empty() {
        return "this machine".to_owned();
    }
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let words = words.join(" ");
    match words.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", words.get(..end).unwrap_or_default()),
        None => words,
    }
}

fn write_json(input: &Input<'_>, mut out: impl Write) -> io::Result<()> {
    json::write(&Report::build(input), &mut out)?;
    out.flush()
}
