//! The value of a column with its type, and what takes rows of them.

use std::collections::BTreeMap;
use std::{fmt, io};

use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::{NANOS_PER_USD, NanoUsd, div_half_even};
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos, Timestamp};

/// What a column contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text.
    Text,
    /// A number with nine decimals.
    Decimal,
    /// An instant; never null.
    Time,
    /// Text by key; never null.
    Map,
    /// Text by key, or null.
    OptionalMap,
}

/// A value of a column; `None` for null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Text that is not empty.
    Text(Option<String>),
    /// A number.
    Decimal(Option<Decimal>),
    /// An instant.
    Time(Timestamp),
    /// Text by key.
    Map(Option<&'a BTreeMap<String, String>>),
}

/// A number with nine decimals, as a whole number of billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal(pub i128);

/// A format of rows.
pub trait RowSink {
    /// Writes a row: a value per column.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()>;

    /// Ends the output.
    ///
    /// # Errors
    /// Returns an error if the output cannot be written to.
    fn finish(self) -> io::Result<()>;
}

impl Decimal {
    /// Hours, rounded half to even.
    #[must_use]
    pub fn hours(time: Nanos) -> Self {
        let nanos = i128::from(time.0) * i128::from(NANOS_PER_USD);
        Self(div_half_even(nanos, i128::from(NANOS_PER_HOUR)).unwrap_or_default())
    }
}

impl From<NanoUsd> for Decimal {
    fn from(NanoUsd(nanos): NanoUsd) -> Self {
        Self(nanos)
    }
}

/// As FOCUS has it in text: numbers with all nine decimals, instants in UTC, maps as JSON, and
/// nothing for null.
impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text.as_deref().unwrap_or_default()),
            Self::Decimal(number) => number.map_or(Ok(()), |Decimal(nanos)| NanoUsd(nanos).fmt(f)),
            Self::Time(at) => Instant(*at).fmt(f),
            Self::Map(map) => {
                let json = |map| serde_json::to_string(map).unwrap_or_default();
                f.write_str(&map.map(json).unwrap_or_default())
            }
        }
    }
}
