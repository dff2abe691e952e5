//! The report as JSON, as specified by `report.schema.json`.

use std::io::{self, Write};

use phasemeter_terminal::json_escape::Escaped;

use super::model::Report;

/// Writes the report as indented JSON, followed by a newline.
///
/// # Errors
/// Returns an error if `out` cannot be written to.
pub fn write(report: &Report, mut out: impl Write) -> io::Result<()> {
    serde_json::to_writer_pretty(Escaped(&mut out), report)?;
    writeln!(out)
}
