//! A trial of metering: the driver, its calls, and what would be billed, as a run of some seconds finds them.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_config::ConfigurationFile;
use phasemeter_doctor::findings::{Findings, Topic};
use phasemeter_doctor::seen::Seen;
use phasemeter_doctor::{billed, calls, workload};
use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::pipeline::{Pipeline, Settings};
use phasemeter_engine::sampler::{Sampler, SamplerConfig};
use phasemeter_engine::work::WorkIntake;
use phasemeter_environment::detectors::{self, Container};
use phasemeter_environment::{host, job};
use phasemeter_files::read_text;
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::experiment::{ExperimentKind, ExperimentRequest, TraceId};
use phasemeter_report::{Input, Report};
use phasemeter_sources::clock::Clock;

use super::holders;
use crate::command::driver::{self, AgentOfNode};
use crate::command::error::CommandError;
use crate::command::gpu_selection::GpuSelection;
use crate::command::gpus::GpuArrivals;
use crate::command::live::Live;
use crate::command::local_zone::LocalZone;
use crate::command::optional::Optional;
use crate::command::outputs::FinishedRun;
use crate::command::window_scheduler::WindowScheduler;
use crate::command::{child, gpus, metering, node_price, policies};
use crate::variables::variable;
use phasemeter_cli::DoctorArgs;

/// How long GPUs are metered, from the first one that answers.
const TRIAL: Duration = Duration::from_millis(2_500);

/// How long policies, which may have prices, are waited for.
const POLICIES: Duration = Duration::from_secs(1);

/// The time between two looks at the sampler.
const STEP: Duration = Duration::from_millis(100);

/// The memory map of this process, and as much of it as is read.
const MAPS: &str = "/proc/self/maps";
const MAX_MAPS: u64 = 4 << 20;

/// Part of the name of the driver's library.
const LIBRARY: &str = "libnvidia-ml";

