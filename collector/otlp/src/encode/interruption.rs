//! The event of a notice that the cloud will interrupt the machine.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};

use super::events::{Event, Severity};
use super::values::{number, text, whole};
use crate::names::{attribute, event};

/// A notice of an interruption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterruptionEvent {
    /// When it was received.
    pub at: Timestamp,
    /// The cloud.
    pub provider: &'static str,
    /// What will happen.
    pub action: &'static str,
    /// Whether that ends the command.
    pub ends_command: bool,
    /// When it will happen, in wall time, if known.
    pub due: Option<Timestamp>,
    /// The signal that was sent to the command, if any.
    pub signal: Option<String>,
    /// Unsaved work, if the workload reports work or checkpoints.
    pub unsaved: Option<UnsavedWorkCost>,
    /// Its description.
    pub body: String,
}

/// Work since the last checkpoint, or since the start of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsavedWorkCost {
    /// Its time.
    pub duration: Nanos,
    /// What the GPUs cost in that time; `None` if any is unpriced.
    pub cost: Option<NanoUsd>,
    /// The work, by unit.
    pub work: Vec<(&'static str, u64)>,
}

impl Event {
    /// The event of a notice that was received at `wall`, in wall time.
    pub(super) fn from_interruption(event: &InterruptionEvent, wall: Timestamp) -> Self {
        let seconds = |name, time: Nanos| number(name, time.as_secs_f64());
        let mut attributes = vec![
            text("cloud.provider", event.provider),
            text(attribute::INTERRUPTION_ACTION, event.action),
        ];
        let left = event.due.map(|due| due.since(wall));
        attributes.extend(left.map(|left| seconds(attribute::INTERRUPTION_TIME_LEFT, left)));
        let signal = event.signal.as_deref();
        attributes.extend(signal.map(|signal| text(attribute::INTERRUPTION_SIGNAL, signal)));
        if let Some(UnsavedWorkCost { duration, cost, work }) = &event.unsaved {
            attributes.push(seconds(attribute::INTERRUPTION_UNSAVED_DURATION, *duration));
            let cost = cost.map(|cost| number(attribute::INTERRUPTION_UNSAVED_COST, cost.as_f64()));
            attributes.extend(cost);
            let work = work.iter();
            attributes.extend(work.map(|(unit, count)| {
                whole(&format!("phasemeter.interruption.unsaved.{unit}"), *count)
            }));
        }
        Self {
            name: event::INTERRUPTION_ANNOUNCED,
            severity: if event.ends_command { Severity::Warn } else { Severity::Info },
            body: event.body.clone(),
            attributes,
        }
    }
}
