//! Who was granted a GPU from when on: assignments that wait for their time, and the one that applies.

use std::collections::VecDeque;

use super::parts::Parts;
use super::row_id::RowId;
use crate::holder::Share;
use crate::units::Timestamp;

/// Maximum number of assignments that wait for their time.
const MAX_WAITING: usize = 4_096;

/// From an instant on, exactly these hold the GPU: rows, each with its share if that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) from: Timestamp,
    pub(super) grants: Vec<(RowId, Option<Share>)>,
    /// The shares of those that have no row: what they leave others is the same.
    pub(super) of_others: Vec<Option<Share>>,
}

/// What decides the parts of all.
type Shares<'a> = (&'a [(RowId, Option<Share>)], &'a [Option<Share>]);

impl Assignment {
    fn shares(&self) -> Shares<'_> {
        (&self.grants, &self.of_others)
    }

    /// The parts of its grants.
    pub(super) fn parts(&self) -> Parts {
        let shares = self.grants.iter().map(|grant| grant.1).chain(self.of_others.iter().copied());
        let Parts { mut parts, denominator } = Parts::of(&shares.collect::<Vec<_>>());
        parts.truncate(self.grants.len());
        Parts { parts, denominator }
    }

    /// Whether one holder was granted the whole GPU.
    pub(super) fn is_exclusive(&self) -> bool {
        let Some((first, _)) = self.grants.first() else { return false };
        let is_known = |grant: &(RowId, Option<Share>)| grant.0 == *first && grant.1.is_some();
        let parts = self.parts();
        self.grants.iter().all(is_known) && parts.parts.iter().sum::<u64>() == parts.denominator
    }
}

/// The assignment that applies to the time that is charged next, and later ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Assignments {
    /// `None` before the first.
    current: Option<Assignment>,
    /// In time order.
    waiting: VecDeque<Assignment>,
}

impl Assignments {
    /// Adds an assignment. One at the same instant is replaced. Returns false if too many wait.
    pub(super) fn push(&mut self, assignment: Assignment) -> bool {
        let at = self.waiting.partition_point(|waiting| waiting.from < assignment.from);
        if let Some(same) = self.waiting.get_mut(at).filter(|it| it.from == assignment.from) {
            *same = assignment;
            return true;
        }
        if self.waiting.len() >= MAX_WAITING {
            return false;
        }
        self.waiting.insert(at, assignment);
        true
    }

    /// Makes the last assignment up to `at` the current one. Returns it if the grants are others than before. One that
    /// repeats the grants before it begins with these.
    pub(super) fn advance(&mut self, at: Timestamp) -> Option<&Assignment> {
        let mut changes = false;
        while let Some(next) = self.waiting.pop_front_if(|next| next.from <= at) {
            if self.current.is_none() || next.shares() != shares(self.current.as_ref()) {
                changes |= next.shares() != shares(self.current.as_ref());
                self.current = Some(next);
            }
        }
        self.current.as_ref().filter(|_| changes)
    }

    /// The assignment at an instant that is not charged, the first of those that repeat it; `None` before the first.
    pub(super) fn at(&self, at: Timestamp) -> Option<&Assignment> {
        let up_to = |count: usize| {
            count.checked_sub(1).map_or(self.current.as_ref(), |last| self.waiting.get(last))
        };
        let mut count = self.waiting.partition_point(|waiting| waiting.from <= at);
        while count > 0
            && up_to(count).map(Assignment::shares) == up_to(count - 1).map(Assignment::shares)
        {
            count -= 1;
        }
        up_to(count)
    }

    /// The first instant after `at` at which the grants change.
    pub(super) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let later = self.waiting.iter().skip(self.waiting.partition_point(|it| it.from <= at));
        let mut before = shares(self.at(at));
        for next in later {
            if next.shares() != before {
                return Some(next.from);
            }
            before = next.shares();
        }
        None
    }
}

fn shares(of: Option<&Assignment>) -> Shares<'_> {
    of.map_or((&[], &[]), Assignment::shares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    #[test]
    fn order_of_arrival_changes_nothing() {
        let assignment = |from, row| {
            let grants = vec![(row, None)];
            Assignment { from: at(from), grants, of_others: Vec::new() }
        };
        let all = [assignment(10, 1), assignment(20, 1), assignment(30, 2), assignment(20, 3)];
        let mut assignments = Assignments::default();
        for index in [2, 1, 0, 3] {
            assert!(assignments.push(all[index].clone()));
        }
        let row_at =
            |now| assignments.at(at(now)).and_then(|it| it.grants.first()).map(|grant| grant.0);
        assert_eq!([9, 10, 29, 30].map(row_at), [None, Some(1), Some(3), Some(2)]);
        assert_eq!(assignments.next_change(at(10)), Some(at(20)));
        assert!(assignments.push(assignment(20, 1)));
        assert_eq!(assignments.next_change(at(10)), Some(at(30)), "the same grants are no change");
        assert_eq!(assignments.at(at(25)).map(|it| it.from), Some(at(10)), "nor a beginning");
        assert_eq!(assignments.advance(at(25)).map(|it| it.from), Some(at(10)));
        assert_eq!(assignments.advance(at(25)), None);
    }
}
