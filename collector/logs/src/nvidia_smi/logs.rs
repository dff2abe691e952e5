//! Several logs as one source, merged in time order; a log may continue an earlier one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use phasemeter_meter::reading::{GpuIdentity, Reading};
use phasemeter_meter::units::{Nanos, Timestamp};

use super::super::{Counts, Source, SourceError};
use super::LogOptions;
use super::columns::GpuIdentification;
use super::fleet::Fleet;
use super::log::{Log, LogFormat};
use super::read_ahead::{Decoders, ReadAhead};
use super::separation::Separation;
use crate::log::RejectedRows;
use crate::log::stream::CountingReader;
use crate::log::{Input, OpenedInputs};

/// The readings of `nvidia-smi` logs, in time order across all logs.
pub struct Logs {
    logs: Vec<MergedLog>,
    /// The log being read; the others wait in `queue`, ordered by their next reading.
    current: usize,
    queue: BinaryHeap<Reverse<NextReading>>,
    /// Readings of the current log before this instant precede those of all others.
    bound: Timestamp,
    fleet: Fleet,
    rejected: RejectedRows,
    read: Arc<AtomicU64>,
    size: Option<u64>,
}

/// One of the logs.
struct MergedLog {
    log: ReadAhead,
    /// Qualifies ambiguous names of its GPUs.
    label: Arc<str>,
    /// Its chain, assigned at its first reading.
    chain: Option<usize>,
    /// Whether the current reading was returned.
    emitted: bool,
    /// The time of the last reading that was returned.
    last: Timestamp,
    continues: Option<Arc<str>>,
    separation: Option<Separation>,
    /// The fleet index of each of its GPUs.
    gpus: Vec<usize>,
}

/// Order of logs: by the time of their next reading, then logs in progress first, then as given.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NextReading {
    at: Timestamp,
    is_first: bool,
    log: usize,
}

/// Summary of a log for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogSummary<'a> {
    /// The log as given by the user.
    pub file: &'a str,
    /// The number of GPUs with readings.
    pub gpus: usize,
    /// How its rows were read.
    pub format: LogFormat,
    /// The log that this one is assumed to continue: same IDs, no UUIDs, no overlap in time.
    pub continues: Option<&'a str>,
    /// Why it continues no earlier log that has GPUs with the same IDs; `None` if there is none.
    pub separation: Option<Separation>,
}

impl Logs {
    /// Opens logs, in any order, and reads the head of each.
    ///
    /// # Errors
    /// Returns an error if a log is unreadable, unusable or given twice.
    pub fn open(inputs: &[Input], options: &LogOptions) -> Result<Self, SourceError> {
        Self::read(OpenedInputs::open(inputs)?, options)
    }

    /// Reads the head of each open log.
    ///
    /// # Errors
    /// Returns an error if a log is unreadable or unusable.
    pub fn read(inputs: OpenedInputs, options: &LogOptions) -> Result<Self, SourceError> {
        let size = inputs.size();
        let named = inputs.into_each().map(|(input, log)| (input.to_string(), log.bytes));
        Self::merge(named.collect(), size, options)
    }

    /// Merges open logs with a total size of `size` bytes.
    fn merge(
        named: Vec<(String, Box<dyn Read + Send>)>,
        size: Option<u64>,
        options: &LogOptions,
    ) -> Result<Self, SourceError> {
        let labels = labels(&named.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>());
        let (mut rejected, read) = (RejectedRows::default(), Arc::default());
        let (mut logs, mut queue) = (Vec::new(), BinaryHeap::new());
        let decoders = Decoders::start(named.len());
        for ((name, bytes), label) in named.into_iter().zip(labels) {
            let bytes = Box::new(CountingReader::new(bytes, Arc::clone(&read)));
            let log = Log::open(name.into(), bytes, options, &mut rejected)?;
            let log = ReadAhead::new(log, &decoders);
            let (at, index) = (log.entry().reading.at, logs.len());
            queue.push(Reverse(NextReading { at, is_first: true, log: index }));
            let (chain, continues, separation, gpus) = (None, None, None, Vec::new());
            let (emitted, last) = (false, at);
            logs.push(MergedLog { log, label, chain, emitted, last, continues, separation, gpus });
        }
        let current = queue.pop().map_or(0, |Reverse(next)| next.log);
        let (bound, fleet) = (Timestamp::EPOCH, Fleet::new(options.gpu_model.clone()));
        Ok(Self { logs, current, queue, bound, fleet, rejected, read, size })
    }

