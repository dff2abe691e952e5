//! `phasemeter audit`: meters recorded logs.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

#[cfg(feature = "full")]
use phasemeter_engine::pipeline::Finished;
use phasemeter_engine::policies::has_hours_of_week;
use phasemeter_logs::Source;
use phasemeter_logs::log::{
    GivenModel, Input, OpenedInputs, RejectedRow as RejectedLine, RejectedRows,
};
#[cfg(feature = "full")]
use phasemeter_logs::metric_log::{self, MetricLogOptions, MetricLogs, Recognized};
use phasemeter_logs::nvidia_smi::{
    GpuIdentification, LocalStep, LocalSteps, LogOptions, LogSummary, Logs, Separation, UtcOffset,
};
use phasemeter_meter::gpu_specs::same_model;
use phasemeter_report::Provenance;
use phasemeter_report::{RejectedRow, Utc};
use phasemeter_savings::trial::Settled;

use super::error::CommandError;
use super::listing::{counted, listed};
use super::local_zone::LocalZone;
#[cfg(feature = "full")]
use super::mappings;
use super::metering;
use super::output_files::OutputFiles;
use super::progress::Progress;
use super::report_outputs::ReportOutputs;
use super::sinks::Sinks;
#[cfg(feature = "full")]
use super::trial_records;
use super::work_log::{self, WorkLog, WorkWithin};
use phasemeter_cli::{AuditArgs, MeteringArgs, SendArgs};

/// Maximum number of logs listed in one note.
const MAX_LISTED: usize = 5;

/// The notes on local times and hours of the week in UTC, of which one at most is given.
const ASSUMED_UTC: &str = "local times are read as UTC; set --utc-offset if they are not";
const HOURS_IN_UTC: &str = "hours of the week are in UTC; set --utc-offset for local ones";

/// Meters the logs and reports.
pub(super) fn run(args: AuditArgs) -> Result<(), CommandError> {
    let AuditArgs { logs, gpu_count, columns, utc_offset, mut metering, send, .. } = args;
    let work_log = args.work_log.as_deref().map(WorkLog::read).transpose()?;
    metering.meter.utc_offset = utc_offset.map(UtcOffset::seconds);
    metering.meter.missing = args.missing.kind();
    let given = args.gpu_model.map(GivenModel::Default);
    let gpu_model = args.gpu_model_override.map(GivenModel::Override).or(given);
    let inputs: Vec<Input> = logs.into_iter().map(Input::from).collect();
    let stale_after = metering.meter.config().stale_after.fixed();
    let gpus = gpu_count;
    let options =
        LogOptions { gpus, columns, gpu_model: gpu_model.clone(), utc_offset, stale_after };
    let outputs = || check_outputs(&inputs, args.work_log.as_deref(), &metering);
    let audit = Audit {
        inputs: &inputs,
        metering: &metering,
        send: &send,
        work_log,
        #[cfg(feature = "full")]
        fail_on_alert: args.fail_on_alert,
        #[cfg(feature = "full")]
        settled: trial_records::settled(args.trials.records.as_deref())?,
        #[cfg(not(feature = "full"))]
        settled: Vec::new(),
    };
    let opened = OpenedInputs::open(&inputs)?;
    #[cfg(feature = "full")]
    let opened = match metric_log::recognize(opened)? {
        Recognized::Other(opened) => opened,
        Recognized::Metrics(recognized) => {
            let mappings = mappings::read(&args.metrics.mapping, &args.metrics.label)?;
            let dmon_times = args.metrics.dmon_times();
            let given = gpu_model.clone();
            let options = MetricLogOptions { gpu_model: given, dmon_times, basis: None };
            let mut source = MetricLogs::open(recognized, mappings, options)?;
            outputs()?;
            return audit.run(&mut source, MetricLogs::progress, |source| {
                let models = model_contradictions(gpu_model.as_ref(), source.logged_models());
                let notes = mappings::notes(source.buffer());
                (source.rejected().clone(), models.into_iter().chain(notes).collect())
            });
        }
    };
    let mut source = Logs::read(opened, &options)?;
    outputs()?;
    audit.run(&mut source, Logs::progress, |source| {
        let mut notes = assumptions(source);
        notes.extend(model_contradictions(gpu_model.as_ref(), source.logged_models()));
        (source.rejected().clone(), notes)
    })
}

