//! The command comes first: a run waits for it and keeps its status, whatever becomes of metering.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use phasemeter_otlp::encode::CommandExit;
use phasemeter_process::{end_now, reap_others};
use phasemeter_rules::compile;

use super::child::Child;
use super::end_limit::EndLimit;
use super::error::CommandError;
use super::exit_status::EX_OSERR;
use super::signals::{SignalEvent, SignalListener, Terminations, give_up};

/// How often the end of a command is checked for if no signal reports it.
const INTERVAL: Duration = Duration::from_millis(250);

/// Runs what may have a fault, which then ends it alone.
pub(super) fn contained<T>(
    run: impl FnOnce() -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(CommandError::Panicked))
}

/// The command of a run, if there is one, and the signals of both. A thread attends to the command, so
/// that signals reach it and its end is noticed whatever metering does; without one, each call attends.
pub(super) struct Supervision {
    attendant: Attendant,
    terminations: Terminations,
}

enum Attendant {
    /// Without a command.
    Signals(SignalListener),
    /// This thread.
    Calls(Arc<Shared>, SignalListener),
    /// A thread of its own.
    Thread(Arc<Shared>),
}

/// What has happened.
#[derive(Debug)]
pub(super) enum Happened {
    Nothing,
    /// The command has ended.
    Ended(CommandExit),
    /// Without a command, the end of the run was requested.
    Stopped,
    /// Without a command, it was requested that the configuration is read again.
    Reload,
}

struct Shared {
    child: Mutex<Child>,
    /// For the thread.
    signals: Mutex<Option<SignalListener>>,
    /// How the command has ended.
    ended: Mutex<Option<Result<CommandExit, io::ErrorKind>>>,
    has_ended: Condvar,
}

impl Supervision {
    /// Attends to a command from now on.
    pub(super) fn start(child: Option<Child>, signals: SignalListener) -> Self {
        let terminations = signals.terminations();
        let Some(child) = child else {
            return Self { attendant: Attendant::Signals(signals), terminations };
        };
        let shared = Arc::new(Shared {
            child: Mutex::new(child),
            signals: Mutex::new(Some(signals)),
            ended: Mutex::default(),
            has_ended: Condvar::new(),
        });
        let own = Arc::clone(&shared);
        let thread = thread::Builder::new().name("command".to_owned());
        let failed = thread.spawn(move || own.serve()).is_err();
        let left = lock(&shared.signals).take_if(|_| failed);
        match left {
            Some(signals) => Self { attendant: Attendant::Calls(shared, signals), terminations },
            None => {
                let terminations = terminations.received();
                Self { attendant: Attendant::Thread(shared), terminations }
            }
        }
    }

    /// Waits at most for this long until something happens.
    pub(super) fn next(&self, wait: Duration) -> Result<Happened, CommandError> {
        match &self.attendant {
            Attendant::Signals(signals) => match signals.next(wait) {
                Some(SignalEvent::Signal(_)) => Ok(Happened::Stopped),
                Some(SignalEvent::Reload) => Ok(Happened::Reload),
                Some(SignalEvent::Child) | None => {
                    reap(|_| false);
                    Ok(Happened::Nothing)
                }
            },
            Attendant::Calls(shared, signals) => {
                shared.attend(signals.next(wait));
                shared.wait(Duration::ZERO)
            }
            Attendant::Thread(shared) => shared.wait(wait),
        }
    }

    /// Sends a signal to the command, if there is one. Returns whether it could be sent.
    pub(super) fn signal(&self, number: i32) -> bool {
        self.shared().is_some_and(|shared| lock(&shared.child).signal(number))
    }

    /// As of [`Terminations::cut`].
    pub(super) fn cut(&self) -> impl Fn() -> bool + use<> {
        self.terminations.clone().cut()
    }

    /// Waits for the end of the command, and returns its status; `None` if there is none.
    pub(super) fn wait(&self) -> Result<Option<u8>, CommandError> {
        while self.shared().is_some() {
            if let Happened::Ended(exit) = self.next(INTERVAL)? {
                return Ok(Some(exit.code));
            }
        }
        Ok(None)
    }

    const fn shared(&self) -> Option<&Arc<Shared>> {
        match &self.attendant {
            Attendant::Signals(_) => None,
            Attendant::Calls(shared, _) | Attendant::Thread(shared) => Some(shared),
        }
    }
}

impl Shared {
    /// Attends to the command until it ends, and then to the end of this process, which metering may not
    /// delay for long.
    fn serve(&self) {
        let Some(signals) = lock(&self.signals).take() else { return };
        let terminations = signals.terminations();
        let mut end: Option<EndLimit> = None;
        loop {
            self.attend(signals.next(INTERVAL));
            let status = match &*lock(&self.ended) {
                None => continue,
                Some(Ok(exit)) => exit.code,
                Some(Err(_)) => EX_OSERR,
            };
            let (now, requests) = (Instant::now(), terminations.number());
            let limit = end.get_or_insert_with(|| EndLimit::begin(now, requests));
            if limit.is_over(now, requests) {
                give_up();
                end_now(status);
            }
        }
    }

    /// Passes an event to the command, reaps other children, and notes its end.
    fn attend(&self, event: Option<SignalEvent>) {
        let mut child = lock(&self.child);
        let has_ended = lock(&self.ended).is_some();
        if let Some(SignalEvent::Signal(signal)) = event
            && !has_ended
        {
            child.forward(signal);
        }
        reap(|pid| child.is(pid));
        if has_ended {
            return;
        }
        // Not only after an event, so that its end cannot be missed.
        if let Some(ended) = child.try_wait().map_err(|error| error.kind()).transpose() {
            *lock(&self.ended) = Some(ended);
            self.has_ended.notify_all();
        }
    }

    fn wait(&self, at_most: Duration) -> Result<Happened, CommandError> {
        let ended = lock(&self.ended);
        let waited = self.has_ended.wait_timeout_while(ended, at_most, |ended| ended.is_none());
        let (ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let what = "cannot wait for the command";
        match &*ended {
            None => Ok(Happened::Nothing),
            Some(Ok(exit)) => Ok(Happened::Ended(exit.clone())),
            Some(Err(kind)) => Err(CommandError::System { what, source: (*kind).into() }),
        }
    }
}

/// Reaps the children that are neither `is_own` nor compile a policy.
pub(super) fn reap(is_own: impl Fn(u32) -> bool) {
    reap_others(|pid| is_own(pid) || compile::is_running(pid));
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each is consistent between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
