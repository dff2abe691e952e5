//! Decodes the lines of a log into readings, and holds the state from one line to the next.

use super::LogOptions;
use super::columns::{Columns, GpuIdentification};
use super::digits::Ahead;
use super::entry::Entry;
use super::error::{HeaderError, LogError, LogErrorKind};
use super::gpu_registry::GpuRegistry;
use super::reject_reason::RejectReason;
use super::row::Row;
use super::timestamp::TimestampParser;
use super::usual_row::UsualRow;
use crate::log::lines::Line;

/// The state of a log that affects the decoding of its next line.
pub(super) struct LogDecoder {
    /// The columns of the latest header; `None` before the first, and after an unusable one.
    columns: Option<Columns>,
    /// The usual row under that header.
    usual_row: UsualRow,
    /// Whether there was a header, or `--columns` instead.
    has_header: bool,
    /// The header that `--columns` replaces, if there are columns given.
    replaced: Option<Replaced>,
    /// How GPUs are identified under the latest header.
    pub(super) gpu_identification: GpuIdentification,
    pub(super) timestamps: TimestampParser,
    /// The GPUs found so far.
    pub(super) registry: GpuRegistry,
}

/// The header in place of which `--columns` is read.
enum Replaced {
    /// Before the first line.
    Unknown,
    /// It is this line.
    Line(Box<[u8]>),
    /// There is none: the log begins with a row, valid or not.
    Nothing,
}

/// The result of decoding one line.
pub(super) enum Decoded {
    Reading,
    Blank,
    Header,
    /// An invalid row; it still counts as a position in the tick.
    Rejected(RejectReason),
    /// The rest of the log cannot be decoded reliably.
    Failed(LogErrorKind),
}

impl LogDecoder {
    /// Starts with the columns of the options, if any.
    ///
    /// # Errors
    /// Returns an error if these columns are unusable.
    pub(super) fn new(options: &LogOptions) -> Result<Self, LogError> {
        let mut decoder = Self {
            columns: None,
            usual_row: UsualRow::new(&Columns::default()),
            has_header: false,
            replaced: None,
            gpu_identification: GpuIdentification::RowOrder,
            timestamps: TimestampParser::new(options.utc_offset),
            registry: GpuRegistry::default(),
        };
        if let Some(given) = &options.columns {
            let columns = Columns::read(given.as_bytes()).map_err(|error| LogError {
                file: "--columns".to_owned(),
                line: None,
                kind: error.into(),
            })?;
            decoder.set_columns(columns);
            decoder.replaced = Some(Replaced::Unknown);
        }
        Ok(decoder)
    }

    /// Collects the properties of a GPU in a row whose GPU was not known when it was decoded.
    #[inline]
    pub(super) fn record_assigned(&mut self, entry: &Entry) {
        self.registry.record_assigned(entry.gpu, entry.limits, entry.model);
    }

    /// Decodes the row at the beginning of `ahead`, of which `available` bytes are valid, if it is a
    /// usual one of the expected GPU. Stores the reading in `entry` and returns the length of the
    /// line. Otherwise nothing has happened, and `entry` is undefined.
    #[inline]
    pub(super) fn decode_expected(
        &mut self,
        ahead: &Ahead,
        available: usize,
        entry: &mut Entry,
    ) -> Option<usize> {
        if self.gpu_identification == GpuIdentification::RowOrder {
            let line = self.decode_unassigned(ahead, available, entry)?;
            entry.gpu = self.registry.only(entry.limits, entry.model)?;
            return Some(line);
        }
        let key = self.registry.expected_key(self.usual_row.has_model())?;
        let row = self.usual_row.read(ahead, key, &mut self.timestamps, entry)?;
        if row.line > available {
            return None;
        }
        entry.gpu = self.registry.record_expected(entry.limits);
        Some(row.line)
    }

    /// Like [`Self::decode_expected`], if the order of rows identifies GPUs. The GPU is still to be
    /// assigned.
    #[inline]
    pub(super) fn decode_unassigned(
        &mut self,
        ahead: &Ahead,
        available: usize,
        entry: &mut Entry,
    ) -> Option<usize> {
        let row = self.usual_row.read(ahead, b"", &mut self.timestamps, entry)?;
        if row.line > available {
            return None;
        }
        entry.gpu = 0;
        entry.model = self.registry.intern_model(ahead.get(row.name)?.trim_ascii());
        Some(row.line)
    }

