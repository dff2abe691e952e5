//! The experiment, the clock and the pipeline of a live run: new ones, or those of a run that was killed and goes on.

use std::env;
use std::sync::Arc;

use phasemeter_config::ConfigurationFile;
use phasemeter_engine::alert_rules::AlertRules;
use phasemeter_engine::gateway::{SpanCosts, Unplaced};
use phasemeter_engine::pipeline::{EarlierRuns, Pipeline, Settings};
use phasemeter_engine::policies::PolicyManager;
use phasemeter_environment::resource::Role;
use phasemeter_environment::variables::Environment;
use phasemeter_journal::{Begin, BootClock, Gate, Left, VERSION, Writing};
use phasemeter_meter::gpu::MeterConfig;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::experiment::{
    Attributes, EXPERIMENT_ID, Experiment, ExperimentKind, ExperimentRequest, SERVICE_INSTANCE_ID,
    TraceId, uuid_from_content,
};
use phasemeter_sources::clock::Clock;
use tracing::{info, warn};

use super::claims::Claims;
use super::error::CommandError;
use super::gpus::{self, ArrivedGpu};
use super::interim::Lateness;
use super::kept_reports::Named;
use super::local_zone::LocalZone;
use super::metering;
use super::outputs::Outputs;
use super::own_resources::OwnResources;
use phasemeter_cli::{MachineArgs, NodeArgs, PriceArgs, WorkloadArgs};

/// Variables that make another run of the same arguments, beside the context of the experiment.
const VARIABLES: [&str; 3] = ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "PHASEMETER_GPU"];

/// What is metered.
#[derive(Clone, Copy)]
pub(super) struct Run<'a> {
    /// The GPUs of this machine.
    pub(super) machine: &'a MachineArgs,
    /// The command, if there is one, and what it reports.
    pub(super) workload: &'a WorkloadArgs,
    /// What the agent of a node follows.
    pub(super) node: Option<&'a NodeArgs>,
}

/// What is opened.
pub(super) struct Opening<'a> {
    pub(super) args: &'a Run<'a>,
    pub(super) environment: &'a Environment,
    pub(super) request: &'a ExperimentRequest,
    pub(super) role: Role,
    pub(super) alerts: &'a AlertRules,
    pub(super) zone: &'a LocalZone,
    pub(super) price: &'a PriceArgs,
    pub(super) given: &'a Attributes,
    pub(super) manager: Option<&'a Arc<PolicyManager>>,
    pub(super) gpus: &'a [ArrivedGpu],
    /// How late a report during the run is.
    pub(super) lateness: Lateness,
    /// What is in the names of the files of a new run.
    pub(super) named: Named,
    /// The clock of a new run.
    pub(super) clock: Clock,
    /// What the run is continued by, if it can be.
    pub(super) label: Option<&'a str>,
}

/// What was opened.
pub(super) struct Opened {
    pub(super) clock: Clock,
    pub(super) experiment: Experiment,
    pub(super) own: OwnResources,
    pub(super) pipeline: Pipeline<'static>,
    pub(super) costs: Option<SpanCosts>,
    /// From when on its GPUs are billed.
    pub(super) billed_from: Timestamp,
    /// The GPUs of the run that goes on, and until when it was made again.
    pub(super) resumed: Option<(Vec<GpuIdentity>, Timestamp)>,
    /// What became of the clock since an earlier run, for the report.
    pub(super) clock_note: Option<String>,
}

/// The label of a run, by which it is continued by another one with the same arguments; `None` if it cannot be: a command
/// without a name is another experiment each time.
pub(super) fn label(args: &Run<'_>, environment: &Environment) -> Option<String> {
    let Run { machine, workload, node } = args;
    let ExperimentRequest { id, parent, attributes, .. } = &environment.experiment;
    let is_named = id.is_some() || parent.is_some() || attributes.contains_key(EXPERIMENT_ID);
    let is_other = machine.live.report_period.is_some() || workload.receive.is_some();
    if is_other || !(is_named || workload.command.is_empty()) {
        return None;
    }
    let role = if node.is_some() { "agent" } else { "run" };
    let arguments = env::args_os().skip(1).map(|it| it.to_string_lossy().into_owned());
    let variables = VARIABLES.iter().map(|name| env::var(name).unwrap_or_default());
    // An option of the configuration file is one of the run.
    let file = ConfigurationFile::of_process().map(ConfigurationFile::configuration);
    let context = format!("{:?} {file:?}", environment.experiment);
    let parts: Vec<_> =
        [role.to_owned(), context].into_iter().chain(arguments).chain(variables).collect();
    let parts: Vec<_> = parts.iter().map(String::as_str).collect();
    Some(uuid_from_content("run", &parts))
}

