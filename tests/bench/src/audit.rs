//! `phasemeter audit` on logs, as a child process.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::BenchError;
use crate::child::{self, Usage};
use crate::paths::Paths;

/// Audits the logs once without policies, for comparison.
pub(crate) fn run(paths: &Paths, logs: &[PathBuf]) -> Result<Usage, BenchError> {
    audit(paths, logs, &["--no-default-policies".as_ref()])
}

/// Audits the logs once with the default policies and this cache of compiled ones.
pub(crate) fn run_with_policies(
    paths: &Paths,
    logs: &[PathBuf],
    cache: &Path,
) -> Result<Usage, BenchError> {
    audit(paths, logs, &["--policy-cache".as_ref(), cache.as_os_str()])
}

/// Audits the logs once without policies, and exports to a file.
pub(crate) fn run_with_export(paths: &Paths, logs: &[PathBuf]) -> Result<Usage, BenchError> {
    audit_with_export(paths, logs, &["--no-default-policies"])
}

/// Audits the logs once with the default policies, and exports to a file.
pub(crate) fn run_with_export_and_policies(
    paths: &Paths,
    logs: &[PathBuf],
) -> Result<Usage, BenchError> {
    audit_with_export(paths, logs, &[])
}

fn audit_with_export(
    paths: &Paths,
    logs: &[PathBuf],
    options: &[&str],
) -> Result<Usage, BenchError> {
    let file = paths.file("audit.jsonl");
    // The last one would be refused.
    _ = fs::remove_file(&file);
    let export = [OsStr::new("--otlp-file"), file.as_os_str()];
    let options = options.iter().map(OsStr::new).chain(export);
    audit(paths, logs, &options.collect::<Vec<&OsStr>>())
}

fn audit(paths: &Paths, logs: &[PathBuf], options: &[&OsStr]) -> Result<Usage, BenchError> {
    let report = paths.file("audit.json");
    let mut command = Command::new(paths.phasemeter());
    command.arg("audit").args(logs).args(["--format", "json"]).args(options);
    let usage = child::run(&mut command, &report)?;
    match fs::metadata(&report).map_err(BenchError::at(&report))?.len() {
        0 => Err(BenchError::Output { path: report, expected: "a report" }),
        _ => Ok(usage),
    }
}
