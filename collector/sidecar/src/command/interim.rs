//! The reports of a run that goes on: of all until now, or one for each period.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phasemeter_engine::health::Health;
use phasemeter_engine::pipeline::{Finished, Pipeline};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::wall_time::WallOffset;
use phasemeter_report::{Input, Provenance};
use phasemeter_savings::trial::Settled;
use tracing::warn;

use super::agent_accounts::{AgentAccounts, AgentBill};
use super::error::CommandError;
use super::files::ReplacedFile;
use super::kept_reports;
use super::local_zone::LocalZone;
use super::report_outputs::encode;
use phasemeter_cli::{LiveArgs, MeteringArgs};

/// How long the end waits for a disk, for the reader of standard error, and for a backend at least.
pub(super) const GRACE: Duration = Duration::from_secs(5);

/// How long after a failure the final report of a period is written again. No other period ends before it is written.
const AGAIN: Duration = Duration::from_secs(10);

/// Writes reports while a run goes on.
#[derive(Debug)]
pub(super) struct Interim {
    file: ReplacedFile,
    /// How often the report of the run or period so far is written.
    every: Option<Every>,
    due: Instant,
    periods: Option<Periods>,
    writing: Option<Writing>,
}

/// How often a report is written.
#[derive(Clone, Copy, Debug)]
enum Every {
    /// Whenever this much time has passed.
    Time(Duration),
    /// The older the run, the more rarely, as [`kept_reports`] says. The run began then.
    Age(Instant),
}

impl Every {
    /// The time until the next report, after one of so many bytes.
    fn after(self, bytes: usize) -> Duration {
        match self {
            Self::Time(every) => every,
            Self::Age(began) => kept_reports::interval(began.elapsed(), bytes),
        }
    }
}

/// A report that is being written, on a thread, since a disk may hang.
#[derive(Debug)]
struct Writing {
    whole: Arc<(ReplacedFile, Vec<u8>)>,
    /// Whether no later report has the same time.
    is_last: bool,
    /// Returns whether it was written.
    thread: Option<JoinHandle<bool>>,
    /// When it is tried again.
    due: Instant,
}

/// The periods of a run. Each has a file of its own.
#[derive(Clone, Debug)]
pub(super) struct Periods {
    /// Whole multiples of it in UTC end a period.
    length: Nanos,
    lateness: Lateness,
    /// The period in progress.
    start: Timestamp,
    end: Timestamp,
    /// The wall time at its start, which is in the name of its file.
    named: Timestamp,
    /// By which files are labeled: it never falls, so that no second has the label of another one.
    wall: WallOffset,
}

/// How late what belongs to a period may be known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lateness {
    /// Work.
    pub(super) work: Nanos,
    /// Readings. What is known later is of the next period.
    pub(super) readings: Nanos,
}

/// A run that goes on.
pub(super) struct OpenRun<'a> {
    pub(super) pipeline: &'a mut Pipeline<'static>,
    pub(super) gpus: &'a [GpuIdentity],
    pub(super) now: Timestamp,
    /// Whether its GPUs are billed until now; else until they were last seen.
    pub(super) is_live: bool,
    pub(super) zone: &'a LocalZone,
    /// The trials that were settled.
    pub(super) settled: &'a [Settled],
    /// What this pod pays, if the agent of its node states it.
    pub(super) accounts: Option<&'a mut AgentAccounts>,
}

impl Interim {
    /// Writes this file as the options say; `None` if they ask for no report of a run that goes on.
    pub(super) fn of(args: &LiveArgs, file: &ReplacedFile, lateness: Lateness) -> Option<Self> {
        let (every, length) = (args.report_every, args.report_period);
        let every = every.map(|every| Every::Time(Duration::from_nanos(every.0)));
        let periods = length.map(|length| Periods {
            length,
            lateness,
            start: Timestamp::EPOCH,
            end: Timestamp::EPOCH,
            named: Timestamp::EPOCH,
            wall: WallOffset::default(),
        });
        (every.is_some() || periods.is_some()).then(|| Self {
            file: file.clone(),
            every,
            due: Instant::now() + every.map_or(Duration::ZERO, |every| every.after(0)),
            periods,
            writing: None,
        })
    }

    /// Writes this file of the data directory.
    pub(super) fn kept(file: ReplacedFile) -> Self {
        let every = Every::Age(Instant::now());
        let due = Instant::now() + every.after(0);
        Self { file, every: Some(every), due, periods: None, writing: None }
    }

