//! Assigns the rows of a log that does not identify its GPUs to them, by their order in each tick.
//!
//! If a row of a tick is missing, the tick is skipped. If ticks stay smaller, a GPU has vanished, and
//! time is unobserved until ticks are complete again.

use std::collections::VecDeque;

use phasemeter_meter::reading::{MissingReason, Reading};
use phasemeter_meter::units::Timestamp;

use super::entry::Entry;
use super::reject_reason::RejectReason;
use super::spacing::Spacing;
use super::ticks::{Tick, TickKind, Ticks};

/// A GPU has vanished after this many successive ticks of the same smaller size.
const VANISHED_AFTER: usize = 10;

/// The ticks of a log that does not identify its GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TickSummary {
    /// Number of ticks.
    pub total: u64,
    /// Number of ticks that were skipped, because the GPUs of their rows are unknown.
    pub incomplete: u64,
    /// The first tick without a GPU that vanished, and its number of rows.
    pub vanished: Option<(Timestamp, usize)>,
}

/// Rows of a log, assigned in ticks.
pub(super) struct RowOrder {
    gpus: usize,
    ticks: Ticks<Entry>,
    divided: Vec<Tick<Entry>>,
    summary: TickSummary,
    /// The size of the latest incomplete ticks, and the start of each until a GPU has vanished.
    size: usize,
    starts: Vec<(Timestamp, u64)>,
}

impl RowOrder {
    /// Rows of `gpus` GPUs with this spacing.
    pub(super) const fn new(gpus: usize, spacing: Spacing) -> Self {
        Self {
            gpus,
            ticks: Ticks::new(gpus, spacing),
            divided: Vec::new(),
            summary: TickSummary { total: 0, incomplete: 0, vanished: None },
            size: 0,
            starts: Vec::new(),
        }
    }

    /// The number of GPUs.
    pub(super) const fn gpus(&self) -> usize {
        self.gpus
    }

    /// The ticks so far.
    pub(super) const fn summary(&self) -> TickSummary {
        self.summary
    }

    /// Adds a row.
    pub(super) fn push(&mut self, entry: Entry) {
        self.ticks.push(entry.reading.at, entry, &mut self.divided);
    }

    /// Whether there are ticks to assign.
    pub(super) const fn has_ticks(&self) -> bool {
        !self.divided.is_empty()
    }

    /// Adds a torn row.
    pub(super) const fn push_torn(&mut self) {
        self.ticks.push_torn();
    }

    /// Ends the log, or starts the tick again after a header.
    pub(super) fn restart(&mut self) {
        self.ticks.restart(&mut self.divided);
    }

    /// Appends the entries that are assigned by now to `ready`, and rejects those that cannot be.
    pub(super) fn assign(
        &mut self,
        ready: &mut VecDeque<Entry>,
        mut reject: impl FnMut(u64, RejectReason),
    ) {
        for tick in std::mem::take(&mut self.divided) {
            self.summary.total += 1;
            let is_partial = tick.kind == TickKind::Incomplete
                || (tick.kind == TickKind::Truncated && tick.rows.len() == self.size);
            if is_partial {
                self.summary.incomplete += 1;
                for entry in tick.rows.iter().flatten() {
                    let (found, expected) = (tick.rows.len(), self.gpus);
                    reject(entry.line, RejectReason::IncompleteTick { found, expected });
                }
                self.record_incomplete(&tick, ready);
            } else {
                (self.size, self.starts) = (0, Vec::new());
                let rows = tick.rows.into_iter().enumerate();
                let assigned = rows.filter_map(|(gpu, row)| Some(Entry { gpu, ..row? }));
                ready.extend(assigned);
            }
        }
    }

    /// Detects that a GPU has vanished. From its first smaller tick on, every GPU has readings without
    /// values.
    fn record_incomplete(&mut self, tick: &Tick<Entry>, ready: &mut VecDeque<Entry>) {
        let Some(first) = tick.rows.iter().flatten().next() else { return };
        let has_vanished = self.starts.len() >= VANISHED_AFTER;
        if tick.rows.len() != self.size && !has_vanished {
            (self.size, self.starts) = (tick.rows.len(), Vec::new());
        }
        if self.size >= self.gpus {
            return;
        }
        let start = (first.reading.at, first.line);
        if has_vanished {
            ready.extend(unobserved(start, self.gpus));
            return;
        }
        self.starts.push(start);
        if self.starts.len() == VANISHED_AFTER {
            let since = self.starts.first().map(|(at, _)| (*at, self.size));
            self.summary.vanished = self.summary.vanished.or(since);
            ready.extend(self.starts.iter().flat_map(|start| unobserved(*start, self.gpus)));
        }
    }
}

/// Readings of all GPUs of a tick whose rows cannot be assigned.
fn unobserved((at, line): (Timestamp, u64), gpus: usize) -> impl Iterator<Item = Entry> {
    let reading = Reading { utilization: Err(MissingReason::Vanished), ..Reading::at(at) };
    (0..gpus).map(move |gpu| Entry { reading, gpu, line, ..Entry::EMPTY })
}
