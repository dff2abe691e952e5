//! Money is an integer: nano-dollars in an `i128`, and rates in whole nano-dollars a GPU-hour.
//!
//! Nothing here rounds but where it says so. This room must not know what is paid for.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};

/// Nano-dollars in a dollar.
pub const NANOS_PER_USD: u64 = 1_000_000_000;

/// An amount of money in nano-USD.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NanoUsd(pub i128);

impl NanoUsd {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// Dollars as a float: for the wire, whose values are doubles, and for nothing else.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "doubles on the wire; accounts stay integers")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / NANOS_PER_USD as f64
    }

    /// This amount `n` times.
    #[must_use]
    pub const fn times(self, n: u64) -> Self {
        Self(self.0.saturating_mul(n as i128))
    }

    /// This amount × `numerator` ÷ `denominator`, rounded half to even; `None` where the
    /// denominator is not positive.
    #[must_use]
    pub fn ratio(self, numerator: i128, denominator: i128) -> Option<Self> {
        div_half_even(self.0.checked_mul(numerator)?, denominator).map(Self)
    }
}

/// `a ÷ b` rounded half to even; `None` where `b` is not positive.
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

/// Dollars with all nine decimals, so that anyone can add the accounts up.
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

/// What a GPU costs: nano-USD an hour, 0 to $10,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// The highest rate there is, $10,000 a GPU-hour: with it, rate × ppm × all the time there is
    /// still fits an `i128`.
    pub const MAX: u64 = 10_000 * NANOS_PER_USD;

    /// From nano-USD a GPU-hour; `None` above [`Rate::MAX`].
    #[must_use]
    pub const fn new(nano_usd_per_hour: u64) -> Option<Self> {
        if nano_usd_per_hour <= Self::MAX { Some(Self(nano_usd_per_hour)) } else { None }
    }

    /// From dollars in decimal notation (`3`, `2.48`, `.5`); at most nine decimals.
    ///
    /// # Errors
    /// Where the text is no such number, or above [`Rate::MAX`].
    pub fn parse(text: &str) -> Result<Self, RateError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !digits(whole) || !digits(fraction) {
            return Err(RateError::NotANumber(text.to_owned()));
        }
        if fraction.len() > 9 {
            return Err(RateError::TooFine(text.to_owned()));
        }
        format!("{whole}{fraction:0<9}")
            .parse()
            .ok()
            .and_then(Self::new)
            .ok_or_else(|| RateError::TooHigh(text.to_owned()))
    }

    /// An instance's hourly price divided among its GPUs, rounded half to even; `None` for no
    /// GPUs or above [`Rate::MAX`].
    #[must_use]
    pub fn of_instance(nano_usd_per_hour: u64, gpus: u32) -> Option<Self> {
        let each = div_half_even(i128::from(nano_usd_per_hour), i128::from(gpus))?;
        u64::try_from(each).ok().and_then(Self::new)
    }

    /// Nano-USD a GPU-hour.
    #[must_use]
    pub const fn nano_usd_per_hour(self) -> u64 {
        self.0
    }

    /// What one GPU costs in one hour.
    #[must_use]
    pub const fn hourly(self) -> NanoUsd {
        NanoUsd(self.0 as i128)
    }
}

/// Why a text is no rate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    /// It is no plain decimal number.
    #[error("'{0}' is no price: give dollars a GPU-hour as a plain number, like 2.48")]
    NotANumber(String),
    /// It has parts of a nano-dollar.
    #[error("'{0}' is finer than a nano-dollar: give at most nine decimals")]
    TooFine(String),
    /// It is above [`Rate::MAX`].
    #[error("'{0}' is above $10,000 a GPU-hour, the highest price there is here")]
    TooHigh(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> u64 {
        Rate::parse(text).unwrap().nano_usd_per_hour()
    }

    #[test]
    fn rates_are_read_exactly() {
        assert_eq!(rate("3"), 3_000_000_000);
        assert_eq!(rate("2.48"), 2_480_000_000);
        assert_eq!(rate(".5"), 500_000_000);
        assert_eq!(rate("0.000000001"), 1);
        assert_eq!(rate("10000"), Rate::MAX);
    }

    #[test]
    fn what_is_no_rate_is_refused() {
        for text in ["", ".", "-1", "+1", "1e3", "nan", "1,5", " 1", "0.0000000001", "10001"] {
            assert!(Rate::parse(text).is_err(), "{text:?} was taken");
        }
    }

    #[test]
    fn halves_go_to_even() {
        assert_eq!(div_half_even(5, 2), Some(2));
        assert_eq!(div_half_even(7, 2), Some(4));
        assert_eq!(div_half_even(-5, 2), Some(-2));
        assert_eq!(div_half_even(1, 0), None);
        assert_eq!(Rate::of_instance(5, 2), Rate::new(2));
    }

    #[test]
    fn money_shows_nine_decimals() {
        assert_eq!(NanoUsd(1_162_000_000).to_string(), "1.162000000");
        assert_eq!(NanoUsd(-1).to_string(), "-0.000000001");
    }
}
