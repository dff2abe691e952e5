//! The command comes first: a run waits for it and keeps its status, whatever becomes of metering.
//!
//! Must not depend on what is metered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use phasemeter_otlp::encode::CommandExit;
use phasemeter_process::reap_others;
use phasemeter_rules::compile;
use tracing::warn;

use super::child::Child;
use super::error::CommandError;
use super::signals::{SignalEvent, SignalListener};

/// How often the end of a command is checked for if no signal reports it.
const INTERVAL: Duration = Duration::from_millis(250);

/// Whether what fails is a warning: beside a command, which does not depend on it.
#[derive(Clone, Copy)]
pub(super) struct Optional(pub(super) bool);

impl Optional {
    /// A result; `None` if this machine refuses it in its present state, and that is a warning. Errors of
    /// the command line, and of the files that it names, are errors.
    pub(super) fn result<T>(
        self,
        result: Result<T, CommandError>,
    ) -> Result<Option<T>, CommandError> {
        match result {
            Err(error) if self.0 && error.is_of_system() => {
                warn!("{}; the command runs anyway", error.in_one_line());
                Ok(None)
            }
            result => result.map(Some),
        }
    }
}

/// Runs what may have a fault, which then ends it alone.
pub(super) fn contained<T>(
    run: impl FnOnce() -> Result<T, CommandError>,
) -> Result<T, CommandError> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(CommandError::Panicked))
}

/// Passes an event to the command, if there is one, and reaps other children. Returns how the command
/// has ended, if it has.
pub(super) fn attend(
    child: &mut Child,
    event: Option<SignalEvent>,
) -> Result<Option<CommandExit>, CommandError> {
    if let Some(SignalEvent::Signal(signal)) = event {
        child.forward(signal);
    }
    reap(|pid| child.is(pid));
    // Not only after an event, so that its end cannot be missed.
    child.try_wait()
}

/// Reaps the children that are neither `is_own` nor compile a policy.
pub(super) fn reap(is_own: impl Fn(u32) -> bool) {
    reap_others(|pid| is_own(pid) || compile::is_running(pid));
}

/// Waits for the end of the command, and returns its status.
pub(super) fn wait_for(child: &mut Child, signals: &SignalListener) -> Result<u8, CommandError> {
    let mut event = None;
    loop {
        if let Some(exit) = attend(child, event)? {
            return Ok(exit.code);
        }
        event = signals.next(INTERVAL);
    }
}
