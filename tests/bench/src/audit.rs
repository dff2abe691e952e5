//! `phasemeter audit` on a log, as a child process.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::BenchError;
use crate::child::{self, Usage};
use crate::place::Place;

/// Audits the log once.
pub(crate) fn run(place: &Place, log: &Path) -> Result<Usage, BenchError> {
    let report = place.file("audit.json");
    let mut command = Command::new(place.phasemeter());
    let usage = child::run(command.arg("audit").arg(log).args(["--format", "json"]), &report)?;
    match fs::metadata(&report).map_err(BenchError::at(&report))?.len() {
        0 => Err(BenchError::Output { path: report, what: "a report" }),
        _ => Ok(usage),
    }
}
