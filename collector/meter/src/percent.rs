//! Percentages that add up: one decimal each, and exactly 100.0 together.
//!
//! Rounded one by one, shares sum to 99.9 or 100.1. Here each is rounded down, and the tenths that
//! are missing go to the largest remainders. This room must not know what the parts are.

use std::cmp::Reverse;
use std::fmt;
use std::ops::Add;

use crate::units::Nanos;

/// Tenths in a hundred per cent.
const WHOLE: u16 = 1_000;

/// A percentage to one decimal, 0.0 to 100.0, kept as whole tenths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u16);

impl Percent {
    /// Tenths of a per cent, 0 to 1000.
    #[must_use]
    pub const fn tenths(self) -> u16 {
        self.0
    }

    /// Per cent as a float, for JSON.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 10.0
    }
}

/// The share of two parts of one whole; saturates at 100.
impl Add for Percent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(WHOLE))
    }
}

/// `58.3`, without a sign.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// The share of each part in their sum, by largest remainder; of equal remainders the first goes
/// first. Each is within a tenth of its exact share, and what is nothing stays 0.0. `None` where
/// the sum is zero.
#[must_use]
pub fn percents<const N: usize>(parts: [Nanos; N]) -> Option<[Percent; N]> {
    let sum: u128 = parts.iter().map(|part| u128::from(part.0)).sum();
    if sum == 0 {
        return None;
    }
    let mut shares = parts.map(|part| {
        let tenths = u128::from(part.0) * u128::from(WHOLE);
        (rounded_down(tenths, sum), tenths % sum)
    });
    let given: u16 = shares.iter().map(|(share, _)| share.0).sum();
    let mut by_remainder = shares.each_mut();
    by_remainder.sort_by_key(|(_, remainder)| Reverse(*remainder));
    for (share, _) in by_remainder.into_iter().take(usize::from(WHOLE - given)) {
        share.0 += 1;
    }
    Some(shares.map(|(share, _)| share))
}

#[expect(clippy::cast_possible_truncation, reason = "no part is more than the sum")]
fn rounded_down(tenths: u128, sum: u128) -> Percent {
    Percent((tenths / sum) as u16)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tenths<const N: usize>(parts: [u64; N]) -> Option<[u16; N]> {
        percents(parts.map(Nanos)).map(|shares| shares.map(Percent::tenths))
    }

    #[test]
    fn thirds_sum_to_a_hundred_and_the_first_takes_the_odd_tenth() {
        assert_eq!(tenths([1, 1, 1]), Some([334, 333, 333]));
        assert_eq!(tenths([0, 1, 2]), Some([0, 333, 667]));
    }

    #[test]
    fn nothing_has_no_shares() {
        assert_eq!(tenths([0, 0]), None);
        assert_eq!(tenths([]), None);
    }

    #[test]
    fn shares_show_one_decimal() {
        let [idle, busy] = percents([Nanos(583), Nanos(417)]).unwrap();
        assert_eq!(idle.to_string(), "58.3");
        assert_eq!((idle + busy).to_string(), "100.0");
    }

    proptest! {
        #[test]
        fn shares_sum_to_a_hundred_each_within_a_tenth_of_the_truth(
            parts in prop::array::uniform5(prop_oneof![Just(0), 0..10_u64, any::<u64>()]),
        ) {
            prop_assume!(parts != [0; 5]);
            let shares = tenths(parts).unwrap();
            prop_assert_eq!(shares.iter().sum::<u16>(), WHOLE);
            let sum: u128 = parts.iter().map(|&part| u128::from(part)).sum();
            for (part, share) in parts.into_iter().zip(shares) {
                let (exact, shown) = (u128::from(part) * 1_000, u128::from(share) * sum);
                prop_assert!(exact.abs_diff(shown) < sum);
                prop_assert!(part != 0 || share == 0);
            }
        }
    }
}