impl Opening<'_> {
    /// Opens it: as what was killed has left it, unless that cannot be made again.
    pub(super) fn open(
        &self,
        outputs: &mut Outputs,
        left: Option<Left>,
    ) -> Result<Opened, CommandError> {
        if let Some(left) = left {
            // What is unpriced until they are loaded is priced from its start on.
            self.manager.iter().for_each(|manager| manager.wait());
            let clock = left.clock();
            let (begin, until, gate) = (left.begin.clone(), left.until, Gate::new(left.left));
            outputs.gate = Some(gate.clone());
            let mut opened = self.open_as(outputs, clock, &begin)?;
            match left.make_again(&mut opened.pipeline, gate, Writing::on_thread) {
                Ok((journal, gpus)) => {
                    let pipeline = &mut opened.pipeline;
                    let claims = outputs.claims.as_mut();
                    opened.clock_note =
                        claims.and_then(|claims| claims.go_on(clock, pipeline, until));
                    let seconds = clock.now().since(until).as_secs_f64();
                    info!("a run that was killed goes on after {seconds:.1} s");
                    opened.pipeline.keep_changes();
                    outputs.journal = Some(journal);
                    let live = &self.args.machine.live;
                    let named = Named { began: begin.named, process: begin.process };
                    outputs.report_during(live, self.lateness, named)?;
                    opened.resumed = Some((gpus, until));
                    return Ok(opened);
                }
                Err(error) => warn!("a run that was killed does not go on: {error}"),
            }
        }
        self.open_new(outputs)
    }

    /// Opens a new run, and its journal.
    fn open_new(&self, outputs: &mut Outputs) -> Result<Opened, CommandError> {
        let clock = self.clock;
        let (_, wall) = clock.origin();
        let clock_note = outputs.claims.as_mut().and_then(|claims| claims.begin(clock));
        let earlier = outputs.claims.as_ref().map_or(EarlierRuns::None, Claims::earlier);
        let mut begin = Begin {
            version: VERSION.to_owned(),
            clock: BootClock::of(clock),
            trace: *TraceId::random().as_bytes(),
            first: wall,
            billed_from: wall,
            named: self.named.began,
            process: self.named.process,
            earlier,
        };
        let gate = self.label.map(|_| Gate::new(0));
        outputs.gate = gate.clone();
        let mut opened = self.open_as(outputs, clock, &begin)?;
        opened.clock_note = clock_note;
        // Prices may have taken seconds, in which nothing was read.
        begin.billed_from = clock.now();
        opened.billed_from = begin.billed_from;
        let Some((label, gate)) = self.label.zip(gate) else { return Ok(opened) };
        outputs.journal = outputs.options.begin_journal(label, begin, gate.clone())?;
        match &outputs.journal {
            Some(_) => opened.pipeline.keep_changes(),
            // Nothing waits.
            None => gate.open().map_err(CommandError::Output)?,
        }
        Ok(opened)
    }

    /// Opens a run that began like this.
    fn open_as(
        &self,
        outputs: &mut Outputs,
        clock: Clock,
        begin: &Begin,
    ) -> Result<Opened, CommandError> {
        let Run { machine, workload, .. } = *self.args;
        let is_command = !workload.command.is_empty();
        let trace = TraceId::new(begin.trace).unwrap_or_else(TraceId::random);
        let kind = match is_command {
            true => ExperimentKind::Command { trace },
            false => ExperimentKind::Sidecar { trace },
        };
        let mut experiment = self.request.clone().open(begin.first, kind);
        self.role.describe(&mut experiment.attributes);
        let own = OwnResources::new(&mut experiment, trace, is_command);
        outputs.spread(own.hardware.get(SERVICE_INSTANCE_ID), self.environment.export.every);
        let costs = outputs.relay.as_ref().and_then(|relay| {
            let instance = experiment.attributes.get(SERVICE_INSTANCE_ID);
            let instance = instance.cloned().unwrap_or_default();
            relay.span_costs(&workload.spans, Unplaced::AllGpus, instance)
        });
        let mut pricing = metering::pricing(self.price, self.given, self.manager.cloned())?;
        gpus::query_prices(&mut pricing, self.gpus, clock);
        let settings = Settings {
            meter: MeterConfig {
                utc_offset: self.zone.offset(),
                charges_holders: self.args.node.is_none(),
                ..machine.config(is_command)
            },
            alerts: self.alerts.clone(),
            pricing,
            work: metering::work(&machine.live.metering),
            export: outputs.sink(costs.as_ref()).map(|sink| (self.environment.export, sink)),
        };
        let mut pipeline = Pipeline::live(settings, experiment.clone(), &own.hardware);
        pipeline.set_host(&own.hardware);
        pipeline.resume(begin.earlier.clone());
        outputs.interim.iter_mut().for_each(|interim| interim.begin(&mut pipeline, clock.now()));
        let billed_from = begin.billed_from;
        let (resumed, clock_note) = (None, None);
        Ok(Opened { clock, experiment, own, pipeline, costs, billed_from, resumed, clock_note })
    }
}
