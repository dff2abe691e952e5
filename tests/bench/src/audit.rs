//! `phasemeter audit` on a log, as a child process.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::BenchError;
use crate::child::{self, Usage};
use crate::paths::Paths;

/// Audits the log once without policies, for comparison.
pub(crate) fn run(paths: &Paths, log: &Path) -> Result<Usage, BenchError> {
    audit(paths, log, &["--no-default-policies".as_ref()])
}

/// Audits the log once with the default policies and this cache of compiled ones.
pub(crate) fn run_with_policies(
    paths: &Paths,
    log: &Path,
    cache: &Path,
) -> Result<Usage, BenchError> {
    audit(paths, log, &["--policy-cache".as_ref(), cache.as_os_str()])
}

/// Audits the log once without policies, and exports to a file.
pub(crate) fn run_with_export(paths: &Paths, log: &Path) -> Result<Usage, BenchError> {
    let file = paths.file("audit.jsonl");
    // The last one would be refused.
    _ = fs::remove_file(&file);
    audit(paths, log, &["--no-default-policies".as_ref(), "--otlp-file".as_ref(), file.as_os_str()])
}

fn audit(paths: &Paths, log: &Path, options: &[&OsStr]) -> Result<Usage, BenchError> {
    let report = paths.file("audit.json");
    let mut command = Command::new(paths.phasemeter());
    command.arg("audit").arg(log).args(["--format", "json"]).args(options);
    let usage = child::run(&mut command, &report)?;
    match fs::metadata(&report).map_err(BenchError::at(&report))?.len() {
        0 => Err(BenchError::Output { path: report, expected: "a report" }),
        _ => Ok(usage),
    }
}
