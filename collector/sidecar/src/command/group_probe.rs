//! Which signals were sent to the whole process group, and so to the command as well.
//!
//! The system does not report whether a signal was sent to a process or to its group. The probe is
//! a process in the group that blocks all signals, so those sent to the group are pending for it.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use phasemeter_process::SignalSet;

use phasemeter_cli::GROUP_PROBE;

/// The field with the signals that are pending for a process.
const PENDING: &str = "ShdPnd:";

/// Runs a hidden command of this program, even if its file was replaced.
pub(super) fn own_program(hidden: &str) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0(env!("CARGO_PKG_NAME")).arg(hidden).current_dir("/");
    command
}

/// A running probe.
pub(super) struct GroupProbe {
    process: Child,
    input: ChildStdin,
}

impl GroupProbe {
    /// Starts a probe in this process's group. It inherits the blocked signals.
    pub(super) fn start() -> io::Result<Self> {
        let mut command = own_program(GROUP_PROBE);
        command.env_clear();
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let input = process.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self { process, input })
    }

    /// Whether a signal was sent to the group since the last call for it; `None` if that cannot be
    /// determined.
    pub(super) fn take(&mut self, signal: i32) -> Option<bool> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id())).ok()?;
        let is_pending = pending(&status)? >> (signal - 1) & 1 == 1;
        if is_pending {
            self.input.write_all(&[u8::try_from(signal).ok()?]).ok()?;
        }
        Some(is_pending)
    }

    /// Its process ID.
    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for GroupProbe {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The body of the hidden command: discards one pending signal per byte of standard input, until the
/// process that started it ends.
pub(super) fn probe_main() {
    let signals = io::stdin().lock().bytes().map_while(Result::ok);
    signals.for_each(|signal| SignalSet::of([signal.into()]).discard());
}

/// The pending signals of a process; the lowest bit is signal 1.
fn pending(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix(PENDING))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_signals_are_read_from_status() {
        let status = "SigPnd:\t0000000000000000\nShdPnd:\t8000000000001001\nSigBlk:\t0\n";
        assert_eq!(pending(status), Some(1 << 63 | 1 << 12 | 1));
        assert_eq!(pending("SigPnd:\t1\n"), None);
    }
}
