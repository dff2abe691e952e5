//! A plan as JSON, as specified by `plan.schema.json`.
//!
//! A missing value is null, and its reason is under `missing`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use phasemeter_plan::worksheet::{Amount, Table, Worksheet};
use phasemeter_report::Usd;
use phasemeter_terminal::json_escape::Escaped;
use serde::ser::{Serialize, SerializeMap, Serializer};

use super::PlanReport;

/// The value of `schema`; changes with the meaning of any field.
pub const SCHEMA: &str = "phasemeter.plan/0.1";

/// Writes the plan as indented JSON, followed by a newline.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write(report: &PlanReport, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(Escaped(&mut out), report)?;
    writeln!(out)
}

impl Serialize for PlanReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sheet = &self.worksheet;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", SCHEMA)?;
        map.serialize_entry("question", self.question)?;
        map.serialize_entry("summary", &sheet.headline)?;
        map.serialize_entry("result", &Results(sheet))?;
        map.serialize_entry("missing", &missing(sheet))?;
        map.serialize_entry("formulas", &sheet.formulas)?;
        map.serialize_entry("snippets", &sheet.snippets)?;
        map.serialize_entry("prices", &self.prices)?;
        map.serialize_entry("assumptions", &sheet.assumptions)?;
        map.serialize_entry("notes", &sheet.notes)?;
        map.end()
    }
}

/// Values and tables by name.
struct Results<'a>(&'a Worksheet);

impl Serialize for Results<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for value in &self.0.values {
            map.serialize_entry(value.key, &Json(&value.amount))?;
        }
        for table in &self.0.tables {
            map.serialize_entry(table.key, &Rows(table))?;
        }
        map.end()
    }
}

struct Rows<'a>(&'a Table);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.rows.iter().map(|row| Row(self.0, row)))
    }
}

struct Row<'a>(&'a Table, &'a [Amount]);

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = self.0.columns.iter().map(|column| column.key);
        serializer.collect_map(keys.zip(self.1.iter().map(Json)))
    }
}

/// Money is a string with nine decimals, all else a number in the unit of its name.
struct Json<'a>(&'a Amount);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Amount::Usd(amount) | Amount::UsdFine(amount) | Amount::Part { exact: amount, .. } => {
                Usd(*amount).serialize(serializer)
            }
            Amount::Rate(rate) => Usd(rate.hourly()).serialize(serializer),
            Amount::Count(count) | Amount::Bytes(count) => serializer.serialize_u64(*count),
            Amount::Number(number)
            | Amount::Fraction(number)
            | Amount::Hours(number)
            | Amount::Seconds(number) => serializer.serialize_f64(*number),
            Amount::Text(text) => serializer.serialize_str(text),
            Amount::Flag(flag) => serializer.serialize_bool(*flag),
            Amount::Missing(_) => serializer.serialize_none(),
        }
    }
}

/// Why values are null, by the name of the value, or of the table and its column.
fn missing(sheet: &Worksheet) -> BTreeMap<String, &'static str> {
    let values = sheet.values.iter().filter_map(|value| match value.amount {
        Amount::Missing(reason) => Some((value.key.to_owned(), reason)),
        _ => None,
    });
    let cells = sheet.tables.iter().flat_map(|table| {
        let rows = table.rows.iter().flat_map(|row| table.columns.iter().zip(row));
        rows.filter_map(|(column, amount)| match amount {
            Amount::Missing(reason) => Some((format!("{}.{}", table.key, column.key), *reason)),
            _ => None,
        })
    });
    values.chain(cells).collect()
}
