//! Receives signals on a thread. Until they are handled, they have their default action.
//!
//! They are blocked in all other threads, and none is handled asynchronously: no call is interrupted,
//! and nothing changes that a command inherits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_process::{ReceivedSignal, SignalSet, die_by, end_now, is_ignored_at_launch};
use rustix::process::Signal;
use tracing::error;

use super::end_limit::EndLimit;
use super::error::CommandError;
use super::exit_status::SIGNAL_OFFSET;
use crate::standard_error;

/// Signals that request termination.
const TERMINATION: [Signal; 3] = [Signal::INT, Signal::TERM, Signal::HUP];

/// How often the limit of an end is checked.
const INTERVAL: Duration = Duration::from_millis(250);

/// How long the last line waits for its reader.
const LAST_FLUSH: Duration = Duration::from_millis(500);

/// Receives signals until it is dropped.
pub(super) struct SignalListener {
    signals: SignalSet,
    /// `None` if no thread could be started. Then signals wait until this thread receives them.
    receiver: Option<Receiver<SignalEvent>>,
    /// Whether signals are handled.
    is_ready: Arc<AtomicBool>,
    terminations: Terminations,
    hang_up: HangUp,
}

/// What SIGHUP requests that another process sends. That of a terminal that is gone requests termination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HangUp {
    /// Termination.
    Ends,
    /// That the configuration is read again.
    Reloads,
}

/// Requests of termination so far.
#[derive(Clone)]
pub(super) struct Terminations {
    count: Arc<AtomicU32>,
    /// What no thread receives.
    waiting: Option<SignalSet>,
}

/// A signal event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SignalEvent {
    /// A child ended, stopped or continued.
    Child,
    /// The configuration is to be read again.
    Reload,
    /// A signal was received.
    Signal(ReceivedSignal),
}

impl SignalListener {
    /// Receives requests of termination, and if there is a `command`, all signals. Without one,
    /// signals that this process ignores, as set by `nohup`, stay ignored, and a request of termination is
    /// one of this process, which ends in limited time. To be called before other threads are started.
    pub(super) fn start(command: bool, hang_up: HangUp) -> Result<Self, CommandError> {
        let termination = TERMINATION.map(Signal::as_raw).into_iter();
        let signals = match command {
            true => SignalSet::all(),
            false => SignalSet::of(termination.filter(|signal| !is_ignored_at_launch(*signal))),
        };
        signals.block().map_err(CommandError::system("cannot listen for signals"))?;
        let is_ready = Arc::new(AtomicBool::new(false));
        let mut terminations = Terminations { count: Arc::default(), waiting: None };
        let (sender, receiver) = mpsc::channel();
        let thread = Thread {
            signals,
            is_ready: Arc::clone(&is_ready),
            terminations: terminations.clone(),
            sender,
            limits_end: !command,
            hang_up,
        };
        let started = thread::Builder::new().name("signals".to_owned()).spawn(move || thread.run());
        let receiver = started.is_ok().then_some(receiver);
        terminations.waiting = receiver.is_none().then_some(signals);
        Ok(Self { signals, receiver, is_ready, terminations, hang_up })
    }

    /// From now on signals are handled. Before, they have their default action.
    pub(super) fn ready(&self) {
        self.is_ready.store(true, Ordering::Release);
        if self.receiver.is_none() {
            while let Some(signal) = self.signals.receive_within(Duration::ZERO) {
                if SignalEvent::of(signal, self.hang_up) != SignalEvent::Reload {
                    act_by_default(signal);
                }
            }
        }
    }

    /// Waits at most `wait` for the next event.
    pub(super) fn next(&self, wait: Duration) -> Option<SignalEvent> {
        match &self.receiver {
            Some(receiver) => receiver.recv_timeout(wait).ok(),
            None => {
                let signal = self.signals.receive_within(wait)?;
                let event = SignalEvent::of(signal, self.hang_up);
                self.terminations.count(event);
                Some(event)
            }
        }
    }

    /// Requests of termination so far.
    pub(super) fn terminations(&self) -> Terminations {
        self.terminations.clone()
    }

    /// As of [`Terminations::cut`].
    pub(super) fn cut(&self) -> impl Fn() -> bool + use<> {
        self.terminations().cut()
    }
}

impl Terminations {
    /// Their number.
    pub(super) fn number(&self) -> u32 {
        while let Some(signal) = self.waiting.and_then(|it| it.receive_within(Duration::ZERO)) {
            self.count(SignalEvent::Signal(signal));
        }
        self.count.load(Ordering::Acquire)
    }

    /// The same, which a thread now receives.
    pub(super) fn received(self) -> Self {
        Self { waiting: None, ..self }
    }

    /// Whether the end of the run, which begins now, is requested to be cut short: by a request of
    /// termination that is not the first one.
    pub(super) fn cut(self) -> impl Fn() -> bool + use<> {
        let before = self.number().max(1);
        move || self.number() > before
    }

    fn count(&self, event: SignalEvent) {
        if let SignalEvent::Signal(signal) = event
            && TERMINATION.map(Signal::as_raw).contains(&signal.number)
        {
            self.count.fetch_add(1, Ordering::AcqRel);
        }
    }
}

/// The thread that receives signals.
struct Thread {
    signals: SignalSet,
    is_ready: Arc<AtomicBool>,
    terminations: Terminations,
    sender: Sender<SignalEvent>,
    limits_end: bool,
    hang_up: HangUp,
}

impl Thread {
    fn run(&self) {
        // The end that has begun, and by which signal.
        let mut end: Option<(EndLimit, i32)> = None;
        loop {
            let signal = match end {
                None => Some(self.signals.receive()),
                Some(_) => self.signals.receive_within(INTERVAL),
            };
            if let Some(signal) = signal {
                let event = SignalEvent::of(signal, self.hang_up);
                if !self.is_ready.load(Ordering::Acquire) && event != SignalEvent::Reload {
                    act_by_default(signal);
                }
                self.terminations.count(event);
                if self.sender.send(event).is_err() {
                    return;
                }
                if event == SignalEvent::Reload {
                    continue;
                }
                if self.limits_end && end.is_none() {
                    end = Some((EndLimit::begin(Instant::now(), 1), signal.number));
                }
            }
            if let Some((limit, number)) = &mut end
                && limit.is_over(Instant::now(), self.terminations.number())
            {
                give_up();
                die_by(*number);
                end_now(u8::try_from(SIGNAL_OFFSET + *number).unwrap_or(u8::MAX));
            }
        }
    }
}

impl SignalEvent {
    fn of(signal: ReceivedSignal, hang_up: HangUp) -> Self {
        let reloads = hang_up == HangUp::Reloads && signal.sender.is_some();
        match signal.number {
            number if number == Signal::CHILD.as_raw() => Self::Child,
            number if number == Signal::HUP.as_raw() && reloads => Self::Reload,
            _ => Self::Signal(signal),
        }
    }
}

/// Logs that the process ends although its pipeline has not.
pub(super) fn give_up() {
    error!("metering did not end in time; its report is missing, and telemetry may be undelivered");
    let _ = standard_error::flush(LAST_FLUSH, || false);
}

/// Ends this process, if the signal does that.
fn act_by_default(signal: ReceivedSignal) {
    if signal.number != Signal::CHILD.as_raw() {
        die_by(signal.number);
    }
}
