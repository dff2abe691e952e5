//! The report as JSON, by `report.schema.json`.
//!
//! This room must not know what any of it means.

use std::io::{self, Write};

use super::Report;

/// Writes the report, indented, with a line end.
///
/// # Errors
/// Where `out` can't be written to.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut out, report)?;
    writeln!(out)
}