    /// The rows rejected so far.
    #[must_use]
    pub const fn rejected(&self) -> &RejectedRows {
        &self.rejected
    }

    /// Summaries of all logs in the order given. Complete once all readings are read.
    pub fn summaries(&self) -> impl Iterator<Item = LogSummary<'_>> {
        self.logs.iter().map(|merged| LogSummary {
            file: merged.log.name(),
            gpus: merged.log.gpus().len(),
            format: merged.log.format(),
            continues: merged.continues.as_deref(),
            separation: merged.separation,
        })
    }

    /// The model of each GPU in the logs, if they have one, in the order of [`Source::gpus`].
    pub fn logged_models(&self) -> impl Iterator<Item = Option<&str>> {
        self.fleet.logged_models()
    }

    /// Bytes read so far and in total; the total is `None` if a log is piped.
    #[must_use]
    pub fn progress(&self) -> (u64, Option<u64>) {
        (self.read.load(Ordering::Relaxed), self.size)
    }

    /// Switches to the log with the earliest next reading; false at the end of all logs.
    fn advance(&mut self) -> Result<bool, SourceError> {
        loop {
            let Some(merged) = self.logs.get_mut(self.current) else { return Ok(false) };
            if !merged.emitted || merged.log.advance(&mut self.rejected)? {
                let at = merged.log.entry().reading.at;
                let next = NextReading { at, is_first: merged.chain.is_none(), log: self.current };
                if self.queue.peek().is_none_or(|Reverse(other)| next <= *other) {
                    merged.emitted = true;
                    self.bound = match merged.chain {
                        Some(_) => self.bound(),
                        None => Timestamp::EPOCH,
                    };
                    return Ok(true);
                }
                merged.emitted = false;
                self.queue.push(Reverse(next));
            } else if let Some(chain) = merged.chain {
                self.fleet.end_log(chain, merged.last);
            }
            match self.queue.pop() {
                Some(Reverse(next)) => self.current = next.log,
                None => return Ok(false),
            }
        }
    }

    /// The first instant of which a reading of the current log follows one of another log.
    fn bound(&self) -> Timestamp {
        let Some(Reverse(other)) = self.queue.peek() else { return Timestamp::LAST };
        let next = NextReading { at: other.at, is_first: false, log: self.current };
        if next < *other { other.at + Nanos(1) } else { other.at }
    }

    /// Merges changed identities of the current log's GPUs into the fleet.
    #[cold]
    fn merge_changes(&mut self) {
        let chain = self.chain();
        let Some(merged) = self.logs.get_mut(self.current) else { return };
        for (local, gpu) in merged.log.gpus().iter().enumerate() {
            match merged.gpus.get(local) {
                Some(known) => self.fleet.merge(*known, gpu),
                None => merged.gpus.push(self.fleet.find_or_insert(chain, gpu)),
            }
        }
    }

    /// The chain of the current log, assigned at its first reading: the one that it continues, if that
    /// is unambiguous, else a new one.
    fn chain(&mut self) -> usize {
        let Some(merged) = self.logs.get_mut(self.current) else { return 0 };
        *merged.chain.get_or_insert_with(|| {
            let (log, name) = (&merged.log, merged.log.name());
            let continued = if log.format().gpu_identification == GpuIdentification::Uuid {
                Err(None)
            } else {
                let start = log.entry().reading.at;
                self.fleet.continued_chain(&log.gpus().iter().collect::<Vec<_>>(), start)
            };
            match continued {
                Ok(chain) => {
                    merged.continues = self.fleet.append_log(chain, name);
                    chain
                }
                Err(separation) => {
                    merged.separation = separation;
                    self.fleet.begin_chain(&merged.label, name)
                }
            }
        })
    }
}

