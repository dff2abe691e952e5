//! Amounts in JSON: dollars as decimal strings, durations as seconds, instants as text.
//!
//! Both are exact: a string with nine decimals is a whole number of nano-dollars, and a number of
//! seconds is rounded to a nanosecond.

use std::fmt;

use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Maximum amount, in whole dollars. It keeps all sums within 128 bits.
const MAX_USD: i128 = 1_000_000_000_000;

/// Maximum duration in seconds: the range of timestamps.
const MAX_SECONDS: f64 = 9.3e9;

/// Dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(pub NanoUsd);

/// A duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(pub Nanos);

/// Parses dollars in decimal notation with at most nine decimals.
pub(crate) fn parse_usd(text: &str) -> Option<NanoUsd> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let plain = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty()
        || whole.len() > 13
        || fraction.len() > 9
        || !plain(whole)
        || !plain(fraction)
    {
        return None;
    }
    let nanos: i128 = format!("{whole}{fraction:0<9}").parse().ok()?;
    let limit = MAX_USD * i128::from(phasemeter_meter::money::NANOS_PER_USD);
    (nanos <= limit).then_some(NanoUsd(sign * nanos))
}

/// What of an amount falls between two instants of a length of time, which it accrues over evenly. The parts
/// of adjacent ranges sum to the amount.
pub(crate) fn part(all: i128, begin: Nanos, end: Nanos, length: Nanos) -> i128 {
    let length = i128::from(length.0.max(1));
    let until = |at: Nanos| {
        let (whole, rest) = (all / length, all % length);
        whole * i128::from(at.0) + rest * i128::from(at.0) / length
    };
    until(end) - until(begin)
}

pub(crate) fn instant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let Instant(at) =
        text.parse().map_err(|error| D::Error::custom(format!("{text:?}: {error}")))?;
    Ok(at)
}

struct UsdVisitor;

impl Visitor<'_> for UsdVisitor {
    type Value = Usd;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("dollars as a string with at most nine decimals, like \"2.480000000\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Usd, E> {
        let amount = parse_usd(text).filter(|amount| *amount >= NanoUsd::ZERO);
        amount.map(Usd).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(UsdVisitor)
    }
}

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Seconds {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "within the range of nanoseconds, which are rounded on purpose"
    )]
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if (0.0..=MAX_SECONDS).contains(&seconds) {
            Ok(Self(Nanos((seconds * NANOS_PER_SECOND as f64).round() as u64)))
        } else {
            let expected = "seconds from 0 to 9.3e9";
            Err(D::Error::invalid_value(serde::de::Unexpected::Float(seconds), &expected))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_parse_exactly() {
        for (text, nanos) in [
            ("0.000000001", 1),
            ("2.48", 2_480_000_000),
            ("-3", -3_000_000_000),
            ("1000000000000.000000000", 1_000_000_000_000_000_000_000),
        ] {
            assert_eq!(parse_usd(text), Some(NanoUsd(nanos)), "{text}");
        }
        for text in ["", "-", ".5", "1e3", "1.0000000001", "1,5", "+1", "1000000000000.000000001"] {
            assert_eq!(parse_usd(text), None, "{text}");
        }
    }

    #[test]
    fn json_amounts_are_exact_and_limited() {
        let usd = |json| serde_json::from_str::<Usd>(json).ok().map(|Usd(amount)| amount.0);
        assert_eq!(usd("\"1.500000000\""), Some(1_500_000_000));
        assert_eq!((usd("1.5"), usd("\"-1\"")), (None, None));
        let seconds = |json| serde_json::from_str::<Seconds>(json).ok().map(|Seconds(time)| time.0);
        assert_eq!(seconds("3599.999999999"), Some(3_599_999_999_999));
        assert_eq!((seconds("-1"), seconds("1e300"), seconds("\"1\"")), (None, None, None));
    }
}
