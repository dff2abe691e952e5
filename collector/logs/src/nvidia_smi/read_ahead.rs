//! Decodes logs beside their metering: the next batch of a log on another thread, while the batch
//! before it is metered.
//!
//! A log has at most two batches, and what they contain is in the order of the log, so threads
//! change no result.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::{io, thread};

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;

use super::super::SourceError;
use super::entry::Entry;
use super::log::{Log, LogFormat};
use crate::log::RejectedRows;

/// Readings in one batch of each log, together: 0.7 MiB.
const READINGS: usize = 4_096;

/// The smallest batch that is worth its hand-over: waking a thread takes as long as decoding hundreds of
/// rows.
const MIN_BATCH: usize = 64;

/// The threads that decode all logs.
pub(super) struct Decoders {
    /// `None` without another thread: a batch is then decoded when it is needed.
    jobs: Option<Sender<Job>>,
    /// Readings per batch.
    batch: usize,
}

/// A batch to decode.
struct Job {
    log: OpenLog,
    batch: Batch,
    readings: usize,
}

/// A log that has not ended. It travels with its jobs, so that none decodes it twice at once.
struct OpenLog {
    log: Box<Log>,
    rejected: RejectedRows,
    format: LogFormat,
    decoded: Sender<DecodedBatch>,
}

/// A batch, and its log unless that has ended.
struct DecodedBatch {
    batch: Batch,
    log: Option<OpenLog>,
}

/// Consecutive readings of a log, and what was found between them.
#[derive(Default)]
struct Batch {
    /// The first `len` are those of the batch. The others are reused.
    entries: Vec<Entry>,
    len: usize,
    /// Each with the number of entries before it.
    events: VecDeque<(usize, Event)>,
}

/// An event of a log beside readings. A change precedes the first reading it applies to.
enum Event {
    Rejected(RejectedRows),
    Format(LogFormat),
    Gpus(Vec<GpuIdentity>),
    Failed(SourceError),
}

/// A log that is read ahead, with a current reading.
pub(super) struct ReadAhead {
    name: Arc<str>,
    format: LogFormat,
    gpus: Vec<GpuIdentity>,
    changed: bool,
    decoders: Arc<Decoders>,
    /// The log, until its first batch is needed.
    unread: Option<OpenLog>,
    ended: bool,
    decoded: Receiver<DecodedBatch>,
    batch: Batch,
    /// The current entry of the batch.
    current: usize,
    /// The number of entries before the next event.
    until: usize,
}

impl Decoders {
    /// Starts a thread per core beside this one, at most one per log.
    pub(super) fn start(logs: usize) -> Arc<Self> {
        let others = thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
        let batch = (READINGS / logs.max(1)).max(MIN_BATCH);
        Self::with(others.min(logs), batch)
    }

    fn with(threads: usize, batch: usize) -> Arc<Self> {
        let (jobs, queue) = mpsc::channel();
        let queue = Arc::new(Mutex::new(queue));
        let started = (0..threads).map_while(|_| spawn(&queue).ok()).count();
        Arc::new(Self { jobs: (started > 0).then_some(jobs), batch })
    }

    /// Decodes the next batch of a log into a used one.
    fn decode(&self, log: OpenLog, batch: Batch) {
        let job = Job { log, batch, readings: self.batch };
        match &self.jobs {
            Some(jobs) => _ = jobs.send(job),
            None => job.run(),
        }
    }
}

/// Starts a thread that runs jobs until all logs are closed.
fn spawn(queue: &Arc<Mutex<Receiver<Job>>>) -> io::Result<thread::JoinHandle<()>> {
    let queue = Arc::clone(queue);
    let jobs = std::iter::from_fn(move || queue.lock().ok()?.recv().ok());
    thread::Builder::new().name("decoder".to_owned()).spawn(move || jobs.for_each(Job::run))
}

impl Job {
    fn run(self) {
        let Self { mut log, mut batch, readings } = self;
        let decoded = log.decoded.clone();
        let ended = batch.fill(&mut log, readings);
        // Fails if the logs were closed.
        _ = decoded.send(DecodedBatch { batch, log: (!ended).then_some(log) });
    }
}

