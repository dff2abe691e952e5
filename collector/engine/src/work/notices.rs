//! What the cloud announced in a run, and the work that was not saved.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;

/// What the cloud announced in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InterruptionLog {
    /// The first notices, in the order in which they were received.
    pub notices: Vec<ReceivedNotice>,
    /// What was not saved at the end, if the command was to be ended.
    pub lost: Option<UnsavedWork>,
}

/// A notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedNotice {
    /// When it was received.
    pub at: Timestamp,
    /// The cloud.
    pub provider: &'static str,
    /// What it announces.
    pub action: &'static str,
    /// When that will happen, in wall time, if known.
    pub due: Option<Timestamp>,
    /// The signal that was sent to the command, if any.
    pub signal: Option<String>,
}

/// Work that was not saved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsavedWork {
    /// The last checkpoint, else the start of the run.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// Whether there was a checkpoint.
    pub has_checkpoint: bool,
    /// The work, by unit.
    pub work: BTreeMap<&'static str, u64>,
}
