//! A row of the table of quantities: the unit and range of one, and its names.

use crate::units::{Bytes, PPM};

/// The unit in which numbers of a quantity are checked and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Parts per million of the whole.
    Ppm,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Milliwatts.
    Milliwatts,
    /// Millijoules.
    Millijoules,
    /// Degrees Celsius.
    Celsius,
    /// Megahertz.
    Megahertz,
    /// A number that identifies or counts something, or a bit mask.
    Number,
}

/// One row of the table.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) least: i64,
    pub(super) most: i64,
    /// Numbers above `most` up to this one count as `most`.
    pub(super) tolerated: i64,
    pub(super) is_mapped: bool,
    /// The names of its columns in logs.
    pub(super) columns: &'static [&'static str],
    /// Whether `phasemeter record` writes the first of them.
    pub(super) is_recorded: bool,
    pub(super) window: Option<InWindow>,
    pub(super) alert: Option<AlertNames>,
}

/// A value of windows, the input of policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InWindow {
    /// The mean of readings has this name: of shares 0–1, and of the time in which the GPU or its engine worked.
    Mean(&'static str),
    /// The maximum of readings has this name.
    Max(&'static str),
}

/// The names by which rules for alerts are about a quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertNames {
    /// In files, reports and telemetry.
    pub name: &'static str,
    /// Its series, as Prometheus names it.
    pub series: &'static str,
}

/// The whole, in parts per million.
pub(super) const WHOLE: i64 = PPM as i64;

/// Two counters that are read one after the other may exceed the whole by the error of their clocks: 1%.
pub(super) const COUNTERS: i64 = WHOLE + WHOLE / 100;

/// A fan may exceed its nominal maximum, but not twice.
pub(super) const FAN: i64 = 2 * WHOLE;

/// Larger sizes are misreadings.
pub(super) const MEMORY: i64 = Bytes::MAX.cast_signed();

/// Largest power of a GPU in milliwatts, 10 kW: about three times that of the largest announced package.
pub(super) const POWER: i64 = 10_000_000;

/// Integers up to here are exact in a double. As an energy counter it is 28 years at the largest power.
pub(super) const EXACT: i64 = 1 << 53;

/// No silicon is colder or hotter, in degrees Celsius. A byte of ones (255) is a misreading.
pub(super) const HEAT: (i64, i64) = (-60, 150);

/// Highest clock in megahertz: about twice the data rate of the fastest memory.
pub(super) const CLOCK: i64 = 30_000;

/// Highest rate over links in bytes per second: 100 TB/s, below the numbers with which DCGM marks missing
/// values.
pub(super) const RATE: i64 = 100_000_000_000_000;

/// Highest number of errors that is plausible; drivers mark missing numbers by larger ones.
pub(super) const ERRORS: (i64, i64) = (0, 999_999_999);

/// A row that no log, window, mapping or rule names.
pub(super) const fn row(
    name: &'static str,
    unit: Unit,
    (least, most): (i64, i64),
    tolerated: i64,
) -> Row {
    Row {
        name,
        unit,
        least,
        most,
        tolerated,
        is_mapped: false,
        columns: &[],
        is_recorded: false,
        window: None,
        alert: None,
    }
}

impl Row {
    /// Mapping files can name it.
    pub(super) const fn mapped(self) -> Self {
        Self { is_mapped: true, ..self }
    }

    /// Logs have it under these names.
    pub(super) const fn column(self, columns: &'static [&'static str]) -> Self {
        Self { columns, ..self }
    }

    /// Logs have it under these names, and `phasemeter record` writes the first.
    pub(super) const fn recorded(self, columns: &'static [&'static str]) -> Self {
        Self { columns, is_recorded: true, ..self }
    }

    /// Windows have its mean under this name.
    pub(super) const fn mean(self, name: &'static str) -> Self {
        Self { window: Some(InWindow::Mean(name)), ..self }
    }

    /// Windows have its maximum under this name.
    pub(super) const fn max(self, name: &'static str) -> Self {
        Self { window: Some(InWindow::Max(name)), ..self }
    }

    /// Rules for alerts can be about it: of a size or a power, about its share of the limit.
    pub(super) const fn alert(self, name: &'static str, series: &'static str) -> Self {
        Self { alert: Some(AlertNames { name, series }), ..self }
    }
}
