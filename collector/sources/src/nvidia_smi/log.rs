//! One log: lines under headers become readings of its own GPUs.
//!
//! Its first thousand rows are read ahead, to see how many GPUs take turns in it and what they
//! are, before the first reading goes out. It must not know of other logs.

use std::collections::VecDeque;
use std::io::Read;
use std::num::NonZeroU32;
use std::sync::Arc;

use phasemeter_meter::reading::GpuIdentity;

use super::super::SourceError;
use super::LogOptions;
use super::columns::{PowerColumn, ToldApartBy};
use super::interleave::{Fit, Spacing};
use super::lines::{Lines, MAX_ROW};
use super::rejected::{Refusal, Rejected};
use super::sheet::{Entry, Sheet, Taken};
use super::stream;
use super::unusable::{Problem, Unusable};

/// Rows that are read ahead.
const HEAD: usize = 1_000;

/// One log that is being read. It stands at a reading, and goes on to the next.
pub(super) struct Log {
    name: Arc<str>,
    lines: Lines,
    sheet: Sheet,
    head: VecDeque<Entry>,
    entry: Entry,
}

/// What the next line with anything on it was.
enum Step {
    Reading,
    Header,
    Torn,
    End,
}

impl Log {
    /// Reads the head of a log, finds out what there is to know before its first reading, and
    /// stands at that.
    ///
    /// # Errors
    /// Where it cannot be read, or nothing can be made of it.
    pub(super) fn open(
        name: Arc<str>,
        bytes: Box<dyn Read + Send>,
        options: &LogOptions,
        rejected: &mut Rejected,
    ) -> Result<Self, SourceError> {
        let sheet = Sheet::new(options)?;
        let text = match stream::decoded(bytes) {
            Ok(text) => text,
            Err(error) if stream::is_damage(&error) => {
                let reason = Refusal::Damaged(error).to_string();
                let problem = Problem::NoReadableRow { line: 1, reason };
                return Err(Unusable { file: name.to_string(), line: None, problem }.into());
            }
            Err(source) => {
                return Err(SourceError::Unreadable { input: name.to_string(), source });
            }
        };
        let lines = Lines::new(text, MAX_ROW);
        let (head, entry) = (VecDeque::new(), Entry::default());
        let mut log = Self { name, lines, sheet, head, entry };
        let mut refused = Rejected::default();
        log.read_head(options.gpus, &mut refused)?;
        rejected.absorb(refused);
        Ok(log)
    }

    /// The log as the user named it.
    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its GPUs so far, their names still empty.
    pub(super) fn gpus(&self) -> impl ExactSizeIterator<Item = &GpuIdentity> {
        self.sheet.census().gpus()
    }

    /// Whether more is known of a GPU than when this was asked last.
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        self.sheet.take_news()
    }

    /// What tells its GPUs apart.
    pub(super) const fn told_apart_by(&self) -> ToldApartBy {
        self.sheet.told_apart_by()
    }

    /// Where its power comes from.
    pub(super) const fn power(&self) -> Option<PowerColumn> {
        self.sheet.power()
    }

    /// Whether it had to take local time as UTC.
    pub(super) const fn assumed_utc(&self) -> bool {
        self.sheet.assumed_utc()
    }

    /// The reading that it stands at.
    pub(super) const fn entry(&self) -> &Entry {
        &self.entry
    }

    /// Goes on to the next reading; false at the end.
    #[inline]
    pub(super) fn advance(&mut self, rejected: &mut Rejected) -> Result<bool, SourceError> {
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
                Step::Header | Step::Torn => {}
                Step::End => return Ok(false),
            }
        }
    }

    /// Reads the first rows, which show how GPUs are told apart.
    fn read_head(
        &mut self,
        gpus: Option<NonZeroU32>,
        rejected: &mut Rejected,
    ) -> Result<(), SourceError> {
        let (mut spacing, mut rows) = (Spacing::default(), 0);
        let mut head = VecDeque::new();
        while rows < HEAD {
            match self.step(rejected)? {
                Step::Reading => {
                    spacing.row(self.entry.gpu, self.entry.reading.at);
                    head.push_back(self.entry);
                    rows += 1;
                }
                Step::Torn => {
                    spacing.interrupt();
                    rows += 1;
                }
                Step::Header => spacing.interrupt(),
                Step::End => break,
            }
        }
        if self.told_apart_by() == ToldApartBy::RowOrder {
            let tick = self.tick_length(&spacing, gpus)?;
            self.sheet.set_tick(tick);
            head.iter_mut().for_each(|entry| entry.gpu %= tick);
        } else if let Some(asked) = gpus {
            // GPUs are numbered as they appear: the first tick counts up.
            let found = head.iter().zip(0..).take_while(|(entry, row)| entry.gpu == *row).count();
            if asked.get() as usize != found {
                return Err(self.unusable(Problem::NamesItsGpus { asked: asked.get(), found }));
            }
        }
        self.head = head;
        if !self.advance(rejected)? {
            return Err(self.unusable(no_rows(rejected)));
        }
        Ok(())
    }

    /// How many rows a tick has, from the spacing of the first rows and what the user says.
    fn tick_length(
        &self,
        spacing: &Spacing,
        gpus: Option<NonZeroU32>,
    ) -> Result<usize, SourceError> {
        let fits = || spacing.fitting();
        let problem = match gpus.map(NonZeroU32::get) {
            Some(1) => return Ok(1),
            Some(asked) => match (spacing.fit(asked), fits()) {
                (Fit::Fits, _) => return Ok(asked as usize),
                (Fit::TooShort, fits) if fits.is_empty() => Problem::TooShort { asked },
                (_, fits) => Problem::OtherNumberOfGpus { asked, fits },
            },
            None => match fits() {
                fits if fits.is_empty() => return Ok(1),
                fits => Problem::SeveralGpus { fits },
            },
        };
        Err(self.unusable(problem))
    }

    #[inline]
    fn step(&mut self, rejected: &mut Rejected) -> Result<Step, SourceError> {
        loop {
            let (taken, line) = match self.lines.next() {
                Ok(None) => return Ok(Step::End),
                Ok(Some(line)) => (self.sheet.take(line, &mut self.entry), self.lines.number()),
                // What is damaged is the line after the last whole one.
                Err(error) if stream::is_damage(&error) => {
                    (self.sheet.pass(Refusal::Damaged(error)), self.lines.number() + 1)
                }
                Err(source) => {
                    let input = self.name.to_string();
                    return Err(SourceError::Unreadable { input, source });
                }
            };
            match taken {
                Taken::Reading => {
                    self.entry.line = line;
                    return Ok(Step::Reading);
                }
                Taken::Blank => {}
                Taken::Header => return Ok(Step::Header),
                Taken::Torn(refusal) => {
                    rejected.book(&self.name, line, &refusal);
                    return Ok(Step::Torn);
                }
                Taken::Unusable(problem) => {
                    let (file, line) = (self.name.to_string(), Some(line));
                    return Err(Unusable { file, line, problem }.into());
                }
            }
        }
    }

    fn unusable(&self, problem: Problem) -> SourceError {
        Unusable { file: self.name.to_string(), line: None, problem }.into()
    }
}

/// What is wrong with a log that has no row, or none but these.
fn no_rows(rejected: &Rejected) -> Problem {
    match rejected.first.first() {
        Some(row) => Problem::NoReadableRow { line: row.line, reason: row.reason.clone() },
        None => Problem::NoRows,
    }
}
