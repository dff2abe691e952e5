//! Signals, received on a thread, so that one that comes before they are handled has its default action.
//!
//! They are blocked in all other threads, and none is handled asynchronously: no call is interrupted,
//! and nothing changes that a command inherits. Must not depend on how signals are handled.

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use phasemeter_process::{ReceivedSignal, SignalSet, die_by, is_ignored_at_launch};
use rustix::process::Signal;

/// Signals that request termination.
const TERMINATION: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// Receives signals until it is dropped.
pub(super) struct SignalListener {
    signals: SignalSet,
    /// `None` if no thread could be started. Then signals wait until this thread receives them.
    receiver: Option<Receiver<SignalEvent>>,
    /// Whether signals are handled.
    is_ready: Arc<AtomicBool>,
    /// Requests of termination so far.
    terminations: Cell<u32>,
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
        let started = thread::Builder::new().name("signals".to_owned()).spawn(move || {
            loop {
                let signal = signals.receive();
                if !ready.load(Ordering::Acquire) {
                    act_by_default(signal);
                }
                if sender.send(SignalEvent::of(signal)).is_err() {
                    return;
                }
            }
        });
        let receiver = started.is_ok().then_some(receiver);
        Ok(Self { signals, receiver, is_ready, terminations: Cell::new(0) })
    }

    /// From now on signals are handled. Before, they have their default action.
    pub(super) fn ready(&self) {
        self.is_ready.store(true, Ordering::Release);
        if self.receiver.is_none() {
            while let Some(signal) = self.signals.receive_within(Duration::ZERO) {
                act_by_default(signal);
            }
        }
    }

    /// Waits at most `wait` for the next event.
    pub(super) fn next(&self, wait: Duration) -> Option<SignalEvent> {
        let event = match &self.receiver {
            Some(receiver) => receiver.recv_timeout(wait).ok(),
            None => self.signals.receive_within(wait).map(SignalEvent::of),
        };
        if let Some(SignalEvent::Signal(signal)) = event
            && TERMINATION.map(Signal::as_raw).contains(&signal.number)
        {
            self.terminations.set(self.terminations.get().saturating_add(1));
        }
        event
    }

    /// Whether the end of the run, which begins now, is requested to be cut short: by a request of
    /// termination that is not the first one.
    pub(super) fn cut(&self) -> impl Fn() -> bool {
        let requests = || {
            while self.next(Duration::ZERO).is_some() {}
            self.terminations.get()
        };
        let before = requests().max(1);
        move || requests() > before
    }
}

impl SignalEvent {
    fn of(signal: ReceivedSignal) -> Self {
        if signal.number == Signal::CHILD.as_raw() { Self::Child } else { Self::Signal(signal) }
    }
}

/// Ends this process, if the signal does that.
fn act_by_default(signal: ReceivedSignal) {
    if signal.number != Signal::CHILD.as_raw() {
        die_by(signal.number);
    }
}
