//! The command whose GPUs are metered.
//!
//! It runs as if started directly: it inherits input and output, receives every signal, and its exit
//! status is returned. It is never killed; that is up to the caller. Must not depend on GPUs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{self, Command, ExitStatus};

use phasemeter_otlp::encode::CommandExit;
use rustix::process::{Pid, Signal, kill_process};
use tracing::warn;

use super::error::CommandError;

/// Shells add this to the number of the signal that ended a command.
const SIGNAL_OFFSET: i32 = 128;

/// A running command. Its process can be signaled until its exit status has been read.
pub(super) struct Child {
    name: String,
    process: process::Child,
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
        let name = program.to_string_lossy().into_owned();
        match command.spawn() {
            Ok(process) => Ok(Self { name, process }),
            Err(source) => Err(CommandError::Command { command: name, source }),
        }
    }

    /// How it ended, if it has.
    pub(super) fn try_wait(&mut self) -> Result<Option<CommandExit>, CommandError> {
        let failed = |source| CommandError::System { what: "cannot wait for the command", source };
        let status = self.process.try_wait().map_err(failed)?;
        Ok(status.map(|status| CommandExit {
            executable: executable_name(OsStr::new(&self.name)),
            pid: self.process.id(),
            code: exit_code(status),
            signal: status.signal(),
        }))
    }

    /// Forwards a signal.
    pub(super) fn signal(&self, signal: Signal) {
        match kill_process(Pid::from_child(&self.process), signal) {
            Ok(()) => {}
            Err(errno) => {
                let (name, error) = (&self.name, io::Error::from(errno));
                let signal = signal.as_raw();
                warn!(signal, "cannot send signal {signal} to {name}: {error}");
            }
        }
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
