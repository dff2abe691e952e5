//! A child process, run to its end, and what it used.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use wait4::Wait4;

use crate::BenchError;

/// What a process used.
#[derive(Clone, Copy)]
pub(crate) struct Usage {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Most memory resident at once, in bytes. Linux counts no less than this program itself held
    /// when it started the child: about 3 MiB, as long as nothing here reads a log into memory.
    pub(crate) peak: u64,
}

/// Runs it to its end, with what it prints in a file.
pub(crate) fn run(command: &mut Command, output: &Path) -> Result<Usage, BenchError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let file = File::create(output).map_err(BenchError::at(output))?;
    let child = command
        .stdin(Stdio::null())
        .stdout(file)
        .spawn()
        .map_err(|source| BenchError::Start { program: program.clone(), source })?;
    let used =
        child.wait4().map_err(|source| BenchError::Wait { program: program.clone(), source })?;
    if !used.status.success() {
        return Err(BenchError::Failed { program, status: used.status });
    }
    Ok(Usage { cpu: used.rusage.utime + used.rusage.stime, peak: used.rusage.maxrss })
}
