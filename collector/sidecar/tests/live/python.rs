//! Python, in which the workloads of some tests are written.

use std::env;
use std::io::{self, Write};
use std::process::Command;
use std::thread;

/// Runs Python; `None` if there is none, and the test that calls this is reported as skipped. If CI is
/// set, that fails.
pub(crate) fn python() -> Option<&'static str> {
    let python = "python3";
    if Command::new(python).arg("--version").output().is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let test = thread::current().name().unwrap_or("a test").to_owned();
    let skipped = format!("\nSKIPPED: {test}: no Python, in which its workload is written\n");
    assert!(env::var_os("CI").is_none_or(|ci| ci.is_empty()), "{skipped}");
    // Not by `eprintln!`: the test harness captures that.
    io::stderr().write_all(skipped.as_bytes()).unwrap();
    None
}
