//! A running child process, its resource usage, and ports for it.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::BenchError;

/// The unit of CPU time in `/proc`.
const TICK: Duration = Duration::from_millis(10);

/// A process, killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    program: String,
}

/// Resource usage of a process.
pub(crate) struct Used {
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Peak resident memory in bytes.
    pub(crate) peak: u64,
}

impl Process {
    /// Starts a command with its output in a file.
    pub(crate) fn start(command: &mut Command, output: &Path) -> Result<Self, BenchError> {
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
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// CPU time used so far by all threads.
    pub(crate) fn cpu(&self) -> Result<Duration, BenchError> {
        cpu(self.id())
    }

    /// Usage since the CPU time was `before`.
    pub(crate) fn used_since(&self, before: Duration) -> Result<Used, BenchError> {
        let cpu = self.cpu()?.saturating_sub(before);
        Ok(Used { cpu, peak: peak(self.id())? })
    }

    /// Ends it as an orchestrator does, and waits for a successful end.
    pub(crate) fn terminate(self) -> Result<(), BenchError> {
        if let Some(pid) = i32::try_from(self.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM).map_err(|source| BenchError::Wait {
                program: self.program.clone(),
                source: source.into(),
            })?;
        }
        self.end()
    }

    /// Waits for a successful end.
    pub(crate) fn end(mut self) -> Result<(), BenchError> {
        let program = self.program.clone();
        let status = self.child.wait();
        match status.map_err(|source| BenchError::Wait { program: program.clone(), source })? {
            status if status.success() => Ok(()),
            status => Err(BenchError::Failed { program, status }),
        }
    }
}

/// CPU time that a process has used so far, over all threads.
pub(crate) fn cpu(process: u32) -> Result<Duration, BenchError> {
    let stat = proc(process, "stat")?;
    // The name is in parentheses and may contain anything; the third field follows it.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let ticks: u32 = fields.skip(11).take(2).filter_map(|it| it.parse::<u32>().ok()).sum();
    Ok(TICK * ticks)
}

/// Resident memory of a process in bytes.
pub(crate) fn resident(process: u32) -> Result<u64, BenchError> {
    memory(process, "VmRSS:")
}

/// Peak resident memory of a process in bytes.
pub(crate) fn peak(process: u32) -> Result<u64, BenchError> {
    memory(process, "VmHWM:")
}

/// Bytes that a process has sent to the disk so far, in whole pages.
pub(crate) fn written(process: u32) -> Result<u64, BenchError> {
    let io = proc(process, "io")?;
    let bytes = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    Ok(bytes.and_then(|it| it.parse().ok()).unwrap_or_default())
}

fn memory(process: u32, field: &str) -> Result<u64, BenchError> {
    let status = proc(process, "status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    let kibibytes = line.and_then(|it| it.trim().trim_end_matches(" kB").parse::<u64>().ok());
    Ok(kibibytes.unwrap_or_default() * 1024)
}

fn proc(process: u32, name: &str) -> Result<String, BenchError> {
    let path = format!("/proc/{process}/{name}");
    fs::read_to_string(&path).map_err(BenchError::at(Path::new(&path)))
}

/// A local port that was free a moment ago.
pub(crate) fn free_port() -> Result<SocketAddr, BenchError> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(BenchError::Network)?;
    listener.local_addr().map_err(BenchError::Network)
}

/// Ends the process however the bench ends.
impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
