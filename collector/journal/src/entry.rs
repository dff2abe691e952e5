//! What is in a journal: how a run began, then what changed it.

use std::io;

use phasemeter_engine::pipeline::{Change, EarlierRuns, Pipeline};
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::wall_time::WallOffset;
use serde::{Deserialize, Serialize};

use crate::boot_clock::BootClock;
use crate::differences;
use crate::stream::Decoder;

/// An entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// The first one.
    Begin(Begin),
    /// What changed the run since the entry before, with its state afterwards.
    Step(Step),
    /// The run ended in order.
    End,
}

/// How a run began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The version of the program, which alone makes the run again as it was.
    pub version: String,
    /// Its clock.
    pub clock: BootClock,
    /// The trace of an experiment without one.
    pub trace: [u8; 16],
    /// The start of the experiment.
    pub first: Timestamp,
    /// From when on its GPUs are billed.
    pub billed_from: Timestamp,
    /// The wall time in the names of its reports.
    pub named: Timestamp,
    /// The process in the name of the report that is kept.
    pub process: u32,
    /// What runs before it had billed.
    pub earlier: EarlierRuns,
}

/// What changed a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Without the numbers that are [differences](super::differences).
    changes: Vec<Change>,
    differences: Vec<i64>,
    /// When.
    pub(crate) at: Timestamp,
    /// The clock of the run then.
    pub(crate) clock: BootClock,
    /// The wall clock then.
    pub(crate) wall: WallOffset,
    /// What the run costs after these changes, in nano-dollars: if it is made again, it costs the same.
    pub(crate) cost: i128,
    /// How many requests had left before: they leave only once.
    pub(crate) left: u64,
    /// How many requests were made until then: if the run is made again, it makes as many.
    pub(crate) made: u64,
}

impl Step {
    /// The changes until now, of a run that has made so many requests, of which so many had left before.
    pub(crate) fn new(
        mut changes: Vec<Change>,
        at: Timestamp,
        clock: BootClock,
        pipeline: &Pipeline<'_>,
        (left, made): (u64, u64),
    ) -> Self {
        let differences = differences::take(&mut changes, at);
        let (wall, cost) = (pipeline.wall(), pipeline.bill().0);
        Self { changes, differences, at, clock, wall, cost, left, made }
    }

    /// The state of the run after this step, which changes nothing, with the clock by which it goes on.
    pub(crate) fn going_on(self, clock: BootClock) -> Self {
        Self { changes: Vec::new(), differences: Vec::new(), clock, ..self }
    }

    /// The changes; `None` if they are damaged.
    pub(crate) fn changes(self) -> Option<Vec<Change>> {
        let Self { mut changes, differences, at, .. } = self;
        differences::put_back(&mut changes, at, &differences)?;
        Some(changes)
    }
}

/// What changed a run, of the payloads of its journal, until one that is damaged.
pub fn changes<'a>(payloads: impl Iterator<Item = &'a [u8]>) -> impl Iterator<Item = Vec<Change>> {
    let mut decoder = Decoder::default();
    let entries = payloads.map_while(move |payload| Entry::decode(decoder.decode(payload)?));
    entries.map_while(|entry| match entry {
        Entry::Step(step) => step.changes(),
        Entry::Begin(_) | Entry::End => Some(Vec::new()),
    })
}

impl Entry {
    /// Its bytes in a [stream](super::stream).
    pub(crate) fn encode(&self) -> io::Result<Vec<u8>> {
        postcard::to_allocvec(self).map_err(io::Error::other)
    }

    /// `None` if the bytes are not those of an entry.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}