/// An audit of logs of any format.
struct Audit<'a> {
    inputs: &'a [Input],
    metering: &'a MeteringArgs,
    send: &'a SendArgs,
    work_log: Option<WorkLog>,
    #[cfg(feature = "full")]
    fail_on_alert: bool,
    /// The trials that were settled.
    settled: Vec<Settled>,
}

impl Audit<'_> {
    /// Meters a source and reports. `notes` are the rejected rows and assumptions of the source.
    fn run<S: Source>(
        self,
        source: &mut S,
        progress_of: impl Fn(&S) -> (u64, Option<u64>),
        notes: impl FnOnce(&S) -> (RejectedRows, Vec<String>),
    ) -> Result<(), CommandError> {
        #[cfg(feature = "full")]
        let fail_on_alert = self.fail_on_alert;
        let Self { inputs, metering, send, work_log, settled, .. } = self;
        let mut progress = Progress::new(progress_of(source));
        let files = ReportOutputs::of(&metering.report)?;
        files.check()?;
        let mut sinks = Sinks::open(&metering.report, send)?;
        let mut within = WorkWithin::default();
        let work = |metered| {
            let Some(work_log) = work_log else { return Ok(metering::work(metering)) };
            within = work_log.within(metered)?;
            let totals = work_log::totals(&within.by_hour).into_iter();
            Ok(totals.map(|(unit, count)| (unit.name().to_owned(), count)).collect())
        };
        let step = |source: &S| progress.step(|| progress_of(source));
        let environment = metering::environment(metering);
        let run = metering::meter(metering, environment, source, &mut sinks, step, work)?;
        progress.finish();
        let (rejected, mut assumptions) = notes(source);
        let zone = metering.meter.utc_offset.map(|offset| LocalZone::Given(offset).describe());
        let uses_hours = || run.gpus.iter().any(|gpu| has_hours_of_week(&gpu.meter));
        let is_noted = assumptions.iter().any(|note| note == ASSUMED_UTC);
        let utc = || (!is_noted && uses_hours()).then(|| HOURS_IN_UTC.to_owned());
        assumptions.extend(zone.or_else(utc));
        assumptions.extend(within.notes);
        let work_by_hour = within.by_hour;
        let provenance =
            Provenance { work_by_hour, assumptions, settled, ..provenance(inputs, &rejected) };
        let reported = metering::report(metering, &files, source, &run, provenance);
        reported.and(sinks.finish())?;
        #[cfg(feature = "full")]
        if fail_on_alert {
            check_alerts(&run)?;
        }
        Ok(())
    }
}

/// Checks that no alert opened.
#[cfg(feature = "full")]
fn check_alerts(run: &Finished) -> Result<(), CommandError> {
    let counts = run.gpus.iter().filter_map(|gpu| gpu.meter.alerts());
    let counts = counts.flat_map(|alerts| alerts.log().counts());
    match counts.map(|counts| counts.opened).sum() {
        0 => Ok(()),
        opened => Err(CommandError::AlertsOpened(opened)),
    }
}

/// Checks that no output is a log, another output or standard output.
fn check_outputs(
    inputs: &[Input],
    work_log: Option<&Path>,
    metering: &MeteringArgs,
) -> Result<(), CommandError> {
    let mut files = OutputFiles::default();
    work_log.into_iter().for_each(|path| files.add_input(path));
    for input in inputs {
        match input {
            Input::Stdin => files.add_stream(io::stdin(), "standard input"),
            Input::File(path) => files.add_input(path),
        }
    }
    files.add_stream(io::stdout(), "standard output");
    metering::check_outputs(files, metering)
}

fn provenance(inputs: &[Input], rejected: &RejectedRows) -> Provenance {
    let title = match inputs {
        [input] => input.to_string(),
        inputs => format!("{} logs", inputs.len()),
    };
    let row = |row: &RejectedLine| RejectedRow {
        file: row.file.to_string(),
        line: row.line,
        reason: row.reason.clone(),
    };
    Provenance {
        title,
        rejected_rows: rejected.first.iter().map(row).collect(),
        rejected_total: rejected.total,
        ..Provenance::default()
    }
}

fn assumptions(source: &Logs) -> Vec<String> {
    let mut assumptions = Vec::new();
    if source.summaries().any(|log| log.format.assumed_utc) {
        assumptions.push(ASSUMED_UTC.to_owned());
    }
    for log in source.summaries() {
        assumptions.extend(row_order(&log));
        assumptions.extend(times(&log));
        if let Some(before) = log.continues {
            assumptions
                .push(format!("{} continues {before}: GPU IDs recur at later times", log.file));
        }
    }
    assumptions.extend(separations(source));
    assumptions
}

