//! Work that waits until the readings of its time are metered.

use std::collections::BTreeMap;

use phasemeter_meter::units::{Nanos, Timestamp};
use phasemeter_meter::work_group::WorkGroup;

use phasemeter_meter::work_unit::WorkUnit;

/// Seconds of work of a group that are held; beyond it the oldest leave early.
const MAX_HELD: usize = 16_384;

/// Work that was done at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkDone {
    /// The start of its second.
    pub at: Timestamp,
    /// The unit.
    pub unit: WorkUnit,
    /// The group that it is of.
    pub group: WorkGroup,
    /// Its number.
    pub count: u64,
}

/// Holds work by second, unit and group.
#[derive(Clone, Debug)]
pub struct HeldWork {
    hold: Nanos,
    /// With the first arrival.
    held: BTreeMap<(Timestamp, WorkUnit, WorkGroup), (Nanos, u64)>,
}

impl HeldWork {
    /// Holds work for this long after its arrival.
    #[must_use]
    pub const fn new(hold: Nanos) -> Self {
        Self { hold, held: BTreeMap::new() }
    }

    /// Adds work that arrived at this time.
    pub fn add(&mut self, done: WorkDone, arrived: Nanos) {
        let WorkDone { at, unit, group, count } = done;
        let key = (at.floor_second(), unit, group);
        let (_, sum) = self.held.entry(key).or_insert((arrived, 0));
        *sum = sum.saturating_add(count);
    }

    /// Releases the work that has been held long enough, in time order.
    pub fn release(&mut self, now: Nanos) -> Vec<WorkDone> {
        let mut excess = self.held.len().saturating_sub(MAX_HELD);
        let hold = self.hold;
        let due = self.held.extract_if(.., |_, (arrived, _)| {
            let is_due = *arrived + hold <= now || excess > 0;
            excess = excess.saturating_sub(1);
            is_due
        });
        due.map(work_done).collect()
    }

    /// Releases all work, at the end.
    pub fn release_all(&mut self) -> Vec<WorkDone> {
        std::mem::take(&mut self.held).into_iter().map(work_done).collect()
    }
}

fn work_done(
    ((at, unit, group), (_, count)): ((Timestamp, WorkUnit, WorkGroup), (Nanos, u64)),
) -> WorkDone {
    WorkDone { at, unit, group, count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn work(millis: u64, unit: WorkUnit, count: u64) -> WorkDone {
        WorkDone { at: at(millis), unit, group: WorkGroup::default(), count }
    }

    #[test]
    fn work_is_held_by_second_and_unit() {
        let mut held = HeldWork::new(Nanos::from_secs(90));
        held.add(work(5_200, WorkUnit::Tokens, 3), Nanos::from_secs(10));
        held.add(work(5_900, WorkUnit::Tokens, 4), Nanos::from_secs(11));
        held.add(work(4_000, WorkUnit::Steps, 1), Nanos::from_secs(12));
        assert_eq!(held.release(Nanos::from_secs(99)), []);
        assert_eq!(held.release(Nanos::from_secs(100)), [work(5_000, WorkUnit::Tokens, 7)]);
        assert_eq!(held.release_all(), [work(4_000, WorkUnit::Steps, 1)]);
    }

    #[test]
    fn oldest_work_leaves_early_if_there_is_too_much() {
        let mut held = HeldWork::new(Nanos::from_secs(90));
        for second in 0..20_000 {
            held.add(work(second * 1_000, WorkUnit::Steps, 1), Nanos::ZERO);
        }
        let released = held.release(Nanos::ZERO);
        assert_eq!((released.len(), released[0].at), (20_000 - MAX_HELD, at(0)));
        assert_eq!(held.release_all().len(), MAX_HELD);
    }
}
