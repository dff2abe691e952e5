//! Quantities of plans as people write them: `80%`, `7B`, `14GB`, `30ms`, `$32000`.
//!
//! Parsing is exact; errors state what was expected.

use std::fmt;
use std::str::FromStr;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{NANOS_PER_HOUR, NANOS_PER_SECOND, Nanos};
use phasemeter_terminal::number::trimmed;

use crate::format;

/// A ratio in parts per million. May exceed 100%.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ratio(u64);

impl Ratio {
    /// 100%.
    pub const ONE: Self = Self(1_000_000);
    /// 0%.
    pub const ZERO: Self = Self(0);

    /// From parts per million.
    #[must_use]
    pub const fn from_ppm(ppm: u64) -> Self {
        Self(ppm)
    }

    /// Parts per million.
    #[must_use]
    pub const fn ppm(self) -> u64 {
        self.0
    }

    /// As a double, 1.0 for 100%.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0 as f64 / 1e6
    }
}

/// `80%`, `12.5%`.
impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", trimmed(&format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000)))
    }
}

impl FromStr for Ratio {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ParseError("expected a percentage with its sign, like 80%");
        let digits = text.strip_suffix('%').ok_or(expected)?;
        // 10,000% at most: sums of ratios do not overflow.
        let ppm = decimal(digits, 4).filter(|&ppm| ppm <= 100_000_000).ok_or(expected)?;
        u64::try_from(ppm).map(Self).map_err(|_| expected)
    }
}

/// A count with an optional suffix: `7B` is 7,000,000,000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count(pub u64);

/// With the largest suffix that leaves a whole number or at most three decimals.
impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format::count(self.0))
    }
}

impl FromStr for Count {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ParseError("expected a count above 0, like 7B, 1.5M or 200000");
        let (digits, power) = match text.char_indices().next_back() {
            Some((at, 'k' | 'K')) => (text.get(..at), 3),
            Some((at, 'm' | 'M')) => (text.get(..at), 6),
            Some((at, 'b' | 'B' | 'g' | 'G')) => (text.get(..at), 9),
            Some((at, 't' | 'T')) => (text.get(..at), 12),
            _ => (Some(text), 0),
        };
        let count = digits.and_then(|digits| decimal(digits, power)).ok_or(expected)?;
        match u64::try_from(count) {
            Ok(count @ 1..=1_000_000_000_000_000_000) => Ok(Self(count)),
            _ => Err(expected),
        }
    }
}

/// A positive rate of work per second, such as tokens per second. Doubles are exact enough: it is a
/// measurement.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct PerSecond(f64);

impl PerSecond {
    /// `None` unless it is positive and finite.
    #[must_use]
    pub fn new(per_second: f64) -> Option<Self> {
        (per_second.is_finite() && per_second > 0.0).then_some(Self(per_second))
    }

    /// Per second.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl fmt::Display for PerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format::number(self.0))
    }
}

impl FromStr for PerSecond {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ParseError("expected a rate per second above 0, like 200 or 1.5k");
        let (digits, factor) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1e3),
            None => (text, 1.0),
        };
        // Plain decimals only: parse() would also accept `inf` and `1e9`.
        decimal(digits, 9).ok_or(expected)?;
        let number: f64 = digits.parse().map_err(|_| expected)?;
        Self::new(number * factor).filter(|rate| rate.0 <= 1e15).ok_or(expected)
    }
}

/// Memory in bytes. GB are powers of ten, GiB of two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

/// `14 GB`, to one decimal.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GB", format::gb(self.0))
    }
}

impl FromStr for Size {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ParseError("expected memory with its unit, like 14GB or 10GiB");
        let units = [("GiB", 1 << 30), ("MiB", 1 << 20), ("GB", 1_000_000_000), ("MB", 1_000_000)];
        let (digits, unit) = units
            .iter()
            .find_map(|&(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit)))
            .ok_or(expected)?;
        let scaled = decimal(digits, 3).ok_or(expected)?;
        let bytes = scaled.checked_mul(unit).ok_or(expected)? / 1_000;
        // 1 PB at most.
        u64::try_from(bytes).ok().filter(|&it| it <= 1 << 50).map(Self).ok_or(expected)
    }
}

/// A length of time with its unit, above 0 and at most a century.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(pub Nanos);

impl Span {
    /// In hours.
    #[must_use]
    pub fn hours(self) -> f64 {
        self.0.0 as f64 / NANOS_PER_HOUR as f64
    }

    /// In seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.0.as_secs_f64()
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format::seconds(self.seconds()))
    }
}

