//! Instants as text: RFC 3339 in UTC, as in `2026-07-27T00:22:27.5Z`.

use std::fmt;
use std::str::FromStr;

use crate::date::Date;
use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp};

/// An instant that reads and displays as RFC 3339 in UTC, with as many fractional digits as needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub Timestamp);

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of_day = self.0.whole_second() % 86_400;
        let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
        write!(f, "{}T{hour:02}:{minute:02}:{second:02}", Date::of(self.0))?;
        match self.0.as_nanos() % NANOS_PER_SECOND {
            0 => f.write_str("Z"),
            nanos => {
                let decimals = format!("{nanos:09}");
                write!(f, ".{}Z", decimals.trim_end_matches('0'))
            }
        }
    }
}

impl FromStr for Instant {
    type Err = ParseInstantError;

    fn from_str(text: &str) -> Result<Self, ParseInstantError> {
        parse(text).map(Self).ok_or(ParseInstantError)
    }
}

/// The text is not such an instant, or not within 1970–2261.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a time in UTC like 2026-07-27T00:22:27Z, from 1970 to 2261")]
pub struct ParseInstantError;

fn parse(text: &str) -> Option<Timestamp> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    if !(1..=9).contains(&fraction.len()) {
        return None;
    }
    let mut parts = time.split(':');
    let (hour, minute) = (number(parts.next()?, 2)?, number(parts.next()?, 2)?);
    let second = number(parts.next()?, 2)?;
    if parts.next().is_some() || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let nanos = number(&format!("{fraction:0<9}"), 9)?;
    let days = date.parse::<Date>().ok()?.days_since_epoch()?;
    let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second;
    Timestamp::from_nanos(seconds.checked_mul(NANOS_PER_SECOND)?.checked_add(nanos)?)
}

fn number(digits: &str, length: usize) -> Option<u64> {
    let plain = digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| digits.parse().ok())?
}

/// The UTC hour that contains this instant.
#[must_use]
pub const fn hour_of(at: Timestamp) -> Timestamp {
    at.floor(Nanos::from_secs(3_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_parses_as_displayed() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2026-07-27T00:22:27.12Z",
            "2024-02-29T23:59:59.000000001Z",
            "2261-12-31T23:59:59.999999999Z",
        ] {
            assert_eq!(text.parse::<Instant>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn instant_rejects_other_text() {
        for text in [
            "",
            "2026-07-27",
            "2026-07-27T00:22:27",
            "2026-07-27T00:22:27+02:00",
            "2026-07-27T24:00:00Z",
            "2026-07-27T00:22:27.Z",
            "2026-07-27T00:22:27.1234567890Z",
            "2026-02-30T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2262-01-01T00:00:00Z",
            "2026-07-27T0:22:27Z",
        ] {
            assert!(text.parse::<Instant>().is_err(), "{text:?} was accepted");
        }
    }
}
