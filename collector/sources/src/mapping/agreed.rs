//! The value that all points of one quantity and instant agree on.
//!
//! Points that differ are of several things under one identity, and none of them counts: which one arrives last
//! proves nothing. The order of arrival changes nothing.

use std::cmp::Ordering;

use phasemeter_meter::units::Timestamp;

/// Where a value comes from. Of several, that of the metric that is mapped first counts, and of its points the
/// earliest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    /// The rank of the metric among all that are mapped.
    pub(super) rank: i32,
    /// When it was measured.
    pub(super) at: Timestamp,
}

/// A value, if all points of its origin have the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed<T> {
    origin: Origin,
    value: Option<T>,
    points: u32,
}

impl<T: Copy + PartialEq> Agreed<T> {
    /// The value of the first point.
    pub(super) const fn new(origin: Origin, value: T) -> Self {
        Self { origin, value: Some(value), points: 1 }
    }

    /// Adds the value of another point. Returns how many points it shows to be unusable: those before it, too, if
    /// it is the first that differs.
    pub(super) fn add(&mut self, origin: Origin, value: T) -> u32 {
        match origin.cmp(&self.origin) {
            Ordering::Greater => 0,
            Ordering::Less => {
                *self = Self::new(origin, value);
                0
            }
            Ordering::Equal => {
                self.points = self.points.saturating_add(1);
                match self.value {
                    Some(known) if known == value => 0,
                    Some(_) => {
                        self.value = None;
                        self.points
                    }
                    None => 1,
                }
            }
        }
    }

    /// The value; `None` if points differ.
    pub(super) const fn get(&self) -> Option<T> {
        self.value
    }

    /// When the value was measured.
    pub(super) const fn at(&self) -> Timestamp {
        self.origin.at
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn origin(rank: i32, seconds: u64) -> Origin {
        Origin { rank, at: Timestamp::from_millis(seconds * 1_000).unwrap() }
    }

    proptest! {
        /// In any order, a value is that of all points of the first origin, or none.
        #[test]
        fn order_of_points_changes_nothing(
            points in prop::collection::vec((0..2_i32, 0..2_u64, 0..3_u8), 1..8),
            order in any::<prop::sample::Index>(),
        ) {
            let agreed = |points: &[(i32, u64, u8)]| {
                let [(rank, seconds, value), rest @ ..] = points else { panic!() };
                let mut agreed = Agreed::new(origin(*rank, *seconds), *value);
                let refused = rest.iter().map(|(rank, seconds, value)| {
                    agreed.add(origin(*rank, *seconds), *value)
                });
                (refused.sum::<u32>(), agreed.get(), agreed.at())
            };
            let first = points.iter().map(|(rank, seconds, _)| (*rank, *seconds)).min().unwrap();
            let of_first = points.iter().filter(|(rank, seconds, _)| (*rank, *seconds) == first);
            let values: BTreeSet<u8> = of_first.clone().map(|(.., value)| *value).collect();
            let expected = values.first().filter(|_| values.len() == 1).copied();
            let mut shuffled = points.clone();
            shuffled.rotate_left(order.index(points.len()));
            for points in [&points, &shuffled] {
                let (refused, value, at) = agreed(points);
                prop_assert_eq!((value, at), (expected, origin(first.0, first.1).at));
                let is_one_origin = of_first.clone().count() == points.len();
                let all = if value.is_none() { points.len() } else { 0 };
                prop_assert!(!is_one_origin || refused as usize == all);
            }
        }
    }
}
