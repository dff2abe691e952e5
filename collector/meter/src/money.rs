//! Money as integers: amounts in nano-dollars (`i128`), rates in whole nano-dollars per GPU-hour.
//!
//! Each operation that rounds documents how.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

use crate::units::{NANOS_PER_HOUR, Nanos};

/// Nano-dollars per dollar.
pub const NANOS_PER_USD: u64 = 1_000_000_000;

/// An amount of money in nano-USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(pub i128);

impl NanoUsd {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// Dollars as a double, for OTLP and JSON only.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exported as a double; accounts stay integers")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD as f64
    }

    /// This amount times `n`.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n as i128))
    }

    /// This amount × `numerator` ÷ `denominator`, rounded half to even; `None` if the denominator
    /// is not positive or the product overflows.
    #[must_use]
    pub fn ratio(self, numerator: i128, denominator: i128) -> Option<Self> {
        div_half_even(self.0.checked_mul(numerator)?, denominator).map(Self)
    }
}

/// `a ÷ b`, rounded half to even; `None` if `b` is not positive.
#[must_use]
pub fn div_half_even(a: i128, b: i128) -> Option<i128> {
    if b <= 0 {
        return None;
    }
    let (quotient, remainder) = (a.div_euclid(b), a.rem_euclid(b));
    let up = match remainder.cmp(&(b - remainder)) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Greater => true,
        std::cmp::Ordering::Equal => quotient % 2 != 0,
    };
    Some(quotient + i128::from(up))
}

/// Dollars with all nine decimals, so that accounts can be added up exactly.
impl fmt::Display for NanoUsd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = self.0.unsigned_abs();
        let unit = u128::from(NANOS_PER_USD);
        write!(f, "{sign}{}.{:09}", magnitude / unit, magnitude % unit)
    }
}

impl Add for NanoUsd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl AddAssign for NanoUsd {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for NanoUsd {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

/// The hourly price of one GPU: 0 to $10,000, in nano-USD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The maximum rate, $10,000 per GPU-hour. It keeps rate × utilization (ppm) × time within an
    /// `i128` for every [`Timestamp`](crate::units::Timestamp).
    pub const MAX: u64 = 10_000 * NANOS_PER_USD;

    /// Free.
    pub const ZERO: Self = Self(0);

    /// From nano-USD per GPU-hour; `None` above [`Rate::MAX`].
    #[must_use]
    pub const fn new(nano_usd_per_hour: u64) -> Option<Self> {
        if nano_usd_per_hour <= Self::MAX { Some(Self(nano_usd_per_hour)) } else { None }
    }

    /// From dollars in decimal notation (`3`, `2.48`, `.5`), with at most nine decimals.
    ///
    /// # Errors
    /// Returns an error if the text is not such a number, or exceeds [`Rate::MAX`].
    pub fn parse(text: &str) -> Result<Self, ParseRateError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return Err(ParseRateError::InvalidNumber);
        }
        if fraction.len() > 9 {
            return Err(ParseRateError::TooManyDecimals);
        }
        format!("{whole}{fraction:0<9}")
            .parse()
            .ok()
            .and_then(Self::new)
            .ok_or(ParseRateError::AboveMaximum)
    }

    /// An instance's hourly price divided by its number of GPUs, rounded half to even; `None` if
    /// there are no GPUs or the result exceeds [`Rate::MAX`].
    #[must_use]
    pub fn from_instance(nano_usd_per_hour: u64, gpus: u32) -> Option<Self> {
        let each = div_half_even(i128::from(nano_usd_per_hour), i128::from(gpus))?;
        u64::try_from(each).ok().and_then(Self::new)
    }

    /// Nano-USD per GPU-hour.
    #[must_use]
    pub const fn nano_usd_per_hour(self) -> u64 {
        self.0
    }

    /// The cost of one GPU for this time, rounded down.
    #[must_use]
    #[expect(clippy::cast_possible_wrap, reason = "below 2^75: 1e13 × 2^64 ÷ 3.6e12")]
    pub const fn cost(self, time: Nanos) -> NanoUsd {
        NanoUsd((self.0 as u128 * time.0 as u128 / NANOS_PER_HOUR as u128) as i128)
    }

    /// The cost of one GPU for one hour.
    #[must_use]
    pub const fn hourly(self) -> NanoUsd {
        NanoUsd(self.0 as i128)
    }
}

/// What a text lacks to be a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseRateError {
    /// Not a plain decimal number.
    #[error("expected USD per GPU-hour as a plain number, such as 2.48")]
    InvalidNumber,
    /// More than nine decimals.
    #[error("expected at most nine decimals")]
    TooManyDecimals,
    /// Above [`Rate::MAX`].
    #[error("expected at most $10,000 per GPU-hour")]
    AboveMaximum,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> u64 {
        Rate::parse(text).unwrap().nano_usd_per_hour()
    }

    #[test]
    fn rate_parses_exactly() {
        assert_eq!(rate("3"), 3_000_000_000);
        assert_eq!(rate("2.48"), 2_480_000_000);
        assert_eq!(rate(".5"), 500_000_000);
        assert_eq!(rate("0.000000001"), 1);
        assert_eq!(rate("10000"), Rate::MAX);
    }

    #[test]
    fn rate_rejects_invalid_text() {
        for text in ["", ".", "-1", "+1", "1e3", "nan", "1,5", " 1", "0.0000000001", "10001"] {
            assert!(Rate::parse(text).is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn division_rounds_half_to_even() {
        assert_eq!(div_half_even(5, 2), Some(2));
        assert_eq!(div_half_even(7, 2), Some(4));
        assert_eq!(div_half_even(-5, 2), Some(-2));
        assert_eq!(div_half_even(1, 0), None);
        assert_eq!(Rate::from_instance(5, 2), Rate::new(2));
    }

    #[test]
    fn amount_displays_nine_decimals() {
        assert_eq!(NanoUsd(1_162_000_000).to_string(), "1.162000000");
        assert_eq!(NanoUsd(-1).to_string(), "-0.000000001");
    }
}
