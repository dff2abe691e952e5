//! A running child process and its resource usage.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::BenchError;

/// The unit of CPU time in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// A process, killed when this is dropped.
pub(super) struct Process {
    child: Child,
    program: String,
}

/// Resource usage of a process.
pub(super) struct Used {
    /// User and system time.
    pub(super) cpu: Duration,
    /// Peak resident memory in bytes.
    pub(super) peak: u64,
}

impl Process {
    /// Starts a command with its output in a file.
    pub(super) fn start(command: &mut Command, output: &Path) -> Result<Self, BenchError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let file = File::create(output).map_err(BenchError::at(output))?;
        let errors = file.try_clone().map_err(BenchError::at(output))?;
        let child = command.stdin(Stdio::null()).stdout(file).stderr(errors).spawn();
        match child {
            Ok(child) => Ok(Self { child, program }),
            Err(source) => Err(BenchError::Start { program, source }),
        }
    }

    /// Process ID.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time used so far by all threads.
    pub(super) fn cpu(&self) -> Result<Duration, BenchError> {
        let stat = self.proc("stat")?;
        // The name is in parentheses and may contain anything; the third field follows it.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let ticks: u32 = fields.skip(11).take(2).filter_map(|it| it.parse::<u32>().ok()).sum();
        Ok(TICK * ticks)
    }

    /// Usage since the CPU time was `before`.
    pub(super) fn used_since(&self, before: Duration) -> Result<Used, BenchError> {
        let status = self.proc("status")?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kibibytes = peak.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
        let cpu = self.cpu()?.saturating_sub(before);
        Ok(Used { cpu, peak: kibibytes.unwrap_or_default() * 1024 })
    }

    /// Waits for a successful end.
    pub(super) fn end(mut self) -> Result<(), BenchError> {
        let program = self.program.clone();
        let status = self.child.wait();
        match status.map_err(|source| BenchError::Wait { program: program.clone(), source })? {
            status if status.success() => Ok(()),
            status => Err(BenchError::Failed { program, status }),
        }
    }

    fn proc(&self, name: &str) -> Result<String, BenchError> {
        let path = format!("/proc/{}/{name}", self.id());
        fs::read_to_string(&path).map_err(BenchError::at(Path::new(&path)))
    }
}

/// Ends the process however the bench ends.
impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
