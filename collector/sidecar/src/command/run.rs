//! `phasemeter run`: meters this machine's GPUs while a command runs, or until a signal.
//!
//! Errors of the command line are found before the command starts. What this machine refuses does not
//! prevent it, and from then on it is not disturbed.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_engine::health::Health;
use phasemeter_engine::live::{HardwareExport, LongTrace};
use phasemeter_engine::pipeline::PipelineError;
use phasemeter_engine::sampler::{Sampler, SamplerConfig};
use phasemeter_engine::work::{self, Attempts, WorkIntake, WorkKinds, WorkSocket};
use phasemeter_environment::detectors::{self, Container};
use phasemeter_environment::job;
use phasemeter_environment::resource::Role;
use phasemeter_meter::units::Nanos;
use phasemeter_otlp::encode::CommandExit;
use phasemeter_otlp::experiment::ExperimentRequest;
use phasemeter_process::Launched;
use phasemeter_sources::clock::Clock;
use tracing::{error, warn};

use super::alerts;
use super::child::{self, Child};
use super::configuration;
use super::delivery::Export;
use super::driver::{self, AgentOfNode};
use super::error::CommandError;
use super::exit_status::EX_IOERR;
use super::gpu_selection::GpuSelection;
use super::gpus::GpuArrivals;
use super::hand_over::HandOver;
use super::interim::Lateness;
use super::interruptions::Interruptions;
use super::kept_reports::Named;
use super::live::Live;
use super::local_zone::LocalZone;
use super::metering;
use super::node_agent::NodeAgent;
use super::node_price;
use super::opening::{self, Opened, Opening, Run};
use super::optional::Optional;
use super::outputs::{Ended, Outputs};
use super::policies;
use super::probes::Probes;
use super::relay::{self, Relay};
use super::reload::Reload;
use super::run_report;
use super::signals::{HangUp, SignalListener};
use super::supervision::{Happened, Supervision, contained};
use super::trial_records;
use super::window_scheduler::WindowScheduler;
use crate::variables::variable;
use phasemeter_cli::RunArgs;

/// Interval of draining observations and detecting hung calls: waking up costs more than a reading.
const DRAIN_INTERVAL: Duration = Duration::from_millis(500);

/// The same if telemetry is received, which waits in a short queue.
const RECEIVE_INTERVAL: Duration = Duration::from_millis(250);

