//! The overhead of a policy: runs the bench of the policy host through cargo.

use std::process::Command;

use crate::BenchError;

/// Builds and runs it.
pub(crate) fn bench() -> Result<(), BenchError> {
    let mut cargo = Command::new("cargo");
    let bench = cargo.args(["bench", "--locked", "-p", "phasemeter-rules", "--bench", "overhead"]);
    let program = || "cargo bench".to_owned();
    let started = bench.spawn().map_err(|source| BenchError::Start { program: program(), source });
    let status =
        started?.wait().map_err(|source| BenchError::Wait { program: program(), source })?;
    if status.success() { Ok(()) } else { Err(BenchError::Failed { program: program(), status }) }
}
