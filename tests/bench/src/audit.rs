//! `phasemeter audit` on a log, as a child process.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::BenchError;
use crate::child::{self, Usage};
use crate::paths::Paths;

/// Audits the log once without policies, for comparison.
pub(crate) fn run(paths: &Paths, log: &Path) -> Result<Usage, BenchError> {
    audit(paths, log, &["--no-default-policies"])
}

/// Audits the log once with the default policies.
pub(crate) fn run_with_policies(paths: &Paths, log: &Path) -> Result<Usage, BenchError> {
    audit(paths, log, &[])
}

/// Audits the log once without policies, and exports to a file.
pub(crate) fn run_with_export(paths: &Paths, log: &Path) -> Result<Usage, BenchError> {
    let file = paths.file("audit.jsonl");
    // The last one would be refused.
    _ = fs::remove_file(&file);
    let file = file.to_string_lossy().into_owned();
    audit(paths, log, &["--no-default-policies", "--otlp-file", &file])
}

fn audit(paths: &Paths, log: &Path, options: &[&str]) -> Result<Usage, BenchError> {
    let report = paths.file("audit.json");
    let mut command = Command::new(paths.phasemeter());
    command.arg("audit").arg(log).args(["--format", "json"]).args(options);
    let usage = child::run(&mut command, &report)?;
    match fs::metadata(&report).map_err(BenchError::at(&report))?.len() {
        0 => Err(BenchError::Output { path: report, expected: "a report" }),
        _ => Ok(usage),
    }
}
