//! The part of a run in progress: where it is to end, and its work.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;

/// Work done, by unit.
type Work = BTreeMap<String, u64>;

/// The part of the run in progress, and the one before it until that is taken.
#[derive(Debug)]
pub(super) struct RunPart {
    /// Where it is to end.
    pub(super) end: Timestamp,
    /// All work that was done before it.
    pub(super) before: Work,
    /// All work that was done before its end, once that is known.
    pub(super) until: Option<Work>,
}

impl RunPart {
    /// Its work, of `all` that was done so far.
    pub(super) fn work(&self, all: &Work) -> Work {
        let until = self.until.as_ref().unwrap_or(all).iter();
        let before = |unit: &String| self.before.get(unit).copied().unwrap_or_default();
        let done = until.map(|(unit, count)| (unit.clone(), count.saturating_sub(before(unit))));
        done.filter(|(_, count)| *count > 0).collect()
    }
}
