//! The command whose GPUs are metered.
//!
//! It runs as if started directly: it inherits input, output and the signals that the launcher ignored
//! or blocked, receives every signal once, and its exit status is returned. It is never killed; that is
//! up to the caller.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{self, Command, ExitStatus};

use phasemeter_otlp::encode::CommandExit;
use phasemeter_process::{ReceivedSignal, inherit_launch, is_in_own_group, send};
use rustix::process::Signal;
use tracing::warn;

use super::error::CommandError;
use super::exit_status::SIGNAL_OFFSET;
use super::group_probe::GroupProbe;

/// Signals by which the kernel reports what the receiver itself has done.
const OWN_ACTS: [Signal; 3] = [Signal::SYS, Signal::XCPU, Signal::XFSZ];

/// A running command. Its process can be signaled until its exit status has been read.
pub(super) struct Child {
    name: String,
    process: process::Child,
    /// `None` if it cannot be started.
    probe: Option<GroupProbe>,
}

impl Child {
    /// Starts a command. Each variable of `environment` is set, or removed if `None`.
    pub(super) fn start(
        program: &OsStr,
        arguments: &[OsString],
        environment: Vec<(&str, Option<String>)>,
    ) -> Result<Self, CommandError> {
        let mut command = Command::new(program);
        command.args(arguments);
        for (variable, value) in environment {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        inherit_launch(&mut command);
        let name = program.to_string_lossy().into_owned();
        let process = match command.spawn() {
            Ok(process) => process,
            Err(source) => return Err(CommandError::Command { command: name, source }),
        };
        let probe = GroupProbe::start();
        let probe = probe.inspect_err(|error| {
            warn!("signals to the process group may reach {name} twice: {error}");
        });
        Ok(Self { name, process, probe: probe.ok() })
    }

    /// Replaces this process by a command, for a system that refuses another one. Returns only if
    /// that is impossible.
    pub(super) fn replace(program: &OsStr, arguments: &[OsString]) -> CommandError {
        let mut command = Command::new(program);
        command.args(arguments);
        inherit_launch(&mut command);
        let (command, source) = (program.to_string_lossy().into_owned(), command.exec());
        CommandError::Command { command, source }
    }

    /// How it ended, if it has.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<CommandExit>> {
        let status = self.process.try_wait()?;
        Ok(status.map(|status| CommandExit {
            executable: executable_name(OsStr::new(&self.name)),
            pid: self.process.id(),
            code: exit_code(status),
            signal: status.signal(),
        }))
    }

    /// Whether it or its probe is this process.
    pub(super) fn is(&self, pid: u32) -> bool {
        pid == self.process.id() || self.probe.as_ref().is_some_and(|probe| probe.id() == pid)
    }

    /// Forwards a signal, unless the command has received it itself.
    pub(super) fn forward(&mut self, signal: ReceivedSignal) {
        let ReceivedSignal { number, sender } = signal;
        let is_own = match sender {
            Some(sender) => sender == process::id(),
            None => OWN_ACTS.map(Signal::as_raw).contains(&number),
        };
        if is_own || self.was_sent_to_group(signal) && self.is_in_group() {
            return;
        }
        self.signal(number);
    }

    /// Sends a signal to it. Returns whether it could be sent.
    pub(super) fn signal(&self, number: i32) -> bool {
        let sent = send(self.process.id(), number).inspect_err(|error| {
            let name = &self.name;
            warn!(signal = number, "cannot send signal {number} to {name}: {error}");
        });
        sent.is_ok()
    }

    /// Whether a signal was sent to the group of this process.
    fn was_sent_to_group(&mut self, ReceivedSignal { number, sender }: ReceivedSignal) -> bool {
        let probed = self.probe.as_mut().and_then(|probe| probe.take(number));
        // The kernel sends signals of a terminal to the group.
        probed.unwrap_or(sender.is_none())
    }

    /// Whether the command is in the process group of this process.
    fn is_in_group(&self) -> bool {
        is_in_own_group(self.process.id())
    }
}

/// Its exit status, as a shell reports it.
fn exit_code(status: ExitStatus) -> u8 {
    let by_signal = || status.signal().map(|signal| SIGNAL_OFFSET + signal);
    let code = status.code().or_else(by_signal).unwrap_or(SIGNAL_OFFSET);
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// The name of an executable: the last component of its path.
pub(super) fn executable_name(program: &OsStr) -> String {
    Path::new(program).file_name().unwrap_or(program).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_matches_shell() {
        for (wait_status, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143)] {
            let status = ExitStatus::from_raw(wait_status);
            assert_eq!(exit_code(status), code, "{status}");
        }
    }
}
