//! Percentages with one decimal that sum to exactly 100.0.
//!
//! Rounded independently, shares can sum to 99.9 or 100.1.

use std::fmt;
use std::ops::Add;

use phasemeter_meter::apportion::apportion;
use phasemeter_meter::units::Nanos;

/// Tenths of a percent in 100%.
const WHOLE: u16 = 1_000;

/// A percentage with one decimal, 0.0 to 100.0, stored in tenths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Percent(u16);

impl Percent {
    /// In tenths of a percent, 0 to 1000.
    #[must_use]
    pub const fn tenths(self) -> u16 {
        self.0
    }

    /// In percent, for JSON.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / 10.0
    }
}

/// The share of two parts together; saturates at 100.
impl Add for Percent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0).min(WHOLE))
    }
}

/// `58.3`, without a percent sign.
impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 10, self.0 % 10)
    }
}

/// The share of each part in their sum, by largest remainder; the first of equal remainders wins.
/// Each share is within 0.1 of the exact one, and a zero part has a share of 0.0. `None` if the sum
/// is zero.
#[must_use]
pub fn percents<const N: usize>(parts: [Nanos; N]) -> Option<[Percent; N]> {
    let tenths = apportion(WHOLE.into(), &parts.map(|part| part.0))?;
    let mut tenths = tenths.into_iter().map(|it| Percent(u16::try_from(it).unwrap_or(WHOLE)));
    Some(parts.map(|_| tenths.next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn tenths<const N: usize>(parts: [u64; N]) -> Option<[u16; N]> {
        percents(parts.map(Nanos)).map(|shares| shares.map(Percent::tenths))
    }

    #[test]
    fn odd_tenth_goes_to_first_of_equal_remainders() {
        assert_eq!(tenths([1, 1, 1]), Some([334, 333, 333]));
        assert_eq!(tenths([0, 1, 2]), Some([0, 333, 667]));
        // 714 2/7, 142 6/7 and 142 6/7.
        assert_eq!(tenths([5, 1, 1]), Some([714, 143, 143]));
    }

    #[test]
    fn zero_sum_has_no_shares() {
        assert_eq!(tenths([0, 0]), None);
        assert_eq!(tenths([]), None);
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "these are exact")]
    fn share_displays_one_decimal() {
        let [idle, busy] = percents([Nanos(583), Nanos(417)]).unwrap();
        assert_eq!(idle.to_string(), "58.3");
        assert_eq!((idle + busy).to_string(), "100.0");
        assert_eq!(percents([Nanos(1), Nanos(7)]).unwrap().map(Percent::as_f64), [12.5, 87.5]);
    }

    proptest! {
        #[test]
        fn shares_sum_to_100_within_a_tenth_of_exact(
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
