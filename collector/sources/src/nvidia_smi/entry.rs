//! A reading of a log with its GPU, limits and line.
//!
//! Must not depend on how rows are decoded.

use phasemeter_meter::reading::Reading;
use phasemeter_meter::units::Timestamp;

use super::limits::Limits;

/// A reading and its context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) reading: Reading,
    /// The GPU's index in the registry of its log.
    pub(super) gpu: usize,
    pub(super) limits: Limits,
    pub(super) line: u64,
}

impl Entry {
    /// No values, at no time.
    pub(super) const EMPTY: Self =
        Self { reading: Reading::at(Timestamp::EPOCH), gpu: 0, limits: Limits::NONE, line: 0 };
}
