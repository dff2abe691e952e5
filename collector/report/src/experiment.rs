//! The experiment of a report.

use std::collections::BTreeMap;

use serde::Serialize;

/// An experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Experiment {
    /// Its ID.
    pub id: String,
    /// W3C trace ID, 32 hex digits; `None` if every session has its own trace.
    pub trace_id: Option<String>,
    /// Resource attributes of the workload: by them a bill is split.
    pub attributes: BTreeMap<String, String>,
}
