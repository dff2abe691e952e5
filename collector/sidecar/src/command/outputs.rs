//! The outputs of a live run: opened before it begins, and ended in order within one grace period.

use std::thread;
use std::time::{Duration, Instant};

use phasemeter_engine::gateway::SpanCosts;
use phasemeter_engine::pipeline::{Finished, Pipeline, PipelineError, RequestSink};
use phasemeter_engine::policies::PolicyManager;
use phasemeter_engine::telemetry::Telemetry;
use phasemeter_environment::variables::Environment;
use phasemeter_journal::{Gate, RunJournal};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_otlp::experiment::Attributes;
use phasemeter_otlp::exposition::Exposition;
use phasemeter_report::Provenance;
use tracing::{error, warn};

use super::agent_accounts::AgentAccounts;
use super::claims::{self, Claims};
use super::data_dir::ExportOptions;
use super::delivery::{self, Delivery, Export, NotSent};
use super::delivery_report::DeliveryReport;
use super::error::CommandError;
use super::files::{self, ReplacedFile};
use super::interim::{GRACE, Interim, Lateness};
use super::kept_reports::Named;
use super::live_sink::{LiveFile, live_sink};
use super::metering;
use super::optional::Optional;
use super::output_files::OutputFiles;
use super::probes::Probes;
use super::relay::{self, Relay};
use super::report_outputs::ReportOutputs;
use super::run_report::{self, ReportFiles};
use phasemeter_cli::{LiveArgs, MeteringArgs};

/// Additional time to deliver the last points of each metered GPU.
const GRACE_PER_GPU: Duration = Duration::from_millis(1);

/// Most time for the final flush, within the 30 s between SIGTERM and SIGKILL of Kubernetes.
const MAX_GRACE: Duration = Duration::from_secs(20);

/// The outputs of a live run.
pub(super) struct Outputs {
    report: ReportOutputs,
    /// The file of the report, as it was given: that of a report while the run goes on has its start in its name.
    given: Option<ReplacedFile>,
    /// The report in the data directory, unless a file is written while the run goes on.
    kept: Option<ReplacedFile>,
    /// The report while the run goes on.
    pub(super) interim: Option<Interim>,
    file: Option<LiveFile>,
    delivery: Result<Delivery, NotSent>,
    /// Options of export, with the data directory.
    pub(super) options: ExportOptions,
    /// What is received and forwarded.
    pub(super) relay: Option<Relay>,
    /// Which time is claimed, if that is kept.
    pub(super) claims: Option<Claims>,
    /// What is exported waits there until the journal has what it is made from.
    pub(super) gate: Option<Gate>,
    /// The journal, from which the run is continued if it is killed.
    pub(super) journal: Option<RunJournal>,
    telemetry: Option<Telemetry>,
    /// What Prometheus may ask for.
    page: Option<Exposition>,
    /// Whether the run goes on without what fails.
    optional: Optional,
}

/// A live run that has ended.
pub(super) struct FinishedRun {
    /// What was metered.
    pub(super) run: Finished,
    /// The GPUs, as metered.
    pub(super) gpus: Vec<GpuIdentity>,
    /// What the report states beside the bill, except for the delivery.
    pub(super) provenance: Provenance,
    /// What this pod pays, if the agent of its node states it, and the end of the run.
    pub(super) accounts: Option<(AgentAccounts, Timestamp)>,
}

/// What the end of a run has to report.
pub(super) struct Ended {
    /// Whether a backend has accepted all that was to be delivered.
    pub(super) is_delivered: bool,
    /// Whether the report was written.
    pub(super) reported: Result<(), CommandError>,
}

