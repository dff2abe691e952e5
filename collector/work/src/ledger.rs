//! Work done: in all, by hour, and since the last checkpoint.

use std::collections::{BTreeMap, VecDeque};

use phasemeter_meter::instant::hour_of;
use phasemeter_meter::units::Timestamp;

use phasemeter_meter::work_unit::WorkUnit;

/// Counts by unit.
pub type Work = BTreeMap<WorkUnit, u64>;

/// Hours that are kept apart; earlier ones are in the totals only.
const MAX_HOURS: usize = 10 * 366 * 24;

/// Changes that wait for a boundary; beyond it the oldest two are joined.
const MAX_WAITING: usize = 4_096;

/// Work done in a run.
#[derive(Clone, Debug, Default)]
pub struct WorkLedger {
    total: Work,
    by_hour: BTreeMap<Timestamp, Work>,
    unsaved: Work,
    checkpoint: Option<Timestamp>,
    /// Not yet counted before a boundary, in order of arrival.
    waiting: VecDeque<(Timestamp, WorkUnit, u64)>,
    /// What precedes the last boundary.
    before: Work,
}

impl WorkLedger {
    /// Adds work that was done at this instant.
    pub fn add(&mut self, at: Timestamp, unit: WorkUnit, count: u64) {
        if count == 0 {
            return;
        }
        increase(&mut self.total, unit, count);
        increase(&mut self.unsaved, unit, count);
        let hour = hour_of(at);
        if self.by_hour.len() < MAX_HOURS || self.by_hour.contains_key(&hour) {
            increase(self.by_hour.entry(hour).or_default(), unit, count);
        }
        match self.waiting.back_mut() {
            // Reports of the same instant need one entry.
            Some((last, same, sum)) if *last == at && *same == unit => {
                *sum = sum.saturating_add(count);
            }
            _ => self.waiting.push_back((at, unit, count)),
        }
        if self.waiting.len() > MAX_WAITING
            && let Some((_, unit, count)) = self.waiting.pop_front()
        {
            increase(&mut self.before, unit, count);
        }
    }

    /// Records that the work so far is saved.
    pub fn checkpoint(&mut self, at: Timestamp) {
        self.unsaved.clear();
        self.checkpoint = Some(at);
    }

    /// All work.
    #[must_use]
    pub const fn total(&self) -> &Work {
        &self.total
    }

    /// Work by UTC hour.
    #[must_use]
    pub const fn by_hour(&self) -> &BTreeMap<Timestamp, Work> {
        &self.by_hour
    }

    /// Work since the last checkpoint, which an interruption loses.
    #[must_use]
    pub const fn unsaved(&self) -> &Work {
        &self.unsaved
    }

    /// When the last checkpoint was.
    #[must_use]
    pub const fn last_checkpoint(&self) -> Option<Timestamp> {
        self.checkpoint
    }

    /// All work before `boundary`. Boundaries are in time order.
    pub fn until(&mut self, boundary: Timestamp) -> &Work {
        let before = &mut self.before;
        self.waiting.retain(|&(at, unit, count)| {
            let is_before = at < boundary;
            if is_before {
                increase(before, unit, count);
            }
            !is_before
        });
        before
    }
}

fn increase(work: &mut Work, unit: WorkUnit, count: u64) {
    let sum = work.entry(unit).or_default();
    *sum = sum.saturating_add(count);
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Nanos;

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::EPOCH + Nanos::from_secs(seconds)
    }

    #[test]
    fn work_is_counted_in_all_by_hour_and_since_checkpoint() {
        let mut ledger = WorkLedger::default();
        ledger.add(at(10), WorkUnit::Samples, 5);
        ledger.add(at(20), WorkUnit::Steps, 0);
        ledger.checkpoint(at(30));
        ledger.add(at(3_700), WorkUnit::Samples, 7);
        assert_eq!(*ledger.total(), Work::from([(WorkUnit::Samples, 12)]));
        assert_eq!(*ledger.unsaved(), Work::from([(WorkUnit::Samples, 7)]));
        assert_eq!(ledger.by_hour()[&at(0)], Work::from([(WorkUnit::Samples, 5)]));
        assert_eq!(ledger.by_hour()[&at(3_600)], Work::from([(WorkUnit::Samples, 7)]));
        assert_eq!(ledger.last_checkpoint(), Some(at(30)));
    }

    #[test]
    fn boundary_has_the_work_before_it_only() {
        let mut ledger = WorkLedger::default();
        for second in 0..10_000 {
            ledger.add(at(second), WorkUnit::Steps, 1);
        }
        assert_eq!(ledger.until(at(9_990))[&WorkUnit::Steps], 9_990);
        ledger.add(at(9_985), WorkUnit::Steps, 1);
        assert_eq!(ledger.until(at(9_991))[&WorkUnit::Steps], 9_992);
        assert_eq!(ledger.until(at(20_000))[&WorkUnit::Steps], 10_001);
    }
}
