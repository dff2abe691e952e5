//! Signals, received on a thread so that a run can wait for a signal with a timeout.
//!
//! Must not depend on how signals are handled.

use std::fs;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;
use signal_hook::iterator::{Handle, SignalsInfo};

/// Where Linux reports the signals that this process ignores.
const STATUS: &str = "/proc/self/status";

/// Signals that request termination.
const TERMINATION: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Signals for a command to handle; batch systems use them to announce its end.
const FOR_COMMANDS: [Signal; 4] = [Signal::QUIT, Signal::USR1, Signal::USR2, Signal::CHILD];

/// Receives signals until it is dropped.
pub(super) struct SignalListener {
    receiver: Receiver<SignalEvent>,
    handle: Handle,
}

/// A signal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalEvent {
    /// A child ended, stopped or continued.
    Child,
    /// A signal was received.
    Signal {
        /// The signal.
        signal: Signal,
        /// Whether it is from the terminal, which also sends it to the command.
        from_terminal: bool,
    },
}

impl SignalListener {
    /// Receives termination signals, and if there is a `command`, those it may handle. Signals that
    /// this process ignores, as set by `nohup`, stay ignored.
    pub(super) fn start(command: bool) -> io::Result<Self> {
        let ignored = ignored(&fs::read_to_string(STATUS).unwrap_or_default());
        let is_ignored = |signal: Signal| ignored >> (signal.as_raw() - 1) & 1 == 1;
        let for_commands = FOR_COMMANDS.into_iter().filter(|_| command);
        let signals = TERMINATION.into_iter().chain(for_commands);
        let signals = signals.filter(|signal| *signal == Signal::CHILD || !is_ignored(*signal));
        let mut signals =
            SignalsInfo::<WithRawSiginfo>::new(signals.map(Signal::as_raw).collect::<Vec<_>>())?;
        let handle = signals.handle();
        let (sender, receiver) = mpsc::channel();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for info in signals.forever() {
                let Some(signal) = Signal::from_named_raw(info.si_signo) else { continue };
                let event = match signal {
                    Signal::CHILD => SignalEvent::Child,
                    // Signals sent by a process have a code of 0 or less.
                    signal => SignalEvent::Signal { signal, from_terminal: info.si_code > 0 },
                };
                if sender.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { receiver, handle })
    }

    /// Waits at most `wait` for the next event.
    pub(super) fn next(&self, wait: Duration) -> Option<SignalEvent> {
        match self.receiver.recv_timeout(wait) {
            Ok(event) => Some(event),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(wait);
                None
            }
        }
    }
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        self.handle.close();
    }
}

/// The mask of ignored signals; the lowest bit is signal 1.
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_status() {
        let status = "SigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored(status), 1 << (Signal::HUP.as_raw() - 1) | 1 << 12);
        assert_eq!(ignored(""), 0);
    }
}
