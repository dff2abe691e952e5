//! The journal of a run in the data directory: a run that was killed is made again from it, and goes on.
//!
//! A journal is never a reason to end: what cannot be kept is logged, and the run continues without.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::print_stderr))]

mod boot_clock;
mod differences;
mod entry;
mod gate;
mod stream;
mod writer;

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use phasemeter_engine::pipeline::{Change, Pipeline, PipelineError};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_outbox::{
    ATTEMPTS, DataDirectory, Disk, JOURNAL, Journal, JournalError, Payloads, RunDirectory,
};
use phasemeter_sources::clock::Clock;
use tracing::warn;

pub use self::boot_clock::BootClock;
use self::boot_clock::MAX_GAP;
pub use self::entry::{Begin, changes};
use self::entry::{Entry, Step};
pub use self::gate::Gate;
use self::stream::{Decoder, Stream, begins};
pub use self::writer::{Writer, Writing};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// So many attempts to go on from a journal are made that end early. One may need more memory than there is, and the process
/// that is started again would be killed by it each time.
const MAX_ATTEMPTS: usize = 3;

/// Steps for which what is exported waits until a journal that was given up is removed: of a minute.
const MAX_REMOVAL: u32 = 128;

/// How long the end waits for the disk.
const PATIENCE: Duration = Duration::from_secs(2);
/// And how often it asks.
const PAUSE: Duration = Duration::from_millis(10);

/// What a run that was killed has left.
#[derive(Debug)]
pub struct Left {
    directory: RunDirectory,
    stream: Stream,
    payloads: Payloads,
    /// How it began.
    pub begin: Begin,
    clock: BootClock,
    /// The time of the last step.
    pub until: Timestamp,
    /// How many requests have left.
    pub left: u64,
}

