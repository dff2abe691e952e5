//! Calendar dates in UTC.

use std::fmt;
use std::str::FromStr;

use time::{Duration, Month, OffsetDateTime};

use crate::units::Timestamp;

/// Seconds per day.
const SECONDS_PER_DAY: u64 = 24 * 3_600;

/// A calendar date in UTC, formatted as `2026-07-20`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(time::Date);

impl Date {
    /// The date of an instant.
    #[must_use]
    pub fn of(at: Timestamp) -> Self {
        let days = i64::try_from(at.whole_second() / SECONDS_PER_DAY).unwrap_or(i64::MAX);
        Self(OffsetDateTime::UNIX_EPOCH.date().saturating_add(Duration::days(days)))
    }

    /// Days since 1970-01-01; `None` before it.
    #[must_use]
    pub fn days_since_epoch(self) -> Option<u64> {
        u64::try_from((self.0 - OffsetDateTime::UNIX_EPOCH.date()).whole_days()).ok()
    }

    /// Days between two dates, in either direction.
    #[must_use]
    pub fn days_between(self, other: Self) -> u64 {
        (self.0 - other.0).whole_days().unsigned_abs()
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for Date {
    type Err = ParseDateError;

    fn from_str(text: &str) -> Result<Self, ParseDateError> {
        parse(text).map(Self).ok_or_else(|| ParseDateError(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<time::Date> {
    let mut parts = text.split('-');
    let mut part = |length: usize| {
        let digits = parts.next()?;
        let plain = digits.len() == length && digits.bytes().all(|b| b.is_ascii_digit());
        plain.then_some(digits)
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    if parts.next().is_some() {
        return None;
    }
    let month: u8 = month.parse().ok()?;
    time::Date::from_calendar_date(
        year.parse().ok()?,
        Month::try_from(month).ok()?,
        day.parse().ok()?,
    )
    .ok()
}

/// The text is not a calendar date.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid date '{0}': expected YYYY-MM-DD")]
pub struct ParseDateError(String);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_parses_as_displayed() {
        for text in ["1970-01-01", "2024-02-29", "2026-07-20", "9999-12-31", "0001-01-01"] {
            assert_eq!(text.parse::<Date>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn date_rejects_invalid_text() {
        for text in ["", "2026-7-20", "2026-02-29", "2026-13-01", "2026-07-20-", "+026-07-20"] {
            assert!(text.parse::<Date>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn date_contains_instant() {
        let of = |nanos| Date::of(Timestamp::from_nanos(nanos).unwrap()).to_string();
        assert_eq!(of(0), "1970-01-01");
        assert_eq!(of(1_785_110_399_999_999_999), "2026-07-26");
        assert_eq!(of(1_785_110_400_000_000_000), "2026-07-27");
        assert_eq!(of(Timestamp::END - 1), "2261-12-31");
    }
}
