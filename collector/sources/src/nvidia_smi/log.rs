//! One log: decodes its lines into readings of its own GPUs.
//!
//! Reads the first thousand rows ahead to determine the number and identity of GPUs before the
//! first reading is returned. Must not depend on other logs.

use std::collections::VecDeque;
use std::io::Read;
use std::num::NonZeroU32;
use std::sync::Arc;

use phasemeter_meter::reading::GpuIdentity;

use super::super::SourceError;
use super::LogOptions;
use super::columns::GpuIdentification;
use super::decoder::{Decoded, LogDecoder};
use super::entry::Entry;
use super::error::{LogError, LogErrorKind};
use super::interleave::{Fit, Spacing};
use super::lines::{Lines, MAX_ROW};
use super::rejected::{RejectReason, RejectedRows};
use super::stream;

/// Number of rows to read ahead.
const HEAD: usize = 1_000;

/// An open log with a current reading.
pub(super) struct Log {
    name: Arc<str>,
    lines: Lines,
    decoder: LogDecoder,
    head: VecDeque<Entry>,
    entry: Entry,
}

/// How the rows of a log are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogFormat {
    /// How GPUs are identified.
    pub(super) gpu_identification: GpuIdentification,
    /// Whether local time was assumed to be UTC.
    pub(super) assumed_utc: bool,
}

/// The result of the next line that is not blank.
enum Step {
    Reading,
    Header,
    Rejected,
    End,
}

impl Log {
    /// Reads the head of a log and advances to its first reading.
    ///
    /// # Errors
    /// Returns an error if the log is unreadable or unusable.
    pub(super) fn open(
        name: Arc<str>,
        bytes: Box<dyn Read + Send>,
        options: &LogOptions,
        rejected: &mut RejectedRows,
    ) -> Result<Self, SourceError> {
        let decoder = LogDecoder::new(options)?;
        let text = match stream::decode(bytes) {
            Ok(text) => text,
            Err(error) if stream::is_corrupt(&error) => {
                let reason = RejectReason::Corrupt(error).to_string();
                let kind = LogErrorKind::NoValidRow { line: 1, reason };
                return Err(LogError { file: name.to_string(), line: None, kind }.into());
            }
            Err(source) => {
                return Err(SourceError::Unreadable { input: name.to_string(), source });
            }
        };
        let lines = Lines::new(text, MAX_ROW);
        let (head, entry) = (VecDeque::new(), Entry::EMPTY);
        let mut log = Self { name, lines, decoder, head, entry };
        let mut in_head = RejectedRows::default();
        log.read_head(options.gpus, &mut in_head)?;
        rejected.merge(in_head);
        Ok(log)
    }

    /// The log as given by the user.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its GPUs so far, without names.
    pub(super) fn gpus(&self) -> impl ExactSizeIterator<Item = &GpuIdentity> {
        self.decoder.registry().gpus()
    }

    /// Whether the identity of a GPU has changed since the last call.
    #[inline]
    pub(super) fn take_changed(&mut self) -> bool {
        self.decoder.take_changed()
    }

    /// How its rows are read so far.
    #[inline]
    pub(super) const fn format(&self) -> LogFormat {
        LogFormat {
            gpu_identification: self.decoder.gpu_identification(),
            assumed_utc: self.decoder.assumed_utc(),
        }
    }

    /// The current reading.
    pub(super) const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Advances to the next reading; false at the end.
    #[inline]
    pub(super) fn advance(&mut self, rejected: &mut RejectedRows) -> Result<bool, SourceError> {
        if let Some(entry) = self.head.pop_front() {
            self.entry = entry;
            if self.head.is_empty() {
                self.head = VecDeque::new();
            }
            return Ok(true);
        }
        loop {
            match self.step(rejected)? {
                Step::Reading => return Ok(true),
                Step::Header | Step::Rejected => {}
                Step::End => return Ok(false),
            }
        }
    }

    /// Reads ahead to the next reading, if that is in a usual row of the expected GPU. If it returns
    /// false, nothing has happened, and `entry` is undefined.
    #[inline]
    pub(super) fn next_usual(&mut self, entry: &mut Entry) -> bool {
        let Some((row, length)) = self.lines.peek().filter(|_| self.head.is_empty()) else {
            return false;
        };
        let is_usual = self.decoder.decode_usual(row, entry);
        if is_usual {
            self.lines.consume(length);
            entry.line = self.lines.number();
        }
        is_usual
    }

