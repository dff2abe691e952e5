//! Runs a child process to completion and returns its resource usage.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wait4::Wait4;

use crate::BenchError;

/// Resource usage of a process.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Time from start to end.
    pub(crate) wall: Duration,
    /// Peak resident memory in bytes. Linux reports at least what this program held when it started
    /// the child: about 3 MiB, as long as nothing here reads a log into memory.
    pub(crate) peak: u64,
}

/// Runs a command to completion with its output in a file.
pub(crate) fn run(command: &mut Command, output: &Path) -> Result<Usage, BenchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let file = File::create(output).map_err(BenchError::at(output))?;
    let start = Instant::now();
    let child = command
        .stdin(Stdio::null())
        .stdout(file)
        .spawn()
        .map_err(|source| BenchError::Start { program: program.clone(), source })?;
    let used =
        child.wait4().map_err(|source| BenchError::Wait { program: program.clone(), source })?;
    let wall = start.elapsed();
    if !used.status.success() {
        return Err(BenchError::Failed { program, status: used.status });
    }
    Ok(Usage { cpu: used.rusage.utime + used.rusage.stime, wall, peak: used.rusage.maxrss })
}
