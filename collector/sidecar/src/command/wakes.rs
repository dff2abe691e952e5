//! What wakes a live run beside its own clock: signals.
//!
//! They are received on a thread, so that the run can wait for one and for its next round at the
//! same time. This room must not know what a signal leads to.

use std::fs;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;
use signal_hook::iterator::{Handle, SignalsInfo};

/// Where Linux tells which signals this process ignores.
const STATUS: &str = "/proc/self/status";

/// Those that ask for the end.
const END: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Those that a command may understand in its own way; batch systems announce its end by them.
const FOR_COMMANDS: [Signal; 4] = [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::CHILD];

/// Receives signals until it is dropped.
pub(super) struct Wakes {
    receiver: Receiver<Wake>,
    handle: Handle,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// A child ended, stopped or went on.
    Child,
    /// A signal came.
    Signal {
        /// Which.
        signal: Signal,
        /// It came from the terminal, which sends it to the command as well.
        from_terminal: bool,
    },
}

impl Wakes {
    /// Receives what asks for the end; `command`: and what a command is told. What this process was
    /// told to ignore, as by `nohup`, stays ignored.
    pub(super) fn listen(command: bool) -> io::Result<Self> {
        let ignored = ignored(&fs::read_to_string(STATUS).unwrap_or_default());
        let is_ignored = |signal: Signal| ignored >> (signal.as_raw() - 1) & 1 == 1;
        let for_commands = FOR_COMMANDS.into_iter().filter(|_| command);
        let signals = END.into_iter().chain(for_commands);
        let signals = signals.filter(|signal| *signal == Signal::CHILD || !is_ignored(*signal));
        let mut signals =
            SignalsInfo::<WithRawSiginfo>::new(signals.map(Signal::as_raw).collect::<Vec<_>>())?;
        let handle = signals.handle();
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for info in signals.forever() {
                let Some(signal) = Signal::from_named_raw(info.si_signo) else { continue };
                let wake = match signal {
                    Signal::CHILD => Wake::Child,
                    // A process that sends a signal leaves 0 or less here.
                    signal => Wake::Signal { signal, from_terminal: info.si_code > 0 },
                };
                if sender.send(wake).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { receiver, handle })
    }

    /// Waits for the next, but no longer than `wait`.
    pub(super) fn next(&self, wait: Duration) -> Option<Wake> {
        match self.receiver.recv_timeout(wait) {
            Ok(wake) => Some(wake),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(wait);
                None
            }
        }
    }
}

impl Drop for Wakes {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// The signals that are ignored, a bit each from the lowest for signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nohup_is_seen() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored(status), 1 << (Signal::HUP.as_raw() - 1) | 1 << 12);
        assert_eq!(ignored(""), 0);
    }
}