    /// Reads the first rows, which show how GPUs are identified.
    fn read_head(
        &mut self,
        gpus: Option<NonZeroU32>,
        rejected: &mut RejectedRows,
    ) -> Result<(), SourceError> {
        let (mut spacing, mut rows) = (Spacing::default(), 0);
        let mut head = VecDeque::new();
        while rows < HEAD {
            match self.step(rejected)? {
                Step::Reading => {
                    spacing.record(self.entry.gpu, self.entry.reading.at);
                    head.push_back(self.entry);
                    rows += 1;
                }
                Step::Rejected => {
                    spacing.interrupt();
                    rows += 1;
                }
                Step::Header => spacing.interrupt(),
                Step::End => break,
            }
        }
        if self.decoder.gpu_identification() == GpuIdentification::RowOrder {
            let tick = self.tick_length(&spacing, gpus)?;
            self.decoder.set_tick_length(tick);
            head.iter_mut().for_each(|entry| entry.gpu %= tick);
        } else if let Some(requested) = gpus {
            // GPUs are numbered in order of appearance, so the first tick counts up.
            let found = head.iter().zip(0..).take_while(|(entry, row)| entry.gpu == *row).count();
            if requested.get() as usize != found {
                return Err(
                    self.error(LogErrorKind::GpusIdentified { requested: requested.get(), found })
                );
            }
        }
        self.head = head;
        if !self.advance(rejected)? {
            return Err(self.error(no_rows(rejected)));
        }
        Ok(())
    }

    /// The number of rows per tick, by the spacing of rows and `--gpu-count`.
    fn tick_length(
        &self,
        spacing: &Spacing,
        gpus: Option<NonZeroU32>,
    ) -> Result<usize, SourceError> {
        let candidates = || spacing.candidates();
        let kind = match gpus.map(NonZeroU32::get) {
            Some(1) => return Ok(1),
            Some(requested) => match (spacing.fit(requested), candidates()) {
                (Fit::Match, _) => return Ok(requested as usize),
                (Fit::TooShort, candidates) if candidates.is_empty() => {
                    LogErrorKind::TooShort { requested }
                }
                (_, candidates) => LogErrorKind::GpuCountMismatch { requested, candidates },
            },
            None => match candidates() {
                candidates if candidates.is_empty() => return Ok(1),
                candidates => LogErrorKind::GpuCountRequired { candidates },
            },
        };
        Err(self.error(kind))
    }

    #[inline]
    fn step(&mut self, rejected: &mut RejectedRows) -> Result<Step, SourceError> {
        loop {
            let (decoded, line) = match self.lines.next() {
                Ok(None) => return Ok(Step::End),
                Ok(Some(line)) => (self.decoder.decode(line, &mut self.entry), self.lines.number()),
                // The line after the last complete one is corrupt.
                Err(error) if stream::is_corrupt(&error) => {
                    (self.decoder.skip_row(RejectReason::Corrupt(error)), self.lines.number() + 1)
                }
                Err(source) => {
                    let input = self.name.to_string();
                    return Err(SourceError::Unreadable { input, source });
                }
            };
            match decoded {
                Decoded::Reading => {
                    self.entry.line = line;
                    return Ok(Step::Reading);
                }
                Decoded::Blank => {}
                Decoded::Header => return Ok(Step::Header),
                Decoded::Rejected(reason) => {
                    rejected.record(&self.name, line, &reason);
                    return Ok(Step::Rejected);
                }
                Decoded::Failed(kind) => {
                    let (file, line) = (self.name.to_string(), Some(line));
                    return Err(LogError { file, line, kind }.into());
                }
            }
        }
    }

    fn error(&self, kind: LogErrorKind) -> SourceError {
        LogError { file: self.name.to_string(), line: None, kind }.into()
    }
}

/// The error of a log without valid rows.
fn no_rows(rejected: &RejectedRows) -> LogErrorKind {
    match rejected.first.first() {
        Some(row) => LogErrorKind::NoValidRow { line: row.line, reason: row.reason.clone() },
        None => LogErrorKind::NoRows,
    }
}
