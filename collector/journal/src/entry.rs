//! What is in a journal: how a run began, then what changed it.

use std::io;

use phasemeter_engine::pipeline::Change;
use phasemeter_meter::units::{Nanos, Timestamp};
use serde::{Deserialize, Serialize};

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
    /// The boot of its machine, if known.
    pub boot_id: Option<String>,
    /// Time since boot at the start of its clock.
    pub boot: Nanos,
    /// Wall time at the start of its clock.
    pub wall: Timestamp,
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
}

/// What changed a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Step {
    /// Without the numbers that are [differences](super::differences).
    changes: Vec<Change>,
    differences: Vec<i64>,
    /// When.
    pub(crate) at: Timestamp,
    /// What the run costs after these changes, in nano-dollars: if it is made again, it costs the same.
    pub(crate) cost: i128,
    /// How many requests had left before: they leave only once.
    pub(crate) left: u64,
    /// How many requests were made until then: if the run is made again, it makes as many.
    pub(crate) made: u64,
}

impl Step {
    pub(crate) fn new(
        mut changes: Vec<Change>,
        at: Timestamp,
        cost: i128,
        left: u64,
        made: u64,
    ) -> Self {
        let differences = differences::take(&mut changes, at);
        Self { changes, differences, at, cost, left, made }
    }

    /// The state of the run after this step, which changes nothing.
    pub(crate) fn without_changes(self) -> Self {
        Self { changes: Vec::new(), differences: Vec::new(), ..self }
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