impl FromStr for Span {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let expected = ParseError("expected a time with its unit, like 30ms, 90s, 5min, 4h or 14d");
        let units = [
            ("ms", 1_000_000),
            ("min", 60 * NANOS_PER_SECOND),
            ("s", NANOS_PER_SECOND),
            ("h", NANOS_PER_HOUR),
            ("d", 24 * NANOS_PER_HOUR),
        ];
        let (digits, unit) = units
            .iter()
            .find_map(|&(name, unit)| Some((text.strip_suffix(name)?.trim_end(), unit)))
            .ok_or(expected)?;
        let scaled = decimal(digits, 6).ok_or(expected)?;
        let nanos = scaled.checked_mul(u128::from(unit)).ok_or(expected)? / 1_000_000;
        let century = u128::from(100 * 8_760 * NANOS_PER_HOUR);
        match u64::try_from(nanos) {
            Ok(nanos) if nanos > 0 && u128::from(nanos) <= century => Ok(Self(Nanos(nanos))),
            _ => Err(expected),
        }
    }
}

/// Hours as a number, up to a century, to a nanosecond.
///
/// # Errors
/// Returns an error if the text is not such a number.
pub fn parse_hours(text: &str) -> Result<Nanos, ParseError> {
    let expected = ParseError("expected hours as a number, like 400 or 720");
    let scaled = decimal(text, 6).filter(|&it| it <= 876_000_000_000).ok_or(expected)?;
    let nanos = scaled * u128::from(NANOS_PER_HOUR) / 1_000_000;
    u64::try_from(nanos).map(Nanos).map_err(|_| expected)
}

/// An amount of dollars, up to a trillion.
///
/// # Errors
/// Returns an error if the text is not such an amount.
pub fn parse_dollars(text: &str) -> Result<NanoUsd, ParseError> {
    let expected = ParseError("expected US dollars as a plain number, like 32000 or 0.12");
    let nanos = decimal(text, 9).filter(|&it| it <= 10_u128.pow(21)).ok_or(expected)?;
    i128::try_from(nanos).map(NanoUsd).map_err(|_| expected)
}

/// A plain decimal number times 10^`places`; `None` if it is invalid or has more decimals. Commas may
/// separate thousands.
pub(crate) fn decimal(text: &str, places: usize) -> Option<u128> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let groups: Vec<_> = whole.split(',').collect();
    let is_grouped = match groups.as_slice() {
        [_] => true,
        [first, rest @ ..] => {
            (1..=3).contains(&first.len()) && rest.iter().all(|group| group.len() == 3)
        }
        [] => false,
    };
    let whole = groups.concat();
    let valid = is_grouped && digits(&whole) && digits(fraction) && fraction.len() <= places;
    if !valid || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    format!("{whole}{fraction:0<places$}").parse().ok()
}

/// The text is not such a quantity: what was expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(&'static str);

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed<T: FromStr>(text: &str) -> Option<T> {
        text.parse().ok()
    }

    #[test]
    fn quantities_parse_exactly_with_their_unit() {
        assert_eq!(parsed("80%"), Some(Ratio(800_000)));
        assert_eq!(parsed("12.5%"), Some(Ratio(125_000)));
        assert_eq!(parsed("7B"), Some(Count(7_000_000_000)));
        assert_eq!(parsed("1,000,000"), Some(Count(1_000_000)));
        assert_eq!(parsed("30.96576B"), Some(Count(30_965_760_000)));
        assert_eq!(parsed("14GB"), Some(Size(14_000_000_000)));
        assert_eq!(parsed("10 GiB"), Some(Size(10 << 30)));
        assert_eq!(parsed("30ms"), Some(Span(Nanos::from_millis(30))));
        assert_eq!(parsed("5min"), Some(Span(Nanos::from_secs(300))));
        assert_eq!(parsed("1.5k"), PerSecond::new(1_500.0));
        assert_eq!(parse_hours("428.5"), Ok(Nanos::from_secs(1_542_600)));
        assert_eq!(parse_dollars("0.12"), Ok(NanoUsd(120_000_000)));
    }

    #[test]
    fn quantities_without_unit_or_sense_are_rejected() {
        for text in ["80", "0.8", "-1%", "%", "1e2%", "10001%", "8 0%"] {
            assert_eq!(parsed::<Ratio>(text), None, "{text:?}");
        }
        for text in ["", "0", "-7B", "7X", "B", "1,00", "0.5", "1.2345k", "1e9", "9999999999T"] {
            assert_eq!(parsed::<Count>(text), None, "{text:?}");
        }
        for text in ["14", "GB", "14TB", "-1GB", "99999999GB"] {
            assert_eq!(parsed::<Size>(text), None, "{text:?}");
        }
        for text in ["30", "0s", "ms", "-1s", "5m", "99999999d"] {
            assert_eq!(parsed::<Span>(text), None, "{text:?}");
        }
        for text in ["", "0", "inf", "nan", "1e3", "-1"] {
            assert_eq!(parsed::<PerSecond>(text), None, "{text:?}");
        }
        assert!(parse_hours("876001").is_err() && parse_dollars("-1").is_err());
    }

    #[test]
    fn quantities_display_as_people_write_them() {
        assert_eq!(Ratio(800_000).to_string(), "80%");
        assert_eq!(Ratio(125_000).to_string(), "12.5%");
        assert_eq!(Count(7_000_000_000).to_string(), "7B");
        assert_eq!(Size(14_000_000_000).to_string(), "14 GB");
        assert_eq!(Span(Nanos::from_millis(30)).to_string(), "30 ms");
    }
}