impl Outputs {
    /// Opens the files, then the way to the backend.
    pub(super) fn open(
        args: &LiveArgs,
        environment: &Environment,
        export: Export,
        optional: Optional,
    ) -> Result<Self, CommandError> {
        metering::check_outputs(OutputFiles::default(), &args.metering)?;
        let report = ReportOutputs::of(&args.metering.report)?;
        optional.result(report.check())?;
        let file = args.metering.report.otlp_file.as_deref();
        file.map_or(Ok(()), files::reject_pipe)?;
        let file = optional.result(file.map(files::create_otlp).transpose())?.flatten();
        let options = ExportOptions::read(&args.export, optional)?;
        // Before delivery removes what earlier runs have left.
        let claims = claims(&options, optional)?;
        let delivery = Delivery::of_environment(environment, export, &options, optional)?;
        Ok(Self {
            given: report.json.clone(),
            report,
            kept: None,
            interim: None,
            file: file.map(LiveFile::new),
            delivery,
            options,
            relay: None,
            claims,
            gate: None,
            journal: None,
            telemetry: None,
            page: None,
            optional,
        })
    }

    /// Writes the report also while the run goes on, if that is requested: its file has the start of the run in its name. Else it
    /// is kept in the data directory, if there is one.
    pub(super) fn report_during(
        &mut self,
        args: &LiveArgs,
        lateness: Lateness,
        named: Named,
    ) -> Result<(), CommandError> {
        if let Some(given) = &self.given {
            let dated = given.dated(named.began);
            self.interim = Interim::of(args, &dated, lateness);
            if self.interim.is_some() {
                let checked = self.optional.result(dated.check()).map(drop);
                self.report.json = Some(dated);
                return checked;
            }
        }
        self.kept = self.options.report(named)?;
        self.interim = self.kept.clone().map(Interim::kept);
        Ok(())
    }

    /// Sends metrics and spans at a time of this instance within the export interval.
    pub(super) fn spread(&self, instance: Option<&String>, every: Nanos) {
        if let (Ok(delivery), Some(instance)) = (&self.delivery, instance) {
            delivery.spread(instance, every);
        }
    }

