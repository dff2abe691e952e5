//! `phasemeter audit` on a log, as a child process.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::BenchError;
use crate::child::{self, Usage};
use crate::place::Place;

/// Audits the log once, and asks nobody for advice: that is what it is compared with.
pub(crate) fn run(place: &Place, log: &Path) -> Result<Usage, BenchError> {
    audit(place, log, &["--no-default-policies"])
}

/// Audits the log once, and asks the policies that ship.
pub(crate) fn advised(place: &Place, log: &Path) -> Result<Usage, BenchError> {
    audit(place, log, &[])
}

fn audit(place: &Place, log: &Path, options: &[&str]) -> Result<Usage, BenchError> {
    let report = place.file("audit.json");
    let mut command = Command::new(place.phasemeter());
    command.arg("audit").arg(log).args(["--format", "json"]).args(options);
    let usage = child::run(&mut command, &report)?;
    match fs::metadata(&report).map_err(BenchError::at(&report))?.len() {
        0 => Err(BenchError::Output { path: report, what: "a report" }),
        _ => Ok(usage),
    }
}
