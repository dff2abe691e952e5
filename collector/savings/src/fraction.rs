//! Fractions of a bill as integers, so that 1 − 0.4 × 0.6 is exactly 0.76.
//!
//! Each operation documents its rounding.

use phasemeter_meter::money::{NanoUsd, div_half_even};

/// Parts per one.
const PARTS: u32 = 1_000_000_000;

/// A fraction in billionths, 0–1; only a naive sum can exceed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fraction(u64);

impl Fraction {
    /// 0%.
    pub const ZERO: Self = Self(0);
    /// 100%.
    pub const ONE: Self = Self(PARTS as u64);

    /// From a float, rounded to the nearest billionth; `None` outside 0–1 and for NaN.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 10⁹")]
    pub fn new(value: f64) -> Option<Self> {
        let fits = (0.0..=1.0).contains(&value);
        fits.then(|| Self((value * f64::from(PARTS)).round() as u64))
    }

    /// `part ÷ whole`, rounded down; a negative part is zero. `None` if `whole` is not positive.
    #[must_use]
    pub fn of(part: NanoUsd, whole: NanoUsd) -> Option<Self> {
        Self::ratio(part.0.saturating_mul(i128::from(PARTS)), whole)
    }

    /// As a float, for display, OTLP and JSON.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exact up to 9 million")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / f64::from(PARTS)
    }

    /// The combined saving of both: 1 − (1 − self)(1 − other), to the nearest billionth, rounded
    /// half to even. At most their sum, and at most one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let remaining = |fraction: Self| i128::from(Self::ONE.0.saturating_sub(fraction.0));
        let product = div_half_even(remaining(self) * remaining(other), i128::from(PARTS));
        let product = product.and_then(|product| u64::try_from(product).ok());
        Self(Self::ONE.0.saturating_sub(product.unwrap_or_default()))
    }

    /// The sum, which may exceed one.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This fraction of an amount, rounded down to the nano-dollar.
    #[must_use]
    pub fn part_of(self, whole: NanoUsd) -> NanoUsd {
        NanoUsd(self.weight(whole).div_euclid(i128::from(PARTS)))
    }

    /// This fraction of an amount, exactly, in billionths of a nano-dollar.
    pub(super) fn weight(self, whole: NanoUsd) -> i128 {
        whole.0.saturating_mul(i128::from(self.0))
    }

    /// The inverse of [`Fraction::weight`], rounded down. `None` if `whole` is not positive.
    pub(super) fn ratio(weight: i128, whole: NanoUsd) -> Option<Self> {
        if whole <= NanoUsd::ZERO {
            return None;
        }
        Some(Self(u64::try_from((weight / whole.0).max(0)).unwrap_or(u64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fraction(value: f64) -> Fraction {
        Fraction::new(value).unwrap()
    }

    #[test]
    fn combining_40_and_60_percent_yields_76() {
        assert_eq!(fraction(0.4).and(fraction(0.6)), fraction(0.76));
        assert_eq!(fraction(0.6).and(fraction(0.4)).as_f64().to_string(), "0.76");
    }

    #[test]
    fn fraction_rejects_values_outside_0_to_1() {
        for value in [-0.1, 1.000_000_1, f64::NAN, f64::INFINITY, -f64::INFINITY] {
            assert_eq!(Fraction::new(value), None, "{value} was accepted");
        }
        assert_eq!(Fraction::new(-0.0), Some(Fraction::ZERO));
        assert_eq!(Fraction::new(1.0), Some(Fraction::ONE));
    }

    #[test]
    fn fraction_of_zero_is_none() {
        assert_eq!(Fraction::of(NanoUsd(1), NanoUsd::ZERO), None);
        assert_eq!(Fraction::of(NanoUsd(-1), NanoUsd(2)), Some(Fraction::ZERO));
        assert_eq!(Fraction::of(NanoUsd(2), NanoUsd(3)), Some(Fraction(666_666_666)));
    }

    proptest! {
        #[test]
        fn combined_fraction_is_between_maximum_and_sum(
            a in 0..=Fraction::ONE.0,
            b in 0..=Fraction::ONE.0,
        ) {
            let (a, b) = (Fraction(a), Fraction(b));
            let both = a.and(b);
            prop_assert_eq!(both, b.and(a));
            prop_assert!(both >= a.max(b) && both <= a.plus(b).min(Fraction::ONE));
        }

        #[test]
        fn part_of_whole_never_exceeds_original_part(
            part in 0..=1_i128 << 80,
            more in 0..=1_i128 << 80,
        ) {
            let (part, whole) = (NanoUsd(part), NanoUsd(part + more + 1));
            let back = Fraction::of(part, whole).unwrap().part_of(whole);
            prop_assert!(back <= part && (part - back).0 <= whole.0 / i128::from(PARTS) + 1);
        }
    }
}