impl Batch {
    /// Decodes the next readings of a log; true at its end. Ends after a change of GPUs, so that
    /// there is one list of them at most.
    fn fill(&mut self, open: &mut OpenLog, readings: usize) -> bool {
        self.entries.resize(readings, Entry::EMPTY);
        self.len = 0;
        loop {
            while let Some(entry) = self.entries.get_mut(self.len)
                && open.log.next_usual(entry)
            {
                self.len += 1;
            }
            if self.len == readings {
                return false;
            }
            let (kept, total) = (open.rejected.first.len(), open.rejected.total);
            let advanced = open.log.advance(&mut open.rejected);
            if open.rejected.total > total {
                self.record(Event::Rejected(open.rejected.since(kept, total)));
            }
            let format = open.log.format();
            if format != open.format {
                open.format = format;
                self.record(Event::Format(format));
            }
            let changed = open.log.take_changed();
            if changed {
                self.record(Event::Gpus(open.log.gpus().cloned().collect()));
            }
            match advanced {
                Ok(true) => self.push(*open.log.entry()),
                Ok(false) => return true,
                Err(error) => {
                    self.record(Event::Failed(error));
                    return true;
                }
            }
            if changed {
                return false;
            }
        }
    }

    fn push(&mut self, entry: Entry) {
        if let Some(next) = self.entries.get_mut(self.len) {
            *next = entry;
            self.len += 1;
        }
    }

    #[cold]
    fn record(&mut self, event: Event) {
        self.events.push_back((self.len, event));
    }
}

impl ReadAhead {
    /// Reads a log whose first reading is current.
    pub(super) fn new(mut log: Log, decoders: &Arc<Decoders>) -> Self {
        let (sender, decoded) = mpsc::channel();
        let (name, format) = (Arc::clone(log.name()), log.format());
        let (changed, gpus) = (log.take_changed(), log.gpus().cloned().collect());
        let batch = Batch { entries: vec![*log.entry()], len: 1, events: VecDeque::new() };
        let log = Box::new(log);
        let open = OpenLog { log, rejected: RejectedRows::default(), format, decoded: sender };
        Self {
            name,
            format,
            gpus,
            changed,
            decoders: Arc::clone(decoders),
            unread: Some(open),
            ended: false,
            decoded,
            batch,
            current: 0,
            until: 1,
        }
    }

    /// The log as given by the user.
    pub(super) const fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How its rows are read, up to the current one.
    pub(super) const fn format(&self) -> LogFormat {
        self.format
    }

    /// Its GPUs up to the current reading, without names.
    pub(super) fn gpus(&self) -> &[GpuIdentity] {
        &self.gpus
    }

    /// Whether they have changed since the last call.
    #[inline]
    pub(super) const fn take_changed(&mut self) -> bool {
        mem::replace(&mut self.changed, false)
    }

    /// The current reading.
    #[inline]
    pub(super) fn entry(&self) -> &Entry {
        self.batch.entries.get(self.current).unwrap_or(&Entry::EMPTY)
    }

    /// Advances to the next reading, if that is before `bound`, and neither a change nor the end of a
    /// batch precedes it.
    #[inline]
    pub(super) fn advance_before(&mut self, bound: Timestamp) -> bool {
        let next = self.current + 1;
        let entry = self.batch.entries.get(next);
        let is_next = next < self.until && entry.is_some_and(|entry| entry.reading.at < bound);
        self.current += usize::from(is_next);
        is_next
    }

    /// Advances to the next reading; false at the end.
    #[inline]
    pub(super) fn advance(&mut self, rejected: &mut RejectedRows) -> Result<bool, SourceError> {
        if self.current + 1 < self.until {
            self.current += 1;
            return Ok(true);
        }
        self.advance_beyond(self.current + 1, rejected)
    }

    /// Advances to the entry `next`, beyond the events before it and the end of the batch.
    #[cold]
    fn advance_beyond(
        &mut self,
        mut next: usize,
        rejected: &mut RejectedRows,
    ) -> Result<bool, SourceError> {
        loop {
            while let Some((_, event)) = self.batch.events.pop_front_if(|(at, _)| *at == next) {
                match event {
                    Event::Rejected(rows) => rejected.merge(rows),
                    Event::Format(format) => self.format = format,
                    Event::Gpus(gpus) => (self.gpus, self.changed) = (gpus, true),
                    Event::Failed(error) => return Err(error),
                }
            }
            let entries = self.batch.len;
            if next < entries {
                self.current = next;
                self.until = self.batch.events.front().map_or(entries, |(at, _)| *at);
                return Ok(true);
            }
            if !self.next_batch()? {
                return Ok(false);
            }
            next = 0;
        }
    }