    /// The sink of the pipeline; `None` if nothing is exported. `costs`: what prices spans, if any are to be.
    pub(super) fn sink(&self, costs: Option<&SpanCosts>) -> Option<RequestSink<'static>> {
        let backend = self.delivery.as_ref().ok().map(Delivery::sender);
        let held = self.claims.as_ref().map(Claims::held);
        let (file, page) = (self.file.clone(), self.page.clone());
        let sink = live_sink(backend, costs.map(relay::divert), held, file, page)?;
        Some(match &self.gate {
            Some(gate) => gate.before(sink),
            None => sink,
        })
    }

    /// Keeps what is exported for Prometheus, if there is an address at which it may ask. Before [`Self::sink`].
    pub(super) fn expose(&mut self, probes: &Probes) {
        self.page = probes.exposition().cloned();
    }

    /// Whether spans are sent or written.
    pub(super) const fn has_traces(&self) -> bool {
        self.delivery.is_ok() || self.file.is_some()
    }

    /// Starts internal telemetry, for the backend and for Prometheus, unless the SDK is disabled. It observes the
    /// policies.
    pub(super) fn start_telemetry(
        &mut self,
        environment: &Environment,
        process: &Attributes,
        probes: &Probes,
        policies: Option<&PolicyManager>,
    ) -> Option<&Telemetry> {
        let delivery = self.delivery.as_ref().ok();
        let (every, scraped) = (environment.export.every, probes.reader());
        let telemetry = || delivery::telemetry(delivery, every, process, scraped);
        self.telemetry = (!environment.sdk_disabled).then(telemetry).flatten();
        let telemetry = self.telemetry.as_ref()?;
        policies.into_iter().for_each(|policies| telemetry.watch_policies(policies));
        Some(telemetry)
    }

    /// Makes space for the metrics of so many GPUs, and sends what claims time. To be called after each change of the
    /// pipeline.
    pub(super) fn step(&mut self, pipeline: &mut Pipeline<'_>, gpus: usize) {
        let delivery = self.delivery.as_ref().ok();
        delivery.into_iter().for_each(|delivery| delivery.make_space_for(gpus));
        let sender = delivery.map(Delivery::sender);
        self.claims.iter_mut().for_each(|claims| claims.step(pipeline, sender.as_ref()));
    }

    /// Keeps what has changed the pipeline in the journal, if there is one.
    pub(super) fn keep(
        &mut self,
        pipeline: &mut Pipeline<'_>,
        now: Timestamp,
    ) -> Result<(), PipelineError> {
        if let Some(journal) = self.journal.take() {
            self.journal = journal.step(pipeline, now).map_err(PipelineError::Export)?;
        }
        Ok(())
    }

    /// Ends all within the grace period, or sooner if `is_cut`; the report is the last one, since it has what
    /// became of the others. What is billed is written before.
    pub(super) fn end(
        self,
        args: &MeteringArgs,
        metered: FinishedRun,
        is_cut: impl Fn() -> bool,
    ) -> Ended {
        let Self {
            report,
            kept,
            mut interim,
            file,
            delivery,
            relay,
            mut claims,
            journal,
            telemetry,
            optional,
            ..
        } = self;
        let FinishedRun { mut run, gpus, mut provenance, accounts } = metered;
        let grace = grace(gpus.len());
        let until = Instant::now() + grace;
        if let Some(Err(error)) = journal.map(|journal| journal.end(thread::sleep)) {
            error!("the last requests are lost: {error}");
        }
        // The file has what the pipeline wrote, and the backend what was received.
        file.iter().for_each(LiveFile::finish);
        let forwarded = relay.map(|relay| relay.finish(grace, &is_cut));
        let (forwarded, passed) = forwarded.unwrap_or_default();
        let sender = delivery.as_ref().ok().map(Delivery::sender);
        let sender = sender.as_ref();
        claims.iter_mut().for_each(|claims| claims::finish(claims, &run, &gpus, sender));
        let billed = || run_report::billed(args, &gpus, &run, (&provenance, accounts.as_ref()));
        interim.iter_mut().for_each(|interim| interim.conclude(billed));
        // What a relay has waited for, the last points do not wait for again.
        let left = until.saturating_duration_since(Instant::now()).max(GRACE);
        let delivered = delivery.map(|delivery| delivery.finish(left, &is_cut));
        claims.into_iter().for_each(|claims| claims::conclude(claims, &run));
        // Internal telemetry has these counts, too.
        let left = until.saturating_duration_since(Instant::now());
        let left = if is_cut() { Duration::ZERO } else { left };
        telemetry.into_iter().for_each(|telemetry| telemetry.finish(left));
        // The report.
        provenance.delivery = match &delivered {
            Ok(report) => report.sentences().collect(),
            Err(why) => vec![why.to_string()],
        };
        provenance.delivery.extend(forwarded);
        let periods = interim.and_then(Interim::finish);
        let files = ReportFiles { outputs: report, kept, periods };
        let reported = run_report::write(args, &gpus, &mut run, (&provenance, accounts), files);
        if let (Err(error), true) = (&reported, optional.0) {
            error!("{}", error.in_one_line());
        }
        let lost = delivered.iter().chain(&passed).find_map(DeliveryReport::loss);
        lost.iter().for_each(|lost| warn!("{lost}"));
        let is_delivered = lost.is_none() && !matches!(delivered, Err(NotSent::NotStarted));
        Ended { is_delivered, reported: reported.and(run_report::flush(is_cut)) }
    }
}

/// What earlier runs have claimed, if that is kept: in a data directory that is named, since no other process uses it, and
/// without a command, after whose end GPUs may be another's.
fn claims(options: &ExportOptions, optional: Optional) -> Result<Option<Claims>, CommandError> {
    if optional.0 || options.named().is_none() {
        return Ok(None);
    }
    Ok(options.directory()?.and_then(|data| claims::open(&data)))
}

/// The time for the final flush of so many metered GPUs.
fn grace(gpus: usize) -> Duration {
    let gpus = u32::try_from(gpus).unwrap_or(u32::MAX);
    GRACE.saturating_add(GRACE_PER_GPU.saturating_mul(gpus)).min(MAX_GRACE)
}
