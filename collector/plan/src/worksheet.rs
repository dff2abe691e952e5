//! The result of a question in one model for text and JSON: values, tables, formulas with their
//! numbers, commands, assumptions and notes.

use std::borrow::Cow;

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_terminal::chart::Chart;
use phasemeter_terminal::printed::{self, CENT};
use serde::Serialize;

use crate::format;

/// A worked result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Worksheet {
    /// The result in a few words, each an item of the first line.
    pub headline: Vec<String>,
    /// Named values.
    pub values: Vec<Value>,
    /// Tables of values.
    pub tables: Vec<Table>,
    /// How the values were computed.
    pub formulas: Vec<Formula>,
    /// Costs against times, to be drawn.
    pub chart: Option<Chart>,
    /// Commands and files that put the result into effect.
    pub snippets: Vec<Snippet>,
    /// What was assumed because it was not given.
    pub assumptions: Vec<String>,
    /// What the result does not cover, and mistakes that are common here.
    pub notes: Vec<String>,
}

/// An amount with its unit; a missing one has a reason, and is neither zero nor omitted.
#[derive(Clone, Debug, PartialEq)]
pub enum Amount {
    /// An amount of money.
    Usd(NanoUsd),
    /// A small amount of money, displayed to a hundredth of a cent.
    UsdFine(NanoUsd),
    /// An amount that belongs to a sum, and what is displayed of it so that the sum holds.
    Part {
        /// The amount.
        exact: NanoUsd,
        /// Displayed.
        shown: NanoUsd,
        /// Whether to a hundredth of a cent.
        is_fine: bool,
    },
    /// A price per hour.
    Rate(Rate),
    /// A whole number.
    Count(u64),
    /// Any other number, with its unit in the name of the value.
    Number(f64),
    /// A fraction, displayed as a percentage.
    Fraction(f64),
    /// Memory in bytes.
    Bytes(u64),
    /// Hours.
    Hours(f64),
    /// Seconds.
    Seconds(f64),
    /// A name.
    Text(String),
    /// Whether something holds.
    Flag(bool),
    /// Unknown or not applicable, with the reason.
    Missing(&'static str),
}

/// A hundredth of a cent.
const FINE: i128 = CENT / 100;

impl Amount {
    /// The parts of a whole: displayed, they sum to it. Followed by the whole.
    pub(crate) fn sum(parts: &[NanoUsd], whole: NanoUsd, is_fine: bool) -> Vec<Self> {
        let unit = if is_fine { FINE } else { CENT };
        let all = printed::rounded(whole, unit);
        let shown = printed::parts(all, parts, unit).into_iter().chain([all]);
        let exact = parts.iter().copied().chain([whole]);
        let part = |(exact, shown): (NanoUsd, i128)| Self::Part {
            exact,
            shown: NanoUsd(shown.saturating_mul(unit)),
            is_fine,
        };
        exact.zip(shown).map(part).collect()
    }

    /// The difference of two amounts that are displayed beside it.
    pub(crate) fn difference(from: NanoUsd, less: NanoUsd) -> Self {
        let shown = printed::rounded(from, CENT).saturating_sub(printed::rounded(less, CENT));
        let shown = NanoUsd(shown.saturating_mul(CENT));
        Self::Part { exact: from - less, shown, is_fine: false }
    }

    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

/// For text; missing quantities are a dash.
impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = match self {
            Self::Usd(amount) => format::usd(*amount),
            Self::UsdFine(amount) | Self::Part { shown: amount, is_fine: true, .. } => {
                format::fine(*amount)
            }
            Self::Part { shown, is_fine: false, .. } => format::usd(*shown),
            Self::Rate(rate) => format::rate(*rate),
            Self::Count(count) => format::grouped(u128::from(*count)),
            Self::Number(number) => format::number(*number),
            Self::Fraction(fraction) => format::percent(*fraction),
            Self::Bytes(bytes) => {
                format!("{} GB ({} GiB)", format::gb(*bytes), format::gib(*bytes))
            }
            Self::Hours(hours) => format!("{} h", format::number(*hours)),
            Self::Seconds(seconds) => format::seconds(*seconds),
            Self::Text(text) => text.clone(),
            Self::Flag(flag) => if *flag { "yes" } else { "no" }.to_owned(),
            Self::Missing(_) => "–".to_owned(),
        };
        f.pad(&text)
    }
}

/// A named amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// The name in JSON; ends with the unit.
    pub key: &'static str,
    /// The name in text; empty if only JSON has the value.
    pub label: &'static str,
    /// The amount.
    pub amount: Amount,
}

/// A table; each row has one amount per column.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// The name in JSON.
    pub key: &'static str,
    /// The label in text; empty if only JSON has the table.
    pub title: Cow<'static, str>,
    /// The columns.
    pub columns: Vec<TableColumn>,
    /// The rows.
    pub rows: Vec<Vec<Amount>>,
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableColumn {
    /// The name in JSON; ends with the unit.
    pub key: &'static str,
    /// The heading in text; empty if only JSON has the column.
    pub heading: &'static str,
}

/// A formula in symbols and with its numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Formula {
    /// In words: `hours × price × GPUs`.
    #[serde(rename = "formula")]
    pub symbols: &'static str,
    /// What it computes.
    pub name: String,
    /// With the numbers put in: `720 h × $3.06 × 8`.
    pub numbers: String,
    /// The result.
    pub result: String,
}

/// Commands or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Snippet {
    /// Its lines.
    pub text: String,
    /// What it does.
    pub title: &'static str,
}

impl Worksheet {
    pub(crate) fn new(headline: Vec<String>) -> Self {
        Self { headline, ..Self::default() }
    }

    pub(crate) fn value(&mut self, key: &'static str, label: &'static str, amount: Amount) {
        self.values.push(Value { key, label, amount });
    }

    pub(crate) fn formula(
        &mut self,
        name: impl Into<String>,
        symbols: &'static str,
        numbers: impl Into<String>,
        result: impl Into<String>,
    ) {
        let (name, numbers, result) = (name.into(), numbers.into(), result.into());
        self.formulas.push(Formula { name, symbols, numbers, result });
    }

    pub(crate) fn table(
        &mut self,
        key: &'static str,
        title: impl Into<Cow<'static, str>>,
        columns: &[(&'static str, &'static str)],
        rows: Vec<Vec<Amount>>,
    ) {
        let columns = columns.iter().map(|&(key, heading)| TableColumn { key, heading }).collect();
        self.tables.push(Table { key, title: title.into(), columns, rows });
    }

    pub(crate) fn assume(&mut self, sentence: impl Into<String>) {
        self.assumptions.push(sentence.into());
    }

    pub(crate) fn note(&mut self, sentence: impl Into<String>) {
        self.notes.push(sentence.into());
    }
}
