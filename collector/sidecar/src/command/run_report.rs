//! The report of a live run: first the file, then the text on standard error. The end waits for neither
//! without a limit.

use std::io::{self, IsTerminal};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phasemeter_engine::pipeline::Finished;
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_report::Provenance;
use phasemeter_report::{Input, Report, json};
use tracing::warn;

use super::error::CommandError;
use super::files::ReplacedFile;
use super::metering;
use crate::cli::MeteringArgs;
use crate::standard_error;

/// How long the end waits for a disk, for the reader of standard error, and for a backend at least.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long a reader takes at most that is not stuck.
const MOMENT: Duration = Duration::from_millis(500);

/// Writes the report to the file if requested, and queues it for standard error.
pub(super) fn write(
    args: &MeteringArgs,
    gpus: &[GpuIdentity],
    run: &Finished,
    provenance: Provenance,
    file: Option<ReplacedFile>,
) -> Result<(), CommandError> {
    let mut input = Input::of(run, gpus, args.meter.thresholds, provenance);
    match standard_error::dropped() {
        0 => {}
        lines => input
            .provenance
            .sampling
            .push(format!("{lines} log lines were dropped: standard error was not read in time")),
    }
    let written = file.map_or(Ok(()), |file| {
        let mut report = Vec::new();
        json::write(&Report::build(&input), &mut report).map_err(CommandError::Output)?;
        write_file(file, report)
    });
    // Separates the report from the output of the command.
    let mut text = b"\n".to_vec();
    let terminal = standard_error::stream().is_terminal();
    let printed = metering::write(&input, &args.report, terminal, &mut text);
    standard_error::write(&text);
    written.and(printed.map_err(CommandError::Output))
}

/// The report of a run that goes on, which is written again and again.
#[derive(Debug)]
pub(super) struct Interim {
    file: ReplacedFile,
    every: Duration,
    due: Instant,
    /// The thread that writes the last one, since a disk may hang.
    writing: Option<JoinHandle<()>>,
}

impl Interim {
    pub(super) fn new(file: ReplacedFile, every: Duration) -> Self {
        Self { file, every, due: Instant::now() + every, writing: None }
    }

    /// Whether the next one is due. Not while the last one is being written.
    pub(super) fn is_due(&self) -> bool {
        let is_writing = self.writing.as_ref().is_some_and(|thread| !thread.is_finished());
        !is_writing && self.due <= Instant::now()
    }

    /// Writes what a run has metered so far.
    pub(super) fn write(
        &mut self,
        args: &MeteringArgs,
        gpus: &[GpuIdentity],
        run: &Finished,
        provenance: Provenance,
    ) {
        self.due = Instant::now() + self.every;
        let input = Input::of(run, gpus, args.meter.thresholds, provenance);
        let (file, mut report) = (self.file.clone(), Vec::new());
        let built = json::write(&Report::build(&input), &mut report);
        let write = move || {
            let written = built.map_err(CommandError::Output).and_then(|()| file.write(&report));
            written.unwrap_or_else(|error| warn!("report so far: {}", error.in_one_line()));
        };
        match thread::Builder::new().name("report".to_owned()).spawn(write) {
            Ok(thread) => self.writing = Some(thread),
            Err(error) => warn!("report so far: no thread can be started: {error}"),
        }
    }

    /// Waits for the last one, at most as long as for the report itself, which has the same file.
    pub(super) fn finish(self) {
        let until = Instant::now() + GRACE;
        while self.writing.as_ref().is_some_and(|thread| !thread.is_finished())
            && Instant::now() < until
        {
            thread::sleep(Duration::from_millis(10));
        }
    }
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