    /// Decodes a line. A reading is stored in `entry`.
    #[inline]
    pub(super) fn decode(&mut self, line: Line<'_>, entry: &mut Entry) -> Decoded {
        let Line::Whole(line) = line else { return self.reject_too_long() };
        let Some(columns) = &self.columns else { return self.decode_other(line) };
        let Some(row) = Row::read(line, columns, &mut self.timestamps) else {
            return self.decode_other(line);
        };
        if self.gpu_identification == GpuIdentification::RowOrder {
            entry.gpu = 0;
            entry.model = self.registry.intern_model(row.name);
        } else {
            match self.registry.by_ids(&row.ids) {
                Ok(gpu) => entry.gpu = gpu,
                Err(reason) => return Decoded::Rejected(reason),
            }
            self.registry.record_row(entry.gpu, &row);
        }
        entry.reading = row.reading;
        entry.limits = row.limits;
        entry.counts = row.counts;
        self.usual_row.learn(line);
        if let Some(replaced @ Replaced::Unknown) = &mut self.replaced {
            *replaced = Replaced::Nothing;
        }
        Decoded::Reading
    }

    /// Decodes a line that is not a valid row.
    #[cold]
    fn decode_other(&mut self, line: &[u8]) -> Decoded {
        if line.trim_ascii().is_empty() {
            return Decoded::Blank;
        }
        if self.is_replaced(line) {
            return Decoded::Header;
        }
        let error = match Columns::read(line) {
            Ok(_) if self.replaced.is_some() => return Decoded::Header,
            Ok(columns) => return self.apply_header(columns),
            Err(error) if !self.has_header => return Decoded::Failed(error.into()),
            Err(error) => error,
        };
        let found = line.split(|byte| *byte == b',').count();
        let reason = match (error, self.columns.as_ref().map(Columns::len)) {
            (error @ HeaderError::NoMeteredColumn { .. }, _) => {
                self.columns = None;
                RejectReason::Header(error)
            }
            (_, None) => RejectReason::NoColumns,
            (_, Some(expected)) if expected != found => RejectReason::CellCount { found, expected },
            (_, Some(_)) => RejectReason::Timestamp,
        };
        Decoded::Rejected(reason)
    }

    /// Whether a line that is not a row is the header that `--columns` replaces: the first line, if it has
    /// no timestamp, and its repetitions.
    fn is_replaced(&mut self, line: &[u8]) -> bool {
        match &self.replaced {
            Some(Replaced::Unknown) => {
                let mut cells = line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                let is_row = cells.any(|cell| self.timestamps.read(cell).is_some());
                let replaced = if is_row { Replaced::Nothing } else { Replaced::Line(line.into()) };
                self.replaced = Some(replaced);
                !is_row
            }
            Some(Replaced::Line(header)) => **header == *line,
            Some(Replaced::Nothing) | None => false,
        }
    }

    fn apply_header(&mut self, columns: Columns) -> Decoded {
        let by_row_order = |by| by == GpuIdentification::RowOrder;
        let identified = !by_row_order(columns.gpu_identification());
        let changes = identified == by_row_order(self.gpu_identification);
        if changes && self.registry.gpus().len() > 0 {
            return Decoded::Failed(LogErrorKind::IdentificationChanged { identified });
        }
        self.set_columns(columns);
        Decoded::Header
    }

    fn set_columns(&mut self, columns: Columns) {
        self.gpu_identification = columns.gpu_identification();
        self.usual_row = UsualRow::new(&columns);
        self.columns = Some(columns);
        self.has_header = true;
        self.registry.begin_header();
    }

    #[cold]
    fn reject_too_long(&self) -> Decoded {
        if self.has_header {
            Decoded::Rejected(RejectReason::TooLong)
        } else {
            Decoded::Failed(HeaderError::UnknownColumns.into())
        }
    }
}
