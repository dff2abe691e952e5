//! Signals, received on a thread so that a run can wait for a signal with a timeout.
//!
//! They are blocked in all other threads, and none is handled asynchronously: no call is interrupted,
//! and nothing changes that a command inherits. Must not depend on how signals are handled.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use phasemeter_process::{ReceivedSignal, SignalSet, die_by, is_ignored_at_launch};
use rustix::process::Signal;

/// Signals that request termination.
const TERMINATION: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Receives signals until it is dropped.
pub(super) struct SignalListener {
    receiver: Receiver<SignalEvent>,
    /// Whether signals are handled.
    is_ready: Arc<AtomicBool>,
}

/// A signal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalEvent {
    /// A child ended, stopped or continued.
    Child,
    /// A signal was received.
    Signal(ReceivedSignal),
}

impl SignalListener {
    /// Receives requests of termination, and if there is a `command`, all signals. Without one,
    /// signals that this process ignores, as set by `nohup`, stay ignored. To be called before other
    /// threads are started.
    pub(super) fn start(command: bool) -> io::Result<Self> {
        let termination = TERMINATION.map(Signal::as_raw).into_iter();
        let signals = match command {
            true => SignalSet::all(),
            false => SignalSet::of(termination.filter(|signal| !is_ignored_at_launch(*signal))),
        };
        signals.block()?;
        let is_ready = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let ready = Arc::clone(&is_ready);
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            loop {
                let signal = signals.receive();
                let event = match signal.number {
                    child if child == Signal::CHILD.as_raw() => SignalEvent::Child,
                    number => {
                        if !ready.load(Ordering::Acquire) {
                            die_by(number);
                        }
                        SignalEvent::Signal(signal)
                    }
                };
                if sender.send(event).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { receiver, is_ready })
    }

    /// From now on signals are handled. Before, they have their default action.
    pub(super) fn ready(&self) {
        self.is_ready.store(true, Ordering::Release);
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
