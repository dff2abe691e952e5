//! The command whose GPUs are metered.
//!
//! It runs as if nobody stood between it and who started it: its input and output are its own, it
//! gets every signal, and its exit status is passed on. It is never killed, whatever it ignores:
//! that is for who started it. This room must not know of GPUs.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{self, Command, ExitCode, ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use tracing::warn;

use super::Failure;

/// What shells add to the number of the signal that ended a command.
const BY_SIGNAL: i32 = 128;

/// A command that runs. Until its end was seen, its process is there to be signalled.
pub(super) struct Child {
    name: String,
    process: process::Child,
}

impl Child {
    /// Starts a command. `carriers`: what it finds in its environment, or no longer finds.
    pub(super) fn start(
        program: &OsStr,
        arguments: &[OsString],
        carriers: [(&str, Option<String>); 3],
    ) -> Result<Self, Failure> {
        let mut command = Command::new(program);
        command.args(arguments);
        for (variable, value) in carriers {
            match value {
                Some(value) => command.env(variable, value),
                None => command.env_remove(variable),
            };
        }
        let name = program.to_string_lossy().into_owned();
        match command.spawn() {
            Ok(process) => Ok(Self { name, process }),
            Err(source) => Err(Failure::Command { command: name, source }),
        }
    }

    /// How it ended, where it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        let what = "the command cannot be waited for";
        self.process.try_wait().map_err(|source| Failure::System { what, source })
    }

    /// Passes a signal on.
    pub(super) fn signal(&self, signal: Signal) {
        match kill_process(Pid::from_child(&self.process), signal) {
            Ok(()) => {}
            Err(errno) => {
                let (name, error) = (&self.name, io::Error::from(errno));
                let signal = signal.as_raw();
                warn!(signal, "{name} cannot be sent signal {signal}: {error}");
            }
        }
    }
}

/// The status to exit with after it: its own, as a shell would show it.
pub(super) fn exit_code(status: ExitStatus) -> ExitCode {
    let by_signal = || status.signal().map(|signal| BY_SIGNAL + signal);
    let code = status.code().or_else(by_signal).unwrap_or(BY_SIGNAL);
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_what_a_shell_would_show() {
        for (wait_status, code) in [(0, 0), (3 << 8, 3), (255 << 8, 255), (9, 137), (15, 143)] {
            let status = ExitStatus::from_raw(wait_status);
            assert_eq!(exit_code(status), ExitCode::from(code), "{status}");
        }
    }
}
