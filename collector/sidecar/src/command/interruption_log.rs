//! The notices of interruptions of a run, for its report and its telemetry.

use phasemeter_engine::work::{InterruptionLog, ReceivedNotice, UnsavedWork};
use phasemeter_meter::units::Timestamp;
use phasemeter_otlp::encode::InterruptionEvent;
use phasemeter_report::Utc;
use phasemeter_work::interruption::{Cloud, Notice};
use tracing::warn;

use phasemeter_cli::CommandSignal;

/// Notices that are listed in the report.
const MAX_LISTED: usize = 100;

/// The notices of a run.
#[derive(Debug, Default)]
pub(super) struct LiveInterruptions {
    notices: Vec<ReceivedNotice>,
    /// Whether any of them ends the command.
    is_interrupted: bool,
}

impl LiveInterruptions {
    /// Logs and keeps a notice, for which `signal` was sent to the command, and returns its event.
    pub(super) fn receive(
        &mut self,
        at: Timestamp,
        cloud: Cloud,
        notice: &Notice,
        signal: Option<CommandSignal>,
    ) -> InterruptionEvent {
        let (provider, action, due) = (cloud.name(), notice.action.name(), notice.due);
        let signal = signal.map(|signal| format!("SIG{}", signal.name));
        let when = due.map(|due| format!(" at {}", Utc(due))).unwrap_or_default();
        let body = format!("{provider} announces: {action}{when}");
        let sent = signal.as_ref().map(|name| format!("; {name} sent")).unwrap_or_default();
        warn!("{body}{sent}");
        let ends_command = notice.action.ends_command();
        self.is_interrupted |= ends_command;
        if self.notices.len() < MAX_LISTED {
            let signal = signal.clone();
            self.notices.push(ReceivedNotice { at, provider, action, due, signal });
        }
        InterruptionEvent { at, provider, action, ends_command, due, signal, unsaved: None, body }
    }

    /// The notices, and if any of them ends the command, what was `unsaved` at the end.
    pub(super) fn finish(self, unsaved: Option<UnsavedWork>) -> InterruptionLog {
        let lost = unsaved.filter(|_| self.is_interrupted);
        InterruptionLog { notices: self.notices, lost }
    }
}