/// Meters for a moment, as a run or an agent with these options would.
pub(super) fn check(args: &DoctorArgs, until: Instant) -> Result<Findings, CommandError> {
    let DoctorArgs { machine, node, agent, .. } = args;
    let options = &machine.live.metering;
    let mut findings = Findings::default();
    // Calls that hang are waited for at the end.
    let until = until.checked_sub(Sampler::GRACE).unwrap_or(until);

    // The GPUs.
    let mut environment = metering::environment(options);
    job::add_job(&mut environment.experiment.attributes, variable);
    let command = args.workload.command.first();
    let container = if command.is_some() { Container::Workload } else { Container::Own };
    let selection = match agent {
        false => GpuSelection::of_run(machine, container),
        true => GpuSelection::of_node(machine),
    };
    let attributes = &mut environment.experiment.attributes;
    let beside = selection.own.in_pod().then(|| AgentOfNode::find(attributes));
    let driver = beside.as_ref().map_or_else(driver::tried, driver::beside);
    let mut arrivals = GpuArrivals::start(Arc::clone(&driver), selection, true)?;

    // The workload and its prices.
    let (price, _) = match agent {
        false => (options.price.clone(), None),
        true => node_price::of_node(node, &options.price, attributes),
    };
    let given = attributes.clone();
    detectors::add(attributes, container);
    let requested = std::mem::take(&mut environment.experiment);
    let is_given = requested.parent.is_some()
        || options.experiment.id.is_some()
        || options.experiment.traceparent.is_some();
    let request = metering::request(options, requested);
    let executable = command.map(|program| child::executable_name(program)).or(request.executable);
    let request = ExperimentRequest { traces: machine.trace_mode, executable, ..request };
    let trace = TraceId::random();
    let kind = match command {
        Some(_) => ExperimentKind::Command { trace },
        None => ExperimentKind::Sidecar { trace },
    };
    let clock = Clock::start();
    let experiment = request.open(clock.now(), kind);
    if let Some(file) = ConfigurationFile::of_process() {
        findings.fact(Topic::Configuration, file.path().display().to_string());
        file.warnings().iter().for_each(|warning| findings.note(warning));
    }
    workload::describe(&environment, &experiment, is_given, &mut findings);
    let pricers = &options.policies;
    let has_policies =
        !pricers.files.is_empty() || pricers.dir.is_some() || !pricers.settings.is_empty();
    let manager = match has_policies {
        true => policies::open(pricers, policies::Evaluations::Periodic)?,
        false => None,
    };
    let began = Instant::now();
    while manager.as_ref().is_some_and(|it| it.is_loading()) && began.elapsed() < POLICIES {
        thread::sleep(STEP);
    }
    if manager.as_ref().is_some_and(|it| it.is_loading()) {
        findings.note("policies: still being loaded, so their prices are not on this page; set --policy-cache");
    }

    // Metering.
    let gpus = arrivals.wait()?;
    let mut pricing = metering::pricing(&price, &given, manager)?;
    gpus::query_prices(&mut pricing, &gpus, clock);
    let zone = LocalZone::of(machine.live.utc_offset, variable);
    let meter = MeterConfig {
        utc_offset: zone.offset(),
        charges_holders: !agent,
        ..machine.config(command.is_some())
    };
    let stale_after = meter.stale_after.fixed().unwrap_or(Nanos::SECOND);
    let settings = Settings {
        meter,
        alerts: AlertRules::default(),
        pricing,
        work: metering::work(options),
        export: None,
    };
    let pipeline = Pipeline::live(settings, experiment, &host::attributes());
    let scheduler = WindowScheduler::start(None, &machine.live, Optional(true))?;
    let config = SamplerConfig { tick: machine.interval, stale_after };
    let sampler = Sampler::new(driver, config, clock);
    let mut live =
        Live::new(sampler, pipeline, clock, zone, scheduler, WorkIntake::new(None), None);
    live.seen = Some(Seen::default());
    let mut first = (!gpus.is_empty()).then(Instant::now);
    gpus.into_iter().for_each(|gpu| live.join(gpu));
    let is_over = |first: Option<Instant>, arrivals: &GpuArrivals| {
        Instant::now() >= until
            || first.is_some_and(|first| first.elapsed() >= TRIAL)
            || first.is_none() && arrivals.has_failed()
    };
    while !is_over(first, &arrivals) {
        thread::sleep(STEP);
        for gpu in arrivals.poll()? {
            first.get_or_insert_with(Instant::now);
            live.join_late(gpu)?;
        }
        live.drain()?;
    }

    // The findings.
    let library = library(&read_text(Path::new(MAPS), MAX_MAPS).unwrap_or_default());
    let stats = live.sampler_stats();
    let seen = live.seen.take().unwrap_or_default();
    let missing = arrivals.missing();
    for gpu in missing.iter().filter_map(|gpu| gpu.index) {
        findings.problem(format!(
            "GPU {gpu}: does not respond; check `nvidia-smi` and `dmesg`, it may need a reset"
        ));
    }
    let FinishedRun { run, gpus, provenance, .. } = live.finish(None, missing, None, || false)?;
    if first.is_none() {
        findings.problem(arrivals.description());
    } else {
        findings.fact(Topic::Gpus, arrivals.description());
    }
    calls::driver(library.as_deref(), &gpus, &mut findings);
    calls::describe(&seen, &stats, &gpus, machine.procfs.as_deref(), &mut findings);
    let report = Report::build(&Input::of(&run, &gpus, options.meter.thresholds, provenance));
    billed::describe(&report, &mut findings);
    if *agent && first.is_some() {
        let until = until + Sampler::GRACE;
        let node = (node, machine.procfs.as_deref());
        holders::check(node, &gpus, &seen, (clock, until), &mut findings);
    }
    Ok(findings)
}

/// The path of the driver's library, in the memory map of a process that has loaded it.
fn library(maps: &str) -> Option<String> {
    let path = |line: &str| line.find('/').and_then(|at| line.get(at..)).map(str::to_owned);
    maps.lines().filter(|line| line.contains(LIBRARY)).find_map(path)
}
