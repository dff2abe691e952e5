//! A reading of a log with its GPU, limits and line.

use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::Timestamp;

use super::limits::Limits;
use crate::Counts;
use crate::log::clock_jump::Timed;

/// A reading and its context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) reading: Reading,
    /// The GPU's index in the registry of its log; 0 until the order of rows determines it.
    pub(super) gpu: usize,
    pub(super) limits: Limits,
    pub(super) counts: Counts,
    /// The model in a row whose GPU is not yet known.
    pub(super) model: Option<u8>,
    pub(super) line: u64,
}

impl Entry {
    /// No values, at no time.
    pub(super) const EMPTY: Self = Self {
        reading: Reading::at(Timestamp::EPOCH),
        gpu: 0,
        limits: Limits::NONE,
        counts: Counts::NONE,
        model: None,
        line: 0,
    };
}

impl Timed for Entry {
    fn at(&self) -> Timestamp {
        self.reading.at
    }

    fn line(&self) -> u64 {
        self.line
    }
}