impl Source for Logs {
    #[inline]
    fn next(&mut self) -> Result<Option<(usize, Reading)>, SourceError> {
        let current = self.logs.get_mut(self.current);
        if !current.is_some_and(|merged| merged.log.advance_before(self.bound)) {
            if !self.advance()? {
                return Ok(None);
            }
            if self.logs.get_mut(self.current).is_some_and(|merged| merged.log.take_changed()) {
                self.merge_changes();
            }
        }
        let Some(merged) = self.logs.get_mut(self.current) else { return Ok(None) };
        let entry = merged.log.entry();
        merged.last = entry.reading.at;
        let Some(gpu) = merged.gpus.get(entry.gpu) else { return Ok(None) };
        self.fleet.apply_limits(*gpu, entry.limits);
        Ok(Some((*gpu, entry.reading)))
    }

    fn gpus(&self) -> &[GpuIdentity] {
        self.fleet.gpus()
    }

    fn counts(&self) -> Counts {
        self.logs.get(self.current).map_or(Counts::NONE, |merged| merged.log.entry().counts)
    }

    fn reject(&mut self, reason: &str) {
        if let Some(merged) = self.logs.get(self.current) {
            self.rejected.record(merged.log.name(), merged.log.entry().line, reason);
        }
    }
}

/// The label of each log: its file name, or its path if file names are not unique.
fn labels(names: &[&str]) -> Vec<Arc<str>> {
    let same_name = |name| names.iter().filter(|other| file_name(other) == file_name(name)).count();
    let label = |name| if same_name(name) == 1 { file_name(name) } else { name };
    names.iter().map(|name| label(name).into()).collect()
}

fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(OsStr::to_str).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::log::chunked_reader::ChunkedReader;

    const HEADER: &str = "timestamp, uuid, utilization.gpu [%]\n";

    fn open(logs: Vec<Box<dyn Read + Send>>) -> Result<Logs, SourceError> {
        let named = logs.into_iter().enumerate().map(|(i, log)| (format!("{i}.csv"), log));
        Logs::merge(named.collect(), None, &LogOptions::default())
    }

    fn bytes(bytes: impl Into<Vec<u8>>) -> Box<dyn Read + Send> {
        Box::new(Cursor::new(bytes.into()))
    }

    fn readings(logs: &mut Logs) -> Vec<(usize, Reading)> {
        std::iter::from_fn(|| logs.next().unwrap()).collect()
    }

    /// A row of GPU `gpu` at `millis` after midnight.
    fn row(gpu: u32, millis: u32) -> String {
        let (minutes, seconds) = (millis / 60_000, millis / 1_000 % 60);
        format!("2026/07/27 00:{minutes:02}:{seconds:02}.{:03}, GPU-{gpu}, 5\n", millis % 1_000)
    }

    #[test]
    fn rejected_reading_is_recorded_with_its_line() {
        let log = format!("{HEADER}\n{}{}", row(0, 1), row(0, 0));
        let mut logs = open(vec![bytes(log)]).unwrap();
        for _ in 0..2 {
            logs.next().unwrap();
        }
        logs.reject("too late");
        let rejected_row = logs.rejected().first.first().unwrap();
        assert_eq!((rejected_row.line, rejected_row.reason.as_str()), (4, "too late"));
    }

    #[test]
    fn equal_file_names_are_labeled_by_path() {
        let names = labels(&["a/gpu.csv", "b/gpu.csv", "a/other.csv"]);
        assert_eq!(
            names.iter().map(|name| &**name).collect::<Vec<_>>(),
            ["a/gpu.csv", "b/gpu.csv", "other.csv"]
        );
    }

    proptest! {
        /// Readings do not depend on how the bytes are chunked.
        #[test]
        fn readings_do_not_depend_on_chunks(
            lines in vec(prop_oneof![
                (0..9_u32, 0..100_000_u32).prop_map(|(gpu, millis)| row(gpu, millis)),
                Just(HEADER.to_owned()),
                "[0-9,: /]{0,40}\r?\n",
            ], 0..50),
            sizes in vec(1_usize..50, 1..5),
        ) {
            let log = format!("{HEADER}{}{}", row(0, 0), lines.concat());
            let whole = open(vec![bytes(log.as_str())]).map_err(|error| error.to_string());
            let pieces = open(vec![Box::new(ChunkedReader::new(log, sizes))]);
            let (mut whole, mut pieces) = match (whole, pieces) {
                (Ok(whole), Ok(pieces)) => (whole, pieces),
                (whole, pieces) => {
                    prop_assert_eq!(whole.err(), pieces.err().map(|error| error.to_string()));
                    return Ok(());
                }
            };
            loop {
                let text = |read: Result<_, SourceError>| read.map_err(|error| error.to_string());
                let (read, expected) = (text(pieces.next()), text(whole.next()));
                prop_assert_eq!(&read, &expected);
                if !matches!(read, Ok(Some(_))) {
                    break;
                }
            }
            prop_assert_eq!(whole.rejected(), pieces.rejected());
            prop_assert_eq!(whole.gpus(), pieces.gpus());
        }

        /// Every line that is not blank is a header, a reading or a rejected row.
        #[test]
        fn every_line_is_accounted_for(
            lines in vec(prop_oneof![
                vec(any::<u8>().prop_filter("", |byte| *byte != b'\n'), 0..80),
                "[0-9,: /\\[\\]A-Z\"-]{0,40}".prop_map(String::into_bytes),
                Just(b"  ".to_vec()),
                Just(row(3, 7).trim_end().as_bytes().to_vec()),
            ], 0..50),
        ) {
            let written = lines.iter().filter(|line| !line.trim_ascii().is_empty()).count() as u64;
            let log = [HEADER.as_bytes(), row(0, 0).as_bytes(), &lines.join(&b'\n')].concat();
            let mut logs = open(vec![bytes(log)]).unwrap();
            let read = readings(&mut logs).len() as u64;
            prop_assert_eq!(read + logs.rejected().total, written + 1);
        }

        /// Any file is read to its end or fails with an error.
        #[test]
        fn arbitrary_bytes_end_or_fail(
            magic in prop_oneof![
                Just(&b""[..]), Just(&b"\x1F\x8B\x08\0\0\0\0\0\0\0"[..]), Just(&b"\xFF\xFE"[..]), Just(&b"\xFE\xFF"[..]),
                Just(HEADER.as_bytes()),
            ],
            noise in vec(any::<u8>(), 0..400),
        ) {
            if let Ok(mut logs) = open(vec![bytes([magic, &noise].concat())]) {
                readings(&mut logs);
            }
        }

        /// Logs are merged in time order, without loss or invention.
        #[test]
        fn readings_are_merged_in_time_order(
            mut logs in vec(vec((0..4_u32, 0..100_000_u32), 1..40), 1..5),
        ) {
            let mut all: Vec<_> = logs.concat().iter().map(|(_, millis)| *millis).collect();
            all.sort_unstable();
            for log in &mut logs {
                log.sort_by_key(|(_, millis)| *millis);
            }
            let texts = logs.iter().map(|log| {
                let rows: String = log.iter().map(|(gpu, millis)| row(*gpu, *millis)).collect();
                bytes(format!("{HEADER}{rows}"))
            });
            let mut merged = open(texts.collect()).unwrap();
            let midnight = 1_785_110_400_000;
            let times = readings(&mut merged).into_iter().map(|(_, reading)| {
                u32::try_from(reading.at.as_nanos() / 1_000_000 - midnight).unwrap()
            });
            prop_assert_eq!(times.collect::<Vec<_>>(), all);
            prop_assert!(merged.gpus().len() <= 4);
        }
    }
}
