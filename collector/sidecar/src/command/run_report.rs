//! The report of a live run: first the file, then the text on standard error. The end waits for neither
//! without a limit.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_engine::pipeline::Finished;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_report::{Input, Provenance, page};
use tracing::warn;

use super::agent_accounts::AgentAccounts;
use super::error::CommandError;
use super::files::ReplacedFile;
use super::interim::{GRACE, Periods};
use super::metering;
use super::report_outputs::{ReportOutputs, encode};
use crate::standard_error;
use phasemeter_cli::MeteringArgs;

/// How long a reader takes at most that is not stuck.
const MOMENT: Duration = Duration::from_millis(500);

/// Where the report is written.
pub(super) struct ReportFiles {
    /// The files that options name.
    pub(super) outputs: ReportOutputs,
    /// The file in the data directory, if there is one.
    pub(super) kept: Option<ReplacedFile>,
    /// The periods of which reports are written in place of that of the whole run.
    pub(super) periods: Option<Periods>,
}

/// What is billed, as JSON.
pub(super) fn billed(
    args: &MeteringArgs,
    gpus: &[GpuIdentity],
    run: &Finished,
    (provenance, accounts): (&Provenance, Option<&(AgentAccounts, Timestamp)>),
) -> Result<Vec<u8>, CommandError> {
    let mut input = Input::of(run, gpus, args.meter.thresholds, provenance.clone());
    let bill = accounts.map(|(accounts, end)| accounts.bill(run, gpus, *end));
    bill.iter().for_each(|bill| bill.apply(&mut input));
    encode(&input)
}

/// Writes the report to its files, or those of the last periods, and queues that of the whole run for
/// standard error.
pub(super) fn write(
    args: &MeteringArgs,
    gpus: &[GpuIdentity],
    run: &mut Finished,
    (provenance, accounts): (&Provenance, Option<(AgentAccounts, Timestamp)>),
    files: ReportFiles,
) -> Result<(), CommandError> {
    let mut input = Input::of(run, gpus, args.meter.thresholds, provenance.clone());
    let bill = accounts.as_ref().map(|(accounts, end)| accounts.bill(run, gpus, *end));
    bill.iter().for_each(|bill| bill.apply(&mut input));
    match standard_error::dropped() {
        0 => {}
        lines => input
            .provenance
            .sampling
            .push(format!("{lines} log lines were dropped: standard error was not read in time")),
    }
    let ReportFiles { outputs: ReportOutputs { json: file, page }, kept, periods } = files;
    let whole = file.clone().filter(|_| periods.is_none());
    let written = write_whole(&input, ReportOutputs { json: whole, page }, kept);
    // Separates the report from the output of the command.
    let mut text = b"\n".to_vec();
    let terminal = metering::columns(&standard_error::stream());
    let printed = metering::write(&input, &args.report, terminal, &mut text);
    standard_error::write(&text);
    let of_periods = match file.zip(periods) {
        Some((file, periods)) => {
            write_periods(args, gpus, run, (provenance, accounts), &file, periods)
        }
        None => Ok(()),
    };
    written.and(of_periods).and(printed.map_err(CommandError::Output))
}

/// Writes the report of the whole run. No option names the file that is kept: if it cannot be written, that is a warning.
fn write_whole(
    input: &Input<'_>,
    files: ReportOutputs,
    kept: Option<ReplacedFile>,
) -> Result<(), CommandError> {
    let ReportOutputs { json, page } = files;
    if json.is_none() && page.is_none() && kept.is_none() {
        return Ok(());
    }
    let report = encode(input)?;
    if let Some(kept) = kept {
        let written = write_file(kept, report.clone());
        let _ = written.inspect_err(|error| warn!("{}", error.in_one_line()));
    }
    let page = page.map(|file| (file, page::of(&report)));
    let json = json.map_or(Ok(()), |file| write_file(file, report));
    let page = page.map_or(Ok(()), |(file, page)| write_file(file, page));
    json.and(page)
}

/// Writes the reports of the periods that have none.
fn write_periods(
    args: &MeteringArgs,
    gpus: &[GpuIdentity],
    run: &mut Finished,
    (provenance, mut accounts): (&Provenance, Option<(AgentAccounts, Timestamp)>),
    file: &ReplacedFile,
    mut periods: Periods,
) -> Result<(), CommandError> {
    let mut written = Ok(());
    while run.next_part() {
        let bill = accounts
            .as_mut()
            .map(|(accounts, end)| accounts.take_part(run, gpus, periods.end_within(*end)));
        let report = periods.report(args, gpus, run, provenance.clone(), bill.as_ref());
        let result = report.and_then(|report| write_file(periods.file(file), report));
        written = written.and(result);
        periods.advance();
    }
    written
}

/// Waits until all is written to standard error, for a while; for a moment, once `is_cut`. A closed pipe
/// is not an error.
pub(super) fn flush(is_cut: impl Fn() -> bool) -> Result<(), CommandError> {
    let began = Instant::now();
    let is_over = || began.elapsed() >= MOMENT && is_cut();
    match standard_error::flush(GRACE, is_over) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        flushed => flushed.map_err(CommandError::Output),
    }
}

/// Writes a file on a thread, since a disk may hang; on this one if there is none.
fn write_file(file: ReplacedFile, report: Vec<u8>) -> Result<(), CommandError> {
    let (sender, written) = mpsc::channel();
    let whole = Arc::new((file, report));
    let shared = Arc::clone(&whole);
    let started = thread::Builder::new().name("report".to_owned()).spawn(move || {
        let (file, report) = &*shared;
        // The end may not wait any more.
        let _ = sender.send(file.write(report));
    });
    let (file, report) = &*whole;
    if started.is_err() {
        return file.write(report);
    }
    let late = |_| Err(file.error(io::ErrorKind::TimedOut.into()));
    written.recv_timeout(GRACE).unwrap_or_else(late)
}