    /// Begins the first period, before anything is metered.
    pub(super) fn begin(&mut self, pipeline: &mut Pipeline<'_>, now: Timestamp) {
        if let Some(periods) = &mut self.periods {
            periods.wall = pipeline.wall();
            (periods.start, periods.named) = (now, periods.wall.wall(now));
            periods.plan(pipeline, now);
        }
    }

    /// Writes what is due, unless the last report is still being written.
    pub(super) fn step(&mut self, args: &MeteringArgs, title: &str, run: &mut OpenRun<'_>) {
        let OpenRun { ref mut pipeline, gpus, now, zone, settled, ref mut accounts, .. } = *run;
        let wall = pipeline.wall();
        if let Some(periods) = &mut self.periods {
            periods.wall = periods.wall.max(wall);
            accounts.iter_mut().for_each(|accounts| accounts.end_part_at(Some(periods.end)));
            if now >= periods.end + periods.lateness.work {
                pipeline.end_work_of_part();
            }
        }
        if self.is_writing() {
            return;
        }
        let is_over = |it: &&mut Periods| it.is_over(pipeline, accounts.as_deref(), now);
        if let Some(periods) = self.periods.as_mut().filter(is_over) {
            let before = periods.clone();
            pipeline.take_part(|run| {
                if run.gpus.iter().any(|gpu| gpu.part.is_some()) {
                    let accounts = accounts.as_mut();
                    let bill = accounts.map(|it| it.take_part(run, gpus, before.end));
                    let provenance = provenance(title, zone, settled);
                    let report = before.report(args, gpus, run, provenance, bill.as_ref());
                    self.writing = Writing::start(before.file(&self.file), report, true);
                }
            });
            periods.advance();
            periods.plan(pipeline, now);
            accounts.iter_mut().for_each(|accounts| accounts.end_part_at(Some(periods.end)));
        } else if let Some(every) = self.every.filter(|_| self.due <= Instant::now()) {
            let report = so_far(self.periods.as_ref(), args, title, run);
            let bytes = report.as_ref().and_then(|it| it.as_ref().ok()).map_or(0, Vec::len);
            self.due = Instant::now() + every.after(bytes);
            let file = self.periods.as_ref().map(|periods| periods.file(&self.file));
            let file = file.unwrap_or_else(|| self.file.clone());
            self.writing = report.and_then(|report| Writing::start(file, report, false));
        }
    }

    /// Writes the report of a run that has ended, while the backend is waited for: that may be cut. Periods have reports of
    /// their own.
    pub(super) fn conclude(&mut self, report: impl FnOnce() -> Result<Vec<u8>, CommandError>) {
        if self.periods.is_none() && !self.is_writing() {
            self.writing = Writing::start(self.file.clone(), report(), false);
        }
    }

    /// Whether a report is being written, or is to be written again.
    fn is_writing(&mut self) -> bool {
        let Some(writing) = &mut self.writing else { return false };
        if let Some(thread) = writing.thread.take_if(|thread| thread.is_finished()) {
            if thread.join().unwrap_or(false) || !writing.is_last {
                self.writing = None;
                return false;
            }
        } else if writing.thread.is_none() && writing.due <= Instant::now() {
            writing.write();
        }
        true
    }

    /// Waits for the last one, at most as long as for the report at the end, which may have the same file. Returns the
    /// periods, if there are any.
    pub(super) fn finish(mut self) -> Option<Periods> {
        let until = Instant::now() + GRACE;
        self.writing.iter_mut().for_each(|writing| writing.due = Instant::now());
        // One that has failed is tried again once.
        let is_pending = |it: &Writing| it.thread.is_some() || it.due <= Instant::now();
        while self.is_writing()
            && self.writing.as_ref().is_some_and(is_pending)
            && Instant::now() < until
        {
            thread::sleep(Duration::from_millis(10));
        }
        if self.writing.as_ref().is_some_and(|it| it.is_last) {
            warn!("the report of a period was not written; its cost is in no file");
        }
        self.periods
    }
}

impl Writing {
    /// Starts to write a report.
    fn start(
        file: ReplacedFile,
        report: Result<Vec<u8>, CommandError>,
        is_last: bool,
    ) -> Option<Self> {
        let report = report.inspect_err(|error| warn!("report so far: {}", error.in_one_line()));
        let whole = Arc::new((file, report.ok()?));
        let mut writing = Self { whole, is_last, thread: None, due: Instant::now() };
        writing.write();
        (writing.thread.is_some() || is_last).then_some(writing)
    }

