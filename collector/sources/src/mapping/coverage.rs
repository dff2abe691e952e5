//! Time of a GPU that another meter bills.

use phasemeter_meter::units::Timestamp;

/// Maximum number of separate ranges. A meter bills without gaps, so there is one per restart.
const MAX_RANGES: usize = 64;

/// Ranges of time, sorted and disjoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage(Vec<(Timestamp, Timestamp)>);

impl Coverage {
    /// Adds a range. If there are too many, the oldest is dropped.
    pub fn add(&mut self, from: Timestamp, to: Timestamp) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|(_, end)| *end < from);
        let after = self.0.partition_point(|(start, _)| *start <= to);
        let joined = self.0.get(first..after).unwrap_or_default();
        let start = joined.first().map_or(from, |(start, _)| from.min(*start));
        let end = joined.last().map_or(to, |(_, end)| to.max(*end));
        self.0.splice(first..after, [(start, end)]);
        if self.0.len() > MAX_RANGES {
            self.0.remove(0);
        }
    }

    /// Whether an instant is covered.
    #[must_use]
    pub fn contains(&self, at: Timestamp) -> bool {
        self.within(at, Timestamp::LAST).next().is_some_and(|(from, _)| from <= at)
    }

    /// The covered parts of a range, in order.
    pub fn within(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let clipped = self.0.iter().map(move |(start, end)| (from.max(*start), to.min(*end)));
        clipped.filter(|(start, end)| start < end)
    }

    /// The parts of a range that are not covered, in order.
    pub fn outside(
        &self,
        from: Timestamp,
        to: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, Timestamp)> {
        let ends = self.within(from, to).chain([(to, to)]);
        let mut start = from;
        let parts = ends.map(move |(next, end)| (std::mem::replace(&mut start, end), next));
        parts.filter(|(start, end)| start < end)
    }
}

#[cfg(test)]
mod tests {
    use super::Coverage;
    use phasemeter_meter::units::Timestamp;
    use proptest::prelude::*;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    proptest! {
        /// Ranges in any order cover exactly their instants, and the parts tile any range.
        #[test]
        fn ranges_cover_their_instants(
            ranges in prop::collection::vec((0_u64..50, 0_u64..50), 0..12),
            from in 0_u64..50,
            length in 0_u64..50,
        ) {
            let mut coverage = Coverage::default();
            ranges.iter().for_each(|(from, to)| coverage.add(at(*from), at(*to)));
            let is_covered = |i: u64| ranges.iter().any(|(from, to)| (*from..*to).contains(&i));
            for instant in 0..60 {
                prop_assert_eq!(coverage.contains(at(instant)), is_covered(instant));
            }
            let (first, last) = (at(from), at(from + length));
            let sum = |parts: Vec<(Timestamp, Timestamp)>| -> u64 {
                parts.iter().map(|(from, to)| to.since(*from).0).sum()
            };
            let within = sum(coverage.within(first, last).collect());
            let outside = sum(coverage.outside(first, last).collect());
            prop_assert_eq!(within + outside, length);
            let expected = (from..from + length).filter(|i| is_covered(*i)).count();
            prop_assert_eq!(within, expected as u64);
        }
    }
}