/// A run that is ready for its command.
struct Prepared {
    live: Live,
    outputs: Outputs,
    arrivals: GpuArrivals,
    interruptions: Option<Interruptions>,
    /// What probes ask for.
    health: Arc<Health>,
    /// Variables of the command: set, or removed if `None`.
    command_env: Vec<(&'static str, Option<String>)>,
    /// What became of the clock since an earlier run, for the report.
    clock_note: Option<String>,
    reload: Reload,
}

/// Meters, runs the command, and reports.
pub(super) fn run(args: &RunArgs) -> Result<ExitCode, CommandError> {
    meter_machine(&Run { machine: &args.machine, workload: &args.workload, node: None })
}

/// Meters the GPUs of this machine until the command ends, or until a signal, and reports.
pub(super) fn meter_machine(args: &Run<'_>) -> Result<ExitCode, CommandError> {
    let command = args.workload.command.split_first();

    // Signals are blocked before there is another thread, and handled once nothing is left to reject.
    let hang_up = match command {
        None if Reload::is_possible() => HangUp::Reloads,
        _ => HangUp::Ends,
    };
    let signals = SignalListener::start(command.is_some(), hang_up)?;

    // What is metered, and where it goes.
    let without_file;
    let (machine, prepared) = match (prepare(args, &signals), command) {
        (Err(error), Some(_)) => {
            without_file = configuration::without_file_of_command(error)?;
            let RunArgs { machine, workload, .. } = &without_file;
            (machine, prepare(&Run { machine, workload, node: None }, &signals)?)
        }
        (prepared, _) => (args.machine, prepared?),
    };
    let Prepared {
        mut live,
        mut outputs,
        mut arrivals,
        mut interruptions,
        health,
        command_env,
        clock_note,
        mut reload,
    } = prepared;

    // The command. From here on nothing that fails ends it.
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

    // Metering, until the command ends.
    let title = title(&args.workload.command);
    let until = machine.duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    let metered = contained(|| {
        let interval = outputs.relay.as_ref().map_or(DRAIN_INTERVAL, |_| RECEIVE_INTERVAL);
        let attended = command.map(|_| &supervision);
        let step = |live: &mut Live| {
            health.step();
            live.claim(&mut outputs)?;
            live.report(&mut outputs, &health, &machine.live.metering, &title);
            interruptions.iter_mut().try_for_each(|notices| notices.take(live, attended))
        };
        let reload = &mut reload;
        let exit = meter(&mut live, &mut arrivals, reload, &supervision, until, interval, step)?;
        health.end();
        let is_cut = supervision.cut();
        let interruptions = interruptions.map(Interruptions::stop);
        outputs.relay.iter_mut().for_each(Relay::stop);
        // A container that has ended its command holds its GPU as long as it waits.
        let may_wait = || command.is_none() && !is_cut();
        let metered = live.finish(exit, arrivals.missing(), interruptions, may_wait)?;
        Ok((metered, is_cut))
    });

    // The outputs, and the report.
    let ended = metered.and_then(|(mut metered, is_cut)| {
        contained(|| {
            metered.provenance.title = title;
            metered.provenance.assumptions.insert(0, arrivals.description());
            metered.provenance.sampling.extend(clock_note);
            Ok(outputs.end(&machine.live.metering, metered, is_cut))
        })
    });

    // The exit status: that of the command, if there is one.
    let status = supervision.wait()?;
    let undelivered = |ended: &Ended| machine.fail_on_undelivered && !ended.is_delivered;
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

/// Prepares all that precedes the command. What this machine refuses is a warning if there is a command.
fn prepare(args: &Run<'_>, signals: &SignalListener) -> Result<Prepared, CommandError> {
    let Run { machine, workload, node } = *args;
    let options = &machine.live.metering;
    let command = workload.command.first();
    let optional = Optional(command.is_some());

    // The environment.
    let mut environment = metering::environment(options);
    environment.export.by_holder = node.is_some();
    job::add_job(&mut environment.experiment.attributes, variable);

    // Alerts, outputs, the receiver and claims: what the command line names is opened or rejected.
    let alerts = alerts::select(&options.alerts)?;
    let mut outputs = Outputs::open(&machine.live, &environment, Export::Optional, optional)?;
    let label = opening::label(args, &environment);
    let left = match &label {
        Some(label) => outputs.options.left(label)?,
        None => None,
    };
    let named = Named::now();
    let lateness = Lateness { work: Nanos::ZERO, readings: machine.lateness() };
    outputs.report_during(&machine.live, lateness, named)?;
    let probes = Probes::bind(machine.live.health_listen, environment.export.every);
    let probes = optional.result(probes)?.unwrap_or_default();
    outputs.expose(&probes);
    let work_mappings = relay::work_mappings(&workload.work_mappings)?;
    let received;
    (outputs.relay, received) = relay::of_command(workload, &outputs.options, optional)?.unzip();

    // GPUs: the driver is searched while the rest is prepared.
    let container = if command.is_some() { Container::Workload } else { Container::Own };
    let attributes = &environment.experiment.attributes;
    let selection = match node {
        None => GpuSelection::of_run(machine, container),
        Some(_) => GpuSelection::of_node(machine),
    };
    let in_pod = selection.own.in_pod();
    let beside = in_pod.then(|| AgentOfNode::find(attributes));
    let driver = beside.as_ref().map_or_else(driver::tried, driver::beside);
    let is_optional = (command.is_some() || in_pod) && !machine.require_gpu;
    let mut arrivals = GpuArrivals::start(Arc::clone(&driver), selection, is_optional)?;
    signals.ready();

    // The experiment and the resources. Prices follow what is given, not what is detected.
    let own = &mut environment.experiment.attributes;
    let (price, followed) = match node {
        Some(node) => node_price::of_node(node, &options.price, own),
        None => (options.price.clone(), None),
    };
    let given = environment.experiment.attributes.clone();
    detectors::add(&mut environment.experiment.attributes, container);
    let request = metering::request(options, std::mem::take(&mut environment.experiment));
    let executable = command.map(|program| child::executable_name(program));
    let executable = executable.or(request.executable);
    let request = ExperimentRequest { traces: machine.trace_mode, executable, ..request };
    let role = if node.is_some() { Role::Agent } else { Role::Sidecar };
    let clock = Clock::start();

    // Policies and prices. Prices are queried first, so that metering does not wait for policies.
    let zone = LocalZone::of(machine.live.utc_offset, variable);
    let manager = policies::open(&options.policies, policies::Evaluations::Periodic);
    let manager = optional.result(manager)?.flatten();
    let gpus = if machine.require_gpu { arrivals.wait_for_all()? } else { arrivals.wait()? };

    // The experiment, its clock and the pipeline: those of a run that was killed, if they can be made again.
    let opening = Opening {
        args,
        environment: &environment,
        request: &request,
        role,
        alerts: &alerts,
        zone: &zone,
        price: &price,
        given: &given,
        manager: manager.as_ref(),
        gpus: &gpus,
        lateness,
        named,
        clock,
        label: label.as_deref(),
    };
    let Opened { clock, experiment, own, pipeline, costs, billed_from, resumed, clock_note } =
        opening.open(&mut outputs, left)?;
    let mut command_env = experiment.propagation_env();
    let long_trace = LongTrace::watch(&experiment, outputs.has_traces());
    let config = machine.config(command.is_some());
    let stale_after = config.stale_after.fixed().unwrap_or(Nanos::SECOND);

    // The live run: windows of policies, the sampler, reports of work, received telemetry, processes.
    let scheduler = WindowScheduler::start(manager.clone(), &machine.live, optional)?;
    let sampler =
        Sampler::new(driver, SamplerConfig { tick: machine.interval, stale_after }, clock);
    let socket = WorkSocket::for_run(workload.work_socket.as_deref(), command.is_some(), clock);
    let socket = socket.map_err(CommandError::system("cannot listen at the work socket"));
    let socket = optional.result(socket)?.flatten();
    let path = socket.as_ref().and_then(|socket| socket.path().to_str());
    command_env.extend(path.map(|path| (work::VARIABLE, Some(path.to_owned()))));
    let work = WorkIntake::new(socket);
    let mut live = Live::new(sampler, pipeline, clock, zone, scheduler, work, manager.clone());
    live.start = billed_from;
    if let Some(received) = received {
        live.receive(received, costs, work_mappings);
    }
    let kinds = WorkKinds::start(&workload.command, machine.procfs.as_deref());
    let kinds =
        optional.result(kinds.map_err(CommandError::system("kinds of work are unknown")))?;
    live.kinds = kinds.unwrap_or_default();
    if command.is_some() {
        let is_launched = Launched::of(variable).is_some();
        let attempts = Attempts::start(is_launched)
            .map_err(CommandError::system("jobs of launchers are not followed"));
        live.attempts = optional.result(attempts)?.unwrap_or_default();
    }
    live.long_trace = long_trace;
    live.hardware = HardwareExport::new(own.slot);
    let agent = node.map(|node| NodeAgent::start(node, machine.procfs.as_deref(), clock));
    agent.transpose()?.into_iter().for_each(|agent| live.follow(agent));
    live.node_price = followed;
    let settled = trial_records::settled(machine.live.trials.records.as_deref());
    live.settled = optional.result(settled)?.unwrap_or_default();
    live.hand_over = beside.and_then(|agent| HandOver::start(agent.socket, agent.pod, clock));
    resumed.into_iter().for_each(|(gpus, until)| live.resume(gpus, until));
    gpus.into_iter().for_each(|gpu| live.join(gpu));

    // Internal telemetry, and the answers to probes.
    let policies = manager.as_deref();
    let telemetry = outputs.start_telemetry(&environment, &own.process, &probes, policies);
    telemetry.into_iter().for_each(|telemetry| live.observe(telemetry));
    let health = optional.result(probes.answer())?.unwrap_or_default();
    command_env.extend(outputs.relay.iter().flat_map(Relay::command_env));

    // Interruptions.
    let interruptions = Interruptions::start(&workload.interruptions);
    let interruptions =
        interruptions.map_err(CommandError::system("interruptions are not watched"));
    let interruptions = optional.result(interruptions)?.flatten();
    let reload = Reload::start(options, given, manager);
    Ok(Prepared { live, outputs, arrivals, interruptions, health, command_env, clock_note, reload })
}

/// Meters until the command ends, and returns how; without a command, until a signal or the end of
/// the duration. `step` is called after each `interval`.
fn meter(
    live: &mut Live,
    arrivals: &mut GpuArrivals,
    reload: &mut Reload,
    supervision: &Supervision,
    until: Option<Instant>,
    interval: Duration,
    mut step: impl FnMut(&mut Live) -> Result<(), PipelineError>,
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
        live.reload(reload, matches!(happened, Happened::Reload));
        step(live)?;
        live.evaluate_policies()?;
        match happened {
            Happened::Nothing | Happened::Reload => {}
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