    fn write(&mut self) {
        self.due = Instant::now() + AGAIN;
        let whole = Arc::clone(&self.whole);
        let write = move || {
            let (file, report) = &*whole;
            let written = file.write(report);
            written.inspect_err(|error| warn!("report so far: {}", error.in_one_line())).is_ok()
        };
        let started = thread::Builder::new().name("report".to_owned()).spawn(write);
        let failed = |error: &io::Error| warn!("report so far: no thread can be started: {error}");
        self.thread = started.inspect_err(failed).ok();
    }
}

impl Periods {
    /// The file of the period in progress, with its start in the name.
    pub(super) fn file(&self, of_run: &ReplacedFile) -> ReplacedFile {
        of_run.dated(self.named)
    }

    /// The report of the parts of GPUs, as JSON, with what an agent bills in their place.
    pub(super) fn report(
        &self,
        args: &MeteringArgs,
        gpus: &[GpuIdentity],
        run: &Finished,
        mut provenance: Provenance,
        bill: Option<&AgentBill>,
    ) -> Result<Vec<u8>, CommandError> {
        let of_period = "a period of the run; the other periods have reports of their own";
        provenance.sampling.push(of_period.to_owned());
        let mut input = Input::of(run, gpus, args.meter.thresholds, provenance);
        bill.into_iter().for_each(|bill| bill.apply(&mut input));
        encode(&Input { wall: self.wall, ..input })
    }

    /// The end of the period in progress, of a run until `end`.
    pub(super) fn end_within(&self, end: Timestamp) -> Timestamp {
        if self.start < self.end { self.end.min(end) } else { end }
    }

    /// The next period is in progress.
    pub(super) fn advance(&mut self) {
        self.start = self.end;
        self.named = self.wall.wall(self.start);
    }

    /// Whether the period in progress is over, and no more of it is to come.
    fn is_over(
        &self,
        pipeline: &Pipeline<'_>,
        accounts: Option<&AgentAccounts>,
        now: Timestamp,
    ) -> bool {
        let are_known = accounts.is_none_or(|accounts| accounts.have_part_until(self.end));
        let is_past = self.end <= now && pipeline.has_ended_part() && are_known;
        is_past || self.end + self.lateness.readings <= now
    }

    /// Ends the period in progress at the first multiple of the length that is neither metered nor too long ago.
    fn plan(&mut self, pipeline: &mut Pipeline<'_>, now: Timestamp) {
        let metered = pipeline.charged_until().unwrap_or_default();
        let recent = now.saturating_sub(self.lateness.readings);
        let reached = metered.max(recent).max(self.start);
        self.end = pipeline.wall().floor(reached, self.length) + self.length;
        pipeline.end_part_at(self.end);
    }
}

/// Makes the report so far if a client of `/status` waits for it: of the period in progress, if there are periods.
pub(super) fn answer_status(
    health: &Health,
    interim: Option<&Interim>,
    args: &MeteringArgs,
    title: &str,
    run: &mut OpenRun<'_>,
) {
    health.status().answer(|| {
        let periods = interim.and_then(|interim| interim.periods.as_ref());
        let report = so_far(periods, args, title, run)?;
        report.inspect_err(|error| warn!("report so far: {}", error.in_one_line())).ok()
    });
}

/// The report so far, as JSON: of the period in progress, if there are periods. `None` if nothing has begun.
fn so_far(
    periods: Option<&Periods>,
    args: &MeteringArgs,
    title: &str,
    run: &mut OpenRun<'_>,
) -> Option<Result<Vec<u8>, CommandError>> {
    let OpenRun { ref mut pipeline, gpus, now, is_live, zone, settled, ref accounts } = *run;
    let accounts = accounts.as_deref();
    let provenance = provenance(title, zone, settled);
    pipeline.so_far(is_live.then_some(now), gpus, |run| match periods {
        Some(periods) => {
            let bill = accounts.map(|accounts| accounts.bill_so_far(run, gpus, now));
            periods.report(args, gpus, run, provenance, bill.as_ref())
        }
        None => {
            let bill = accounts.map(|accounts| accounts.bill(run, gpus, now));
            let mut input = Input::of(run, gpus, args.meter.thresholds, provenance);
            bill.iter().for_each(|bill| bill.apply(&mut input));
            encode(&input)
        }
    })
}

/// What such a report states beside the bill.
fn provenance(title: &str, zone: &LocalZone, settled: &[Settled]) -> Provenance {
    Provenance {
        settled: settled.to_vec(),
        title: title.to_owned(),
        assumptions: vec![zone.describe()],
        sampling: vec!["written during the run, which went on".to_owned()],
        ..Provenance::default()
    }
}
