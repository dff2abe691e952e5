//! What holders used: ranges that wait until their time is divided.

use std::collections::VecDeque;

use super::row_id::RowId;
use crate::units::{Timestamp, Utilization};

/// Maximum number of ranges that wait: 15 s of ten per second of a hundred holders.
const MAX_RANGES: usize = 16_384;

/// Number of ranges for which memory is kept.
const SMALL: usize = 64;

/// Ranges that wait, and the time that they cover.
#[derive(Clone, Debug, Default)]
pub(super) struct Uses {
    /// In the order of their starts.
    ranges: VecDeque<Range>,
    /// The time in which the use of any holder is known: ranges in time order, with gaps between them.
    known: VecDeque<(Timestamp, Timestamp)>,
    /// The end of the last range that was removed from it.
    known_before: Option<Timestamp>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Range {
    from: Timestamp,
    to: Timestamp,
    row: RowId,
    utilization: Utilization,
}

impl Uses {
    /// Adds what the holder of a row used. Returns false if too many ranges wait.
    pub(super) fn push(
        &mut self,
        row: RowId,
        from: Timestamp,
        to: Timestamp,
        utilization: Utilization,
    ) -> bool {
        self.cover(from, to);
        if self.ranges.len() == MAX_RANGES {
            return false;
        }
        let at = self.ranges.partition_point(|range| range.from <= from);
        self.ranges.insert(at, Range { from, to, row, utilization });
        true
    }

    /// The use of some holder is known over this range. It is merged with those that it touches.
    pub(super) fn cover(&mut self, from: Timestamp, to: Timestamp) {
        if self.known.len() == MAX_RANGES {
            return;
        }
        let first = self.known.partition_point(|known| known.1 < from);
        let mut merged = (from, to);
        while let Some(known) = self.known.get(first).copied().filter(|known| known.0 <= to) {
            merged = (merged.0.min(known.0), merged.1.max(known.1));
            self.known.remove(first);
        }
        self.known.insert(first, merged);
    }

    /// Whether the use of any holder is known at an instant.
    pub(super) fn are_known(&self, at: Timestamp) -> bool {
        let next = self.known.iter().find(|known| at < known.1);
        next.is_some_and(|known| known.0 <= at)
    }

    /// Whether the use of any holder is known at any instant from `since` to `at`.
    pub(super) fn were_known(&self, since: Timestamp, at: Timestamp) -> bool {
        self.known_before.is_some_and(|end| since < end)
            || self.known.iter().any(|known| known.0 <= at && since < known.1)
    }

    /// The first instant after `at` at which uses become known or unknown.
    pub(super) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let bounds = self.known.iter().flat_map(|known| [known.0, known.1]);
        bounds.into_iter().find(|bound| at < *bound)
    }

    /// What each row used of this time, in ppm·ns; a row may be there more than once.
    pub(super) fn over(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = (RowId, u128)> {
        let begun = self.ranges.iter().take_while(move |range| range.from < to);
        begun.map(move |range| {
            let time = range.to.min(to).since(range.from.max(from));
            (range.row, u128::from(time.0) * u128::from(range.utilization.ppm()))
        })
    }

    /// Removes what lies before `until`.
    pub(super) fn remove_before(&mut self, until: Timestamp) {
        let begun = self.ranges.partition_point(|range| range.from < until);
        let mut kept = 0;
        for index in 0..begun {
            if self.ranges[index].to > until {
                self.ranges.swap(kept, index);
                kept += 1;
            }
        }
        self.ranges.drain(kept..begun);
        while let Some((_, end)) = self.known.pop_front_if(|known| known.1 <= until) {
            self.known_before = self.known_before.max(Some(end));
        }
        // A burst leaves no memory behind.
        if self.ranges.capacity() > 4 * self.ranges.len().max(SMALL) {
            self.ranges.shrink_to(2 * self.ranges.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn uses(ranges: &[(u64, u64)]) -> Uses {
        let mut uses = Uses::default();
        for (row, (from, to)) in (0..).zip(ranges) {
            assert!(uses.push(row, at(*from), at(*to), Utilization::from_ppm(10).unwrap()));
        }
        uses
    }

    #[test]
    fn known_time_does_not_depend_on_arrival() {
        let ranges = [(0, 10), (20, 30), (10, 15), (40, 50), (29, 41)];
        let expected = [(at(0), at(15)), (at(20), at(50))];
        assert_eq!(uses(&ranges).known, expected);
        let mut reversed = ranges;
        reversed.reverse();
        let uses = uses(&reversed);
        assert_eq!(uses.known, expected);
        assert!(uses.are_known(at(14)) && !uses.are_known(at(15)) && uses.are_known(at(20)));
        assert_eq!(
            [14, 15, 50].map(|now| uses.next_change(at(now))),
            [Some(at(15)), Some(at(20)), None]
        );
    }

    #[test]
    fn uses_were_known_if_any_range_ends_after_the_start() {
        let mut uses = uses(&[(10, 20), (40, 50)]);
        for is_removed in [false, true] {
            assert!(uses.were_known(at(0), at(30)) && uses.were_known(at(19), at(30)));
            assert!(!uses.were_known(at(20), at(30)) && uses.were_known(at(20), at(40)));
            if !is_removed {
                uses.remove_before(at(20));
            }
        }
    }

    #[test]
    fn ranges_count_for_the_time_that_they_cover() {
        let mut uses = uses(&[(0, 100), (10, 20), (15, 30)]);
        let over = |uses: &Uses| uses.over(at(12), at(18)).collect::<Vec<_>>();
        assert_eq!(over(&uses), [(0, 60), (1, 60), (2, 30)]);
        uses.remove_before(at(20));
        let rows = uses.over(at(20), at(25)).collect::<Vec<_>>();
        assert_eq!(rows, [(0, 50), (2, 50)]);
    }
}