    /// Replaces the batch by the next one, while the one after it is decoded; false at the end.
    fn next_batch(&mut self) -> Result<bool, SourceError> {
        if let Some(log) = self.unread.take() {
            self.decoders.decode(log, Batch::default());
        }
        if self.ended {
            self.batch = Batch::default();
            return Ok(false);
        }
        let Ok(DecodedBatch { batch, log }) = self.decoded.recv() else {
            let (input, source) = (self.name.to_string(), io::Error::other("decoder stopped"));
            return Err(SourceError::Unreadable { input, source });
        };
        let used = mem::replace(&mut self.batch, batch);
        match log {
            Some(log) => self.decoders.decode(log, used),
            None => self.ended = true,
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use proptest::prelude::*;

    use super::super::LogOptions;
    use super::*;

    /// A log of eight GPUs, most rows in order, with other lines in between. More rows than are read
    /// when it is opened.
    fn text() -> impl Strategy<Value = String> {
        let row = |gpu: usize, millis: u32| {
            let (minute, second) = (millis / 60_000, millis / 1_000 % 60);
            let at = format!("2026/07/27 00:{minute:02}:{second:02}.{:03}", millis % 1_000);
            format!("{at}, GPU-{gpu}, {}, H100, {}.50 W", gpu / 2, 100 + millis % 7)
        };
        let header = |value| format!("timestamp, uuid, index, name, {value}");
        let line = prop_oneof![
            40 => Just(None),
            2 => (0..9_usize, 0..2_500_u32).prop_map(move |(gpu, millis)| Some(row(gpu, millis))),
            1 => Just(Some(header("memory.used [MiB]"))),
            2 => Just(Some(header("power.draw [W]"))),
            2 => "[0-9, ]{0,12}".prop_map(Some),
        ];
        let end = prop_oneof![Just(""), Just("timestamp, power.draw [W]"), Just("an end")];
        (proptest::collection::vec(line, 1_500..2_000), end).prop_map(move |(lines, end)| {
            let in_order = (0..).map(|tick| row(tick as usize % 8, tick / 8 * 100));
            let lines = lines.into_iter().zip(in_order).map(|(line, row)| line.unwrap_or(row));
            let all = [header("power.draw [W]"), row(0, 0)].into_iter().chain(lines);
            all.chain([end.to_owned()]).collect::<Vec<_>>().join("\n")
        })
    }

    fn open(text: &str, rejected: &mut RejectedRows) -> Log {
        let bytes: Box<dyn Read + Send> = Box::new(Cursor::new(text.as_bytes().to_vec()));
        Log::open("a.csv".into(), bytes, &LogOptions::default(), rejected).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Whatever the threads and batches, a log read ahead is the log.
        #[test]
        fn log_read_ahead_is_the_log(text in text(), threads in 0_usize..3, batch in 1_usize..40) {
            let mut rejected = RejectedRows::default();
            let mut expected_rejected = RejectedRows::default();
            let mut expected = open(&text, &mut expected_rejected);
            let log = open(&text, &mut rejected);
            let mut log = ReadAhead::new(log, &Decoders::with(threads, batch));
            loop {
                prop_assert_eq!(log.entry().reading, expected.entry().reading);
                prop_assert_eq!(log.entry().line, expected.entry().line);
                prop_assert_eq!(log.entry().gpu, expected.entry().gpu);
                prop_assert_eq!(log.take_changed(), expected.take_changed());
                prop_assert!(log.gpus().iter().eq(expected.gpus()));
                prop_assert_eq!(log.format(), expected.format());
                prop_assert_eq!(&rejected, &expected_rejected);
                let more = log.advance(&mut rejected).map_err(|error| error.to_string());
                let expected = expected.advance(&mut expected_rejected);
                prop_assert_eq!(&more, &expected.map_err(|error| error.to_string()));
                if more != Ok(true) {
                    break;
                }
            }
            prop_assert_eq!(rejected, expected_rejected);
        }
    }
}
