//! One log: decodes its lines into readings of its own GPUs.
//!
//! Reads the first thousand rows ahead to determine the number and identity of GPUs before the
//! first reading is returned.

mod head;

use std::collections::VecDeque;
use std::fmt::Display;
use std::io::Read;
use std::sync::Arc;

use phasemeter_meter::reading::GpuIdentity;

use super::super::SourceError;
use super::LogOptions;
use super::admission::{Admission, Step, Unusable};
use super::columns::GpuIdentification;
use super::convert;
use super::decoder::{Decoded, LogDecoder};
use super::entry::Entry;
use super::error::{LogError, LogErrorKind};
use super::local_clock::LocalSteps;
use super::reject_reason::RejectReason;
use super::row_order::TickSummary;
use crate::log::RejectedRows;
use crate::log::lines::{Lines, MAX_ROW};
use crate::log::stream;

/// An open log with a current reading.
pub(super) struct Log {
    name: Arc<str>,
    lines: Lines,
    decoder: LogDecoder,
    admission: Admission,
    /// A row that [`Self::next_usual`] has read, but not admitted.
    unadmitted: Option<Entry>,
    /// Readings read ahead.
    ready: VecDeque<Entry>,
    entry: Entry,
    assumed_single_gpu: bool,
}

/// How the rows of a log are read, so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFormat {
    /// How GPUs are identified.
    pub gpu_identification: GpuIdentification,
    /// Whether local time was assumed to be UTC, for lack of a time zone and `--utc-offset`.
    pub assumed_utc: bool,
    /// Whether one GPU was assumed, for lack of IDs, `--gpu-count` and distinct ticks.
    pub assumed_single_gpu: bool,
    /// The ticks, if the order of rows identifies several GPUs.
    pub ticks: TickSummary,
    /// Rows of a GPU in each second, if they have whole seconds and are spread over each.
    pub rows_per_second: Option<usize>,
    /// Steps of local time, after which it is read on.
    pub local_steps: LocalSteps,
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
        let text = convert::to_csv(text).map_err(|foreign| LogError {
            file: name.to_string(),
            line: None,
            kind: foreign.into(),
        })?;
        let lines = Lines::new(text, MAX_ROW);
        let mut log = Self {
            name,
            lines,
            decoder,
            admission: Admission::new(options),
            unadmitted: None,
            ready: VecDeque::new(),
            entry: Entry::EMPTY,
            assumed_single_gpu: false,
        };
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
        self.decoder.registry.gpus()
    }

    /// Whether the identity of a GPU has changed since the last call.
    #[inline]
    pub(super) fn take_changed(&mut self) -> bool {
        self.decoder.registry.take_changed()
    }

    /// How its rows are read so far.
    #[inline]
    pub(super) fn format(&self) -> LogFormat {
        LogFormat {
            gpu_identification: self.decoder.gpu_identification,
            assumed_utc: self.decoder.timestamps.assumed_utc(),
            assumed_single_gpu: self.assumed_single_gpu,
            ticks: self.admission.ticks(),
            rows_per_second: self.admission.rows_per_second(),
            local_steps: self.admission.local_steps(),
        }
    }

    /// The current reading.
    pub(super) const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Advances to the next reading; false at the end.
    #[inline]
    pub(super) fn advance(&mut self, rejected: &mut RejectedRows) -> Result<bool, SourceError> {
        if let Some(entry) = self.unadmitted.take() {
            self.accept(Step::Reading, entry, rejected)?;
        }
        loop {
            if let Some(entry) = self.ready.pop_front() {
                self.entry = entry;
                return Ok(true);
            }
            let step = self.step(rejected)?;
            if step == Step::Reading
                && self.admission.is_plain()
                && self.admission.admits(&self.entry)
            {
                self.admission.follow();
                self.collect_assigned();
                return Ok(true);
            }
            self.accept(step, self.entry, rejected)?;
            if step == Step::End && self.ready.is_empty() {
                return Ok(false);
            }
        }
    }

    /// Collects the properties of the only GPU of a log that does not identify it.
    #[inline]
    fn collect_assigned(&mut self) {
        if self.decoder.gpu_identification == GpuIdentification::RowOrder {
            self.decoder.record_assigned(&self.entry);
        }
    }

    /// Takes a line; returns the seconds to add to rows that were read ahead, since local time stepped.
    #[cold]
    fn accept(
        &mut self,
        step: Step,
        entry: Entry,
        rejected: &mut RejectedRows,
    ) -> Result<i64, SourceError> {
        let (decoder, ready, name) = (&mut self.decoder, &mut self.ready, &self.name);
        let reject = |line, reason: &dyn Display| rejected.record(name, line, reason);
        let taken = self.admission.push(step, entry, decoder, ready, reject);
        taken.map_err(|(line, kind): Unusable| {
            LogError { file: self.name.to_string(), line: Some(line), kind }.into()
        })
    }

    /// Reads ahead to the next reading, if that is in a usual row of the expected GPU. If it returns
    /// false, [`Self::advance`] has the next reading, and `entry` is undefined.
    #[inline]
    pub(super) fn next_usual(&mut self, entry: &mut Entry) -> bool {
        if !self.ready.is_empty() || !self.admission.is_plain() {
            return false;
        }
        let Some((ahead, available)) = self.lines.peek() else { return false };
        let Some(length) = self.decoder.decode_expected(ahead, available, entry) else {
            return false;
        };
        self.lines.consume(length);
        entry.line = self.lines.number();
        let is_regular = self.admission.admits(entry);
        if !is_regular {
            self.unadmitted = Some(*entry);
        }
        is_regular
    }

    /// Reads the next row, if it is a usual one whose GPU follows from the order of rows.
    #[inline]
    fn step_usual(&mut self) -> bool {
        let ahead = self.lines.peek().filter(|_| self.admission.is_by_order());
        let Some((ahead, available)) = ahead else { return false };
        let entry = &mut self.entry;
        let Some(length) = self.decoder.decode_unassigned(ahead, available, entry) else {
            return false;
        };
        self.lines.consume(length);
        self.entry.line = self.lines.number();
        true
    }

    #[inline]
    fn step(&mut self, rejected: &mut RejectedRows) -> Result<Step, SourceError> {
        if self.step_usual() {
            return Ok(Step::Reading);
        }
        loop {
            let (decoded, line) = match self.lines.next() {
                Ok(None) => return Ok(Step::End),
                Ok(Some(line)) => (self.decoder.decode(line, &mut self.entry), self.lines.number()),
                // The line after the last complete one is corrupt.
                Err(error) if stream::is_corrupt(&error) => {
                    (Decoded::Rejected(RejectReason::Corrupt(error)), self.lines.number() + 1)
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
