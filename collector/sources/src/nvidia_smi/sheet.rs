//! Rows under headers: what stands from one line of a log to the next.
//!
//! It takes a log line by line, and says what each was. It must not know where lines come from.

use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::Timestamp;

use super::LogOptions;
use super::census::Census;
use super::columns::{Columns, PowerColumn, ToldApartBy};
use super::limits::Limits;
use super::lines::Line;
use super::rejected::Refusal;
use super::row::Row;
use super::timestamp::Clock;
use super::unusable::{HeaderFault, Problem, Unusable};

/// The rows of a log so far, as far as they bear on the next one.
pub(super) struct Sheet {
    /// What the last header said; `None` before the first, and under one that cannot be used.
    columns: Option<Columns>,
    /// Whether there was a header, or `--columns` in its place.
    begun: bool,
    told_apart_by: ToldApartBy,
    power: Option<PowerColumn>,
    clock: Clock,
    census: Census,
    /// Where the next row stands in its tick, and how many rows a tick has where only their order
    /// tells GPUs apart.
    place: usize,
    tick: usize,
}

/// A reading, and what came with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) reading: Reading,
    /// The GPU, as the census of its log numbers it.
    pub(super) gpu: usize,
    pub(super) limits: Limits,
    pub(super) line: u64,
}

impl Default for Entry {
    fn default() -> Self {
        let reading = Reading::at(Timestamp::default());
        Self { reading, gpu: 0, limits: Limits::default(), line: 0 }
    }
}

/// What a line was.
pub(super) enum Taken {
    Reading,
    Blank,
    Header,
    /// A row that nothing can be made of; it kept its place in the tick.
    Torn(Refusal),
    /// Nothing honest can be made of the log from here on.
    Unusable(Problem),
}

impl Sheet {
    /// An empty one, under the columns that the user gave, if any.
    ///
    /// # Errors
    /// Where these columns cannot be used.
    pub(super) fn new(options: &LogOptions) -> Result<Self, Unusable> {
        let mut sheet = Self {
            columns: None,
            begun: false,
            told_apart_by: ToldApartBy::RowOrder,
            power: None,
            clock: Clock::new(options.utc_offset),
            census: Census::new(options.gpu_model.clone()),
            place: 0,
            tick: usize::MAX,
        };
        if let Some(given) = &options.columns {
            let columns = Columns::read(given.as_bytes(), None).map_err(|fault| Unusable {
                file: "--columns".to_owned(),
                line: None,
                problem: fault.into(),
            })?;
            sheet.go_on_under(columns);
        }
        Ok(sheet)
    }

    /// The GPUs it has rows of.
    pub(super) const fn census(&self) -> &Census {
        &self.census
    }

    /// Whether more is known of a GPU than when this was asked last.
    #[inline]
    pub(super) fn take_news(&mut self) -> bool {
        self.census.take_news()
    }

    /// What tells GPUs apart under the last header.
    pub(super) const fn told_apart_by(&self) -> ToldApartBy {
        self.told_apart_by
    }

    /// Where power comes from.
    pub(super) const fn power(&self) -> Option<PowerColumn> {
        self.power
    }

    /// Whether it had to take local time as UTC.
    pub(super) const fn assumed_utc(&self) -> bool {
        self.clock.assumed_utc()
    }

    /// Says how many rows a tick has. Until then a row's place is how many stand between it and
    /// its header.
    pub(super) fn set_tick(&mut self, tick: usize) {
        self.tick = tick;
        self.place %= tick;
        self.census.fold(tick);
    }

    /// Takes a line. Where it was a reading, that is in `entry`.
    #[inline]
    pub(super) fn take(&mut self, line: Line<'_>, entry: &mut Entry) -> Taken {
        let Line::Whole(line) = line else { return self.too_long() };
        let Some(columns) = &self.columns else { return self.take_other(line) };
        let Some(row) = Row::read(line, columns, &mut self.clock) else {
            return self.take_other(line);
        };
        let gpu = if self.told_apart_by == ToldApartBy::RowOrder {
            self.census.at_place(self.place)
        } else {
            match self.census.named(&row.ids) {
                Ok(gpu) => gpu,
                Err(refusal) => return self.pass(refusal),
            }
        };
        self.census.learn(gpu, &row);
        self.pass_place();
        entry.reading = row.reading;
        entry.gpu = gpu;
        entry.limits = row.limits;
        Taken::Reading
    }

    /// Passes over a row that nothing can be made of.
    pub(super) const fn pass(&mut self, refusal: Refusal) -> Taken {
        self.pass_place();
        Taken::Torn(refusal)
    }

    /// Takes a line that no row could be read from.
    #[cold]
    fn take_other(&mut self, line: &[u8]) -> Taken {
        if line.trim_ascii().is_empty() {
            return Taken::Blank;
        }
        let fault = match Columns::read(line, self.power) {
            Ok(columns) => return self.take_header(columns),
            Err(fault) if !self.begun => return Taken::Unusable(fault.into()),
            Err(fault) => fault,
        };
        let found = line.split(|byte| *byte == b',').count();
        let refusal = match (fault, self.columns.as_ref().map(Columns::count)) {
            (fault @ HeaderFault::NothingToMeter { .. }, _) => {
                self.columns = None;
                Refusal::Header(fault)
            }
            (_, None) => Refusal::NoColumns,
            (_, Some(expected)) if expected != found => Refusal::CellCount { found, expected },
            (_, Some(_)) => Refusal::Timestamp,
        };
        self.pass(refusal)
    }

    fn take_header(&mut self, columns: Columns) -> Taken {
        let by_order = |by| by == ToldApartBy::RowOrder;
        let named = !by_order(columns.told_apart_by());
        let changes = named == by_order(self.told_apart_by);
        if changes && self.census.gpus().len() > 0 {
            return Taken::Unusable(Problem::NamingChanges { named });
        }
        self.go_on_under(columns);
        Taken::Header
    }

    fn go_on_under(&mut self, columns: Columns) {
        self.told_apart_by = columns.told_apart_by();
        self.power = self.power.or(columns.power());
        self.columns = Some(columns);
        self.begun = true;
        self.census.forget_keys();
        self.place = 0;
    }

    #[cold]
    fn too_long(&mut self) -> Taken {
        if self.begun {
            self.pass(Refusal::TooLong)
        } else {
            Taken::Unusable(HeaderFault::NotAHeader.into())
        }
    }

    #[inline]
    const fn pass_place(&mut self) {
        self.place = if self.place + 1 < self.tick { self.place + 1 } else { 0 };
    }
}