/// Contradictions between the model given by the user and those in the logs.
fn model_contradictions<'a>(
    given: Option<&GivenModel>,
    logged: impl Iterator<Item = Option<&'a str>>,
) -> Vec<String> {
    let Some(given) = given else { return Vec::new() };
    let (GivenModel::Default(name) | GivenModel::Override(name)) = given;
    let mut gpus: BTreeMap<&str, u64> = BTreeMap::new();
    for logged in logged.flatten().filter(|logged| !same_model(logged, name)) {
        *gpus.entry(logged).or_default() += 1;
    }
    let contradictions = gpus.into_iter().map(|(logged, gpus)| {
        let gpus = counted(gpus, "GPU");
        match given {
            GivenModel::Default(_) => format!(
                "{gpus} are {logged} by the log, so --gpu-model {name} does not apply to them; \
                 --gpu-model-override does"
            ),
            GivenModel::Override(_) => {
                format!("{gpus} are {logged} by the log, not {name} as given")
            }
        }
    });
    contradictions.collect()
}

/// How the rows of a log that does not identify its GPUs are read.
fn row_order(log: &LogSummary<'_>) -> Vec<String> {
    if log.format.gpu_identification != GpuIdentification::RowOrder {
        return Vec::new();
    }
    let (file, ticks) = (log.file, log.format.ticks);
    let mut sentences = vec![match log.gpus {
        1 if log.format.assumed_single_gpu => {
            format!(
                "{file} identifies no GPUs; one GPU is assumed. If there are more, set --gpu-count"
            )
        }
        1 => format!("{file} identifies no GPUs; its rows are read as one GPU"),
        gpus => format!("{file} identifies no GPUs; its rows are read as {gpus} GPUs in turn"),
    }];
    if ticks.incomplete > 0 {
        sentences.push(format!(
            "{file}: {} of {} ticks skipped as incomplete, since the GPUs of their rows are unknown",
            ticks.incomplete, ticks.total
        ));
    }
    if let Some((since, rows)) = ticks.vanished {
        sentences.push(format!(
            "{file}: from {} on, ticks have {rows} rows for {} GPUs; it is unknown which GPUs are missing, \
             so this time is unobserved",
            Utc(since),
            log.gpus
        ));
    }
    sentences
}

/// How the times of a log are read, if not as they are written.
fn times(log: &LogSummary<'_>) -> Vec<String> {
    let file = log.file;
    let mut sentences = Vec::new();
    if let Some(rows) = log.format.rows_per_second {
        sentences.push(format!(
            "{file} has about {rows} rows per GPU and whole second; they are spread over the second. If they \
             are of several GPUs, record the column uuid"
        ));
    }
    let LocalSteps { last, total } = log.format.local_steps;
    let Some(LocalStep { line, at, seconds }) = last else { return sentences };
    let (direction, season) = if seconds < 0 { ("back", "ends") } else { ("forward", "begins") };
    let minutes = seconds.unsigned_abs() / 60;
    let others = match total {
        1 => String::new(),
        total => format!(", the last of {total} steps"),
    };
    let gap = "; if the logger was stopped instead, its time is missing here";
    sentences.push(format!(
        "{file}, line {line}: local time goes {direction} by {minutes} min after {}, as if daylight saving \
         time {season}{others}; the time is read on without a gap{}",
        Utc(at),
        if seconds < 0 { "" } else { gap }
    ));
    sentences
}

/// The logs that continue no earlier log although GPU IDs recur, one sentence per reason.
fn separations(source: &Logs) -> impl Iterator<Item = String> {
    let mut files: BTreeMap<Separation, Vec<&str>> = BTreeMap::new();
    for log in source.summaries() {
        if let Some(separation) = log.separation {
            files.entry(separation).or_default().push(log.file);
        }
    }
    files.into_iter().map(|(separation, files)| {
        let are = if let [_] = files.as_slice() { "is" } else { "are" };
        let files = listed(files.into_iter().map(str::to_owned), MAX_LISTED);
        format!(
            "{files} {are} counted as GPUs of their own, since {separation}; a log with \
             the column uuid identifies them"
        )
    })
}
