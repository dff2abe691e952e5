//! What a report states that follows from the source of its run.

use phasemeter_engine::work::{InterruptionLog, WorkByHour};
use phasemeter_savings::trial::Settled;

use super::attribution::Attribution;
use super::rejected_row::RejectedRow;

/// What a report states that follows from the source of its run.
#[derive(Clone, Debug, Default)]
pub struct Provenance {
    /// What was metered: `train.csv`, `3 logs`, `demo, seed 7`.
    pub title: String,
    /// Work done by UTC hour and unit, if known.
    pub work_by_hour: WorkByHour,
    /// What the cloud announced, if that was watched.
    pub interruptions: Option<InterruptionLog>,
    /// The first rejected rows; those beyond [`MAX_REJECTED_ROWS`] are omitted.
    ///
    /// [`MAX_REJECTED_ROWS`]: super::MAX_REJECTED_ROWS
    pub rejected_rows: Vec<RejectedRow>,
    /// Number of rejected rows.
    pub rejected_total: u64,
    /// Assumptions about the input, each a sentence without its full stop.
    pub assumptions: Vec<String>,
    /// Quality of live sampling, in the same form.
    pub sampling: Vec<String>,
    /// How the bill is divided among spans of the workload, if it is.
    pub attribution: Option<Attribution>,
    /// Outcome of OTLP delivery, in the same form.
    pub delivery: Vec<String>,
    /// Whether durations of policies are reported. They are not for reproducible reports.
    pub timed: bool,
    /// The trials of recommendations that were settled.
    pub settled: Vec<Settled>,
}