/// Why a run is not continued.
#[derive(Debug, thiserror::Error)]
pub enum NotContinued {
    /// Its journal is damaged.
    #[error(transparent)]
    Damaged(#[from] JournalError),
    /// The disk refuses.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The machine was started again, and its wall clock is behind.
    #[error("the machine was started again, and the wall clock is before the end of the run")]
    Behind,
    /// It ended too long ago.
    #[error("it ended more than an hour ago")]
    TooLate,
    /// Another version of the program has written it, or it is damaged.
    #[error("written by another version, or damaged")]
    Unreadable,
    /// Whatever has tried it was killed.
    #[error("{MAX_ATTEMPTS} attempts have ended early: it may need more memory than there is")]
    Repeated,
    /// It is damaged: steps before the last one are missing.
    #[error("damaged: steps are missing")]
    Cut,
    /// Made again, it costs something else.
    #[error("made again, it costs something else: prices or options have changed")]
    OtherCost,
    /// Made again, it exports more or fewer requests.
    #[error("made again, it exports something else: alerts or options have changed")]
    OtherRequests,
    /// The pipeline refuses what changed it.
    #[error("cannot be made again: {0}")]
    Pipeline(#[from] PipelineError),
}

impl Left {
    /// Finds what the newest run with this label has left, if it was killed and can be continued. What is never continued is
    /// removed: of older runs with this label, too, whose time a newer one may have. `now`: the clock of a run that begins now.
    ///
    /// # Errors
    /// Returns an error if the directory cannot be read, or something cannot be removed from it.
    pub fn find(data: &DataDirectory, label: &str, now: BootClock) -> io::Result<Option<Self>> {
        let mut newest: Option<RunDirectory> = None;
        for directory in data.journals().ended()? {
            let other = match directory.label() == label {
                true => newest.replace(directory),
                false => Some(directory).filter(|other| is_over(other.path())),
            };
            other.map_or(Ok(()), |other| other.remove())?;
        }
        let Some(newest) = newest else { return Ok(None) };
        let path = newest.path().display().to_string();
        let left = Self::read(newest, now);
        Ok(left.unwrap_or_else(|error| {
            warn!("{path}: the run is not continued: {error}");
            None
        }))
    }

    /// `None` if it ended in order, or before anything was metered.
    fn read(directory: RunDirectory, now: BootClock) -> Result<Option<Self>, NotContinued> {
        attempt(&mut *directory.disk())?;
        let (journal, payloads) = match Journal::open(directory.disk()) {
            Err(JournalError::Disk(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            opened => opened?,
        };
        let Some(first) = payloads.iter().next() else { return Ok(None) };
        let begin = match Decoder::default().decode(first).and_then(Entry::decode) {
            Some(Entry::Begin(begin)) if begin.version == VERSION => begin,
            _ => return Err(NotContinued::Unreadable),
        };
        let last = match last(&payloads) {
            Some(Entry::Step(last)) => last,
            Some(Entry::Begin(_) | Entry::End) => return Ok(None),
            None => return Err(NotContinued::Unreadable),
        };
        // A process that was killed leaves all that it has written; a loss of power, all that was synced.
        if journal.has_gap() && last.clock.is_same_boot(&now) {
            return Err(NotContinued::Cut);
        }
        let (until, left) = (last.at, last.left);
        let clock = last.clock.clone().continued(until, last.wall, now)?;
        // A run goes on only if its journal can: one that was given up since its disk had failed, and could not be removed,
        // lacks what has left since.
        let mut stream = Stream::begin(journal);
        stream.append(&Entry::Step(last.going_on(clock.clone())).encode()?)?;
        Ok(Some(Self { directory, stream, payloads, begin, clock, until, left }))
    }

    /// Its clock, which goes on.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock.clock()
    }

    /// Makes the run again, and goes on with its journal, which `start` writes. Returns its GPUs, too.
    ///
    /// # Errors
    /// Returns an error if the run cannot be made again as it was. The pipeline is of no use then.
    pub fn make_again(
        self,
        pipeline: &mut Pipeline<'_>,
        gate: Gate,
        start: impl FnOnce(Writing) -> io::Result<()>,
    ) -> Result<(RunJournal, Vec<GpuIdentity>), NotContinued> {
        let mut gpus = Vec::new();
        let mut decoder = Decoder::default();
        for payload in self.payloads.iter() {
            let step = match decoder.decode(payload).and_then(Entry::decode) {
                Some(Entry::Step(step)) => step,
                Some(Entry::Begin(_)) => continue,
                Some(Entry::End) | None => return Err(NotContinued::Unreadable),
            };
            let (cost, made) = (step.cost, step.made);
            for change in step.changes().ok_or(NotContinued::Unreadable)? {
                let skipped = if let Change::Left(requests) = change { requests } else { 0 };
                pipeline.apply(change, &mut gpus)?;
                gate.skip(skipped);
            }
            if pipeline.bill().0 != cost {
                return Err(NotContinued::OtherCost);
            }
            if gate.made() != made {
                return Err(NotContinued::OtherRequests);
            }
        }
        // If it stays, fewer attempts are made another time.
        let _ = self.directory.disk().remove(ATTEMPTS);
        // Those that were read, and the one that was appended since.
        let next = u64::try_from(self.payloads.len()).unwrap_or(u64::MAX).saturating_add(2);
        let writer = Writer::start(self.directory, self.stream, next, start)?;
        Ok((RunJournal::new(writer, gate, self.clock), gpus))
    }
}

/// Notes an attempt to go on from the journal on this disk.
fn attempt(disk: &mut dyn Disk) -> Result<(), NotContinued> {
    let made = match disk.read(ATTEMPTS) {
        Ok(made) => made.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(ATTEMPTS)?;
            0
        }
        Err(error) => return Err(error.into()),
    };
    if made >= MAX_ATTEMPTS {
        return Err(NotContinued::Repeated);
    }
    disk.write_at(ATTEMPTS, u64::try_from(made).unwrap_or(u64::MAX), b".")?;
    Ok(())
}

/// The last entry; `None` if it is damaged. Its stream alone is decompressed: all would be hundreds of megabytes.
fn last(payloads: &Payloads) -> Option<Entry> {
    let stream = payloads.iter().rposition(begins)?;
    let (mut decoder, mut last) = (Decoder::default(), None);
    for payload in payloads.iter().skip(stream) {
        last = Some(decoder.decode(payload)?.to_vec());
    }
    Entry::decode(&last?)
}

/// Whether the run of this directory is never continued: it has no journal any more, or an old one.
fn is_over(path: &Path) -> bool {
    let age = |at: SystemTime| SystemTime::now().duration_since(at).unwrap_or_default();
    match fs::metadata(path.join(JOURNAL)).and_then(|journal| journal.modified()) {
        Ok(at) => age(at) > Duration::from_nanos(MAX_GAP.0),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The journal of a run in progress.
pub struct RunJournal {
    writer: Writer,
    gate: Gate,
    clock: BootClock,
    /// The number of the next entry.
    next: u64,
    /// Steps since the journal was given up.
    since_given_up: u32,
}

impl RunJournal {
    /// Creates a journal, which `start` writes. Those that ended runs with this label have left are removed: this run has the time from now on.
    ///
    /// # Errors
    /// Returns an error if the disk refuses.
    pub fn create(
        data: &DataDirectory,
        label: &str,
        begin: Begin,
        start: impl FnOnce(Writing) -> io::Result<()>,
    ) -> io::Result<Writer> {
        let same = |ended: &RunDirectory| ended.label() == label;
        data.journals().ended()?.filter(same).try_for_each(|ended| ended.remove())?;
        let directory = data.journals().begin(label, data.now())?;
        let mut stream = Stream::begin(Journal::create(directory.disk())?);
        stream.append(&Entry::Begin(begin).encode()?)?;
        Writer::start(directory, stream, 2, start)
    }

    /// Continues the journal of a run with this clock.
    pub fn new(writer: Writer, gate: Gate, clock: BootClock) -> Self {
        let next = writer.written() + 1;
        gate.set_entry(next);
        Self { writer, gate, clock, next, since_given_up: 0 }
    }

    /// Keeps what has changed the pipeline since the last call. `None` once the run can no longer be continued, which is
    /// logged: then everything leaves.
    ///
    /// # Errors
    /// Returns an error if requests cannot leave.
    pub fn step(mut self, pipeline: &mut Pipeline<'_>, at: Timestamp) -> io::Result<Option<Self>> {
        // Those that leave now may not be in the outbox yet: if this process is killed, they leave again, unchanged.
        let left = self.gate.left();
        self.gate.release(self.writer.durable())?;
        match pipeline.take_changes() {
            Ok(changes) if changes.is_empty() => {}
            Ok(changes) => {
                // What leaves is made from what is durable.
                let is_synced = self.gate.waits_beyond(self.next - 1);
                let requests = (left, self.gate.made());
                let step = Step::new(changes, at, self.clock.clone(), pipeline, requests);
                self.next += 1;
                self.writer.write(Entry::Step(step).encode()?, is_synced);
            }
            Err(other) => self.writer.give_up(other),
        }
        self.since_given_up += u32::from(self.writer.is_given_up());
        // Before it is removed, the run could be continued without what leaves. A disk that hangs is not waited for.
        if self.writer.is_over() || self.since_given_up > MAX_REMOVAL {
            pipeline.discard_changes();
            self.gate.open()?;
            return Ok(None);
        }
        self.gate.set_entry(self.next);
        Ok(Some(self))
    }

    /// Whether nothing waits for the disk: all that was kept is there when this process has been killed, and what is to leave is
    /// made from what is there after a loss of power, too.
    #[must_use]
    pub fn is_written(&self) -> bool {
        let is_written = self.writer.written() >= self.next - 1;
        is_written && !self.gate.waits_beyond(self.writer.durable())
    }

    /// The run ends in order: from now on it is not continued, also not after a loss of power, and everything leaves. `wait`
    /// waits for the disk for so long.
    ///
    /// # Errors
    /// Returns an error if requests cannot leave.
    pub fn end(mut self, mut wait: impl FnMut(Duration)) -> io::Result<()> {
        self.writer.write(Entry::End.encode()?, true);
        let mut waited = Duration::ZERO;
        while self.writer.durable() < self.next && !self.writer.is_over() && waited < PATIENCE {
            wait(PAUSE);
            waited += PAUSE;
        }
        self.gate.open()
    }
}
