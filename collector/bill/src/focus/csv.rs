//! Rows as CSV, with a header.

use std::io::{self, Write};

use super::row::columns;
use super::value::{RowSink, Value};
use super::version::FocusOptions;
use crate::csv;

/// Writes rows as CSV.
#[derive(Debug)]
pub struct CsvRows<W>(W);

impl<W: Write> CsvRows<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// Returns an error if `out` cannot be written to.
    pub fn new(mut out: W, options: &FocusOptions) -> io::Result<Self> {
        let names: Vec<_> = columns(options).map(|(name, _)| name).collect();
        writeln!(out, "{}", names.join(","))?;
        Ok(Self(out))
    }
}

impl<W: Write> RowSink for CsvRows<W> {
    fn write(&mut self, row: &[Value<'_>]) -> io::Result<()> {
        let cells: Vec<_> = row.iter().map(|value| csv::quoted(&cell(value))).collect();
        writeln!(self.0, "{}", cells.join(","))
    }

    fn finish(mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Numbers and instants are as they are, so that programs read them as such.
fn cell(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => csv::text(text.as_deref().unwrap_or_default()),
        Value::Map(_) => csv::json(&value.to_string()),
        Value::Decimal(_) | Value::Time(_) => value.to_string(),
    }
}
