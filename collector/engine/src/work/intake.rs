//! Passes reports of the workload to the pipeline, and keeps work by hour.

use std::time::Duration;

use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_group::WorkGroup;
use phasemeter_otlp::experiment::TraceParentError;
use phasemeter_work::held::WorkDone;
use phasemeter_work::ledger::{Work, WorkLedger};
use phasemeter_work::message::Message;
use tracing::warn;

use super::socket::{Report, Reports, WorkSocket};
use super::{UnsavedWork, WorkByHour};
use crate::pipeline::Pipeline;

/// How long the end of a run waits for reports that are on their way.
const GRACE: Duration = Duration::from_millis(250);

/// The reports of a workload.
#[derive(Debug, Default)]
pub struct WorkIntake {
    socket: Option<WorkSocket>,
    ledger: WorkLedger,
    rejected: u64,
    has_experiments: bool,
}

impl WorkIntake {
    /// Takes reports from a socket, if there is one.
    pub fn new(socket: Option<WorkSocket>) -> Self {
        Self { socket, ..Self::default() }
    }

    /// Passes what was reported since the last call to the pipeline.
    pub fn take(&mut self, pipeline: &mut Pipeline<'_>) {
        let Some(socket) = &self.socket else { return };
        let Reports { messages, errors, rejected } = socket.take();
        for error in errors {
            warn!("work socket: line rejected: {error}");
        }
        self.rejected += rejected;
        for Report { at, writer, message } in messages {
            match message {
                Message::Work { unit, count } => {
                    self.ledger.add(at, unit, count);
                    if count > 0 {
                        pipeline.record_work(at, unit.name(), &WorkGroup::default(), count);
                    }
                }
                Message::Checkpoint => self.ledger.checkpoint(at),
                Message::Begin { id, traceparent } => {
                    self.has_experiments = true;
                    let given = traceparent.and_then(|text| match text.parse() {
                        Ok(context) => Some(context),
                        Err(error) => {
                            let error: TraceParentError = error;
                            warn!("experiment {id}: traceparent ignored: {}", error.expected());
                            None
                        }
                    });
                    pipeline.begin_experiment(writer, at, id, given);
                }
                Message::Tag { key, value } => pipeline.tag_experiment(writer, key, value),
                Message::End => pipeline.end_experiment(writer, at),
            }
        }
    }

    /// Waits for what the command has written, after its end.
    pub fn settle(&self) {
        self.socket.iter().for_each(|socket| socket.settle(GRACE));
    }

    /// A note on rejected lines, if there are any.
    pub fn note(&self) -> Option<String> {
        let some = self.rejected;
        (some > 0).then(|| format!("{some} lines of the work socket were rejected"))
    }

    /// Work since the last checkpoint, else since `start`, until `until`. `None` if the workload reports
    /// neither work nor checkpoints.
    pub fn unsaved(&self, start: Timestamp, until: Timestamp) -> Option<UnsavedWork> {
        let checkpoint = self.ledger.last_checkpoint();
        if checkpoint.is_none() && self.ledger.total().is_empty() {
            return None;
        }
        let work = self.ledger.unsaved().iter().map(|(unit, count)| (unit.name(), *count));
        Some(UnsavedWork {
            since: checkpoint.unwrap_or(start),
            until,
            has_checkpoint: checkpoint.is_some(),
            work: work.collect(),
        })
    }

    /// When the workload reported its last checkpoint, if it has.
    pub fn last_checkpoint(&self) -> Option<Timestamp> {
        self.ledger.last_checkpoint()
    }

    /// Whether the workload has begun an experiment.
    pub const fn has_experiments(&self) -> bool {
        self.has_experiments
    }

    /// Work by UTC hour.
    pub fn by_hour(&self) -> WorkByHour {
        by_hour(&self.ledger)
    }

    /// Records work that was counted.
    pub fn record(&mut self, pipeline: &mut Pipeline<'_>, done: &WorkDone) {
        let WorkDone { at, unit, group, count } = done;
        self.ledger.add(*at, *unit, *count);
        pipeline.record_work(*at, unit.name(), group, *count);
    }
}

/// The work of a ledger by UTC hour.
pub fn by_hour(ledger: &WorkLedger) -> WorkByHour {
    let named = |work: &Work| {
        let counts = work.iter();
        counts.map(|(unit, count)| (unit.name().to_owned(), *count)).collect()
    };
    ledger.by_hour().iter().map(|(hour, work)| (*hour, named(work))).collect()
}
