//! Parses timestamps: `2026/07/27 00:22:27.123`, local time unless they have a time zone, and Unix time.

use std::str::FromStr;

use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};
use time::{Date, Month, Time, UtcDateTime};

use super::digits::milliseconds_in_minute;

/// Length of a date and time up to the minute.
const MINUTE: usize = "2026/07/27 00:22".len();

/// Length of a date and time up to the millisecond.
pub(super) const MILLISECOND: usize = "2026/07/27 00:22:27.123".len();

/// The accepted forms, for errors.
pub(super) const FORMS: &str = "2026/07/27 00:22:27.123 (local time), 2026-07-27T00:22:27.123+02:00, or Unix time in seconds or milliseconds";

/// Offset of local time from UTC: positive if ahead, less than one day either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UtcOffset {
    seconds: i32,
}

impl UtcOffset {
    /// Seconds east of UTC.
    #[must_use]
    pub const fn seconds(self) -> i32 {
        self.seconds
    }
}

impl FromStr for UtcOffset {
    type Err = ParseUtcOffsetError;

    /// Parses `+hh:mm`, `-hh:mm` or `Z`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let seconds = parse_zone(text.as_bytes()).and_then(|seconds| i32::try_from(seconds).ok());
        seconds.map(|seconds| Self { seconds }).ok_or(ParseUtcOffsetError(()))
    }
}

/// Invalid UTC offset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected +hh:mm or -hh:mm, for example +02:00")]
pub struct ParseUtcOffsetError(());

/// Parses timestamps. Rows come several times per minute, so it caches the last minute.
pub(super) struct TimestampParser {
    /// The bytes of that minute, and its value: seconds since 1970 in the log's time.
    text: [u8; MINUTE],
    minute: i64,
    /// The start of that minute, if it was local time.
    local_start: Option<Timestamp>,
    /// The UTC offset given by the user.
    offset: Option<UtcOffset>,
    /// Seconds by which local time has gone back since the start.
    back: i64,
    local: bool,
}

impl TimestampParser {
    /// A parser for local time at `offset`; UTC if `None`.
    pub(super) const fn new(offset: Option<UtcOffset>) -> Self {
        let text = *b"1970/01/01 00:00";
        Self { text, minute: 0, local_start: None, offset, back: 0, local: false }
    }

    /// Whether timestamps are local time.
    pub(super) const fn is_local(&self) -> bool {
        self.local
    }

    /// Seconds by which local time is ahead of UTC.
    pub(super) fn local_offset(&self) -> i64 {
        self.offset.map_or(0, |offset| i64::from(offset.seconds)) - self.back
    }

    /// Adds seconds to local time from now on, since it has gone back by as many.
    pub(super) const fn shift_local(&mut self, seconds: i64) {
        if seconds != 0 {
            self.back += seconds;
            self.local_start = None;
        }
    }

    /// Whether local time was assumed to be UTC.
    pub(super) const fn assumed_utc(&self) -> bool {
        self.local && self.offset.is_none()
    }

    /// The instant that `text` is. `None` if it is invalid or outside 1970 to 2261.
    #[inline]
    pub(super) fn read(&mut self, text: &[u8]) -> Option<Timestamp> {
        self.read_again(text).or_else(|| self.read_calendar(text)).or_else(|| unix_time(text))
    }

    /// Like [`Self::read`], for local time after the first, which changes nothing but the cache.
    #[inline]
    pub(super) fn read_local(&mut self, text: &[u8]) -> Option<Timestamp> {
        if self.local { self.read(text) } else { None }
    }

    /// An instant in the cached minute of local time, in milliseconds as `nvidia-smi` writes it.
    #[inline]
    fn read_again(&self, text: &[u8]) -> Option<Timestamp> {
        let text: &[u8; MILLISECOND] = text.try_into().ok()?;
        let (minute, rest) = (text.first_chunk()?, text.last_chunk()?);
        if *minute != self.text {
            return None;
        }
        Some(self.local_start? + Nanos::from_millis(milliseconds_in_minute(*rest)?))
    }

    #[inline(never)]
    fn read_calendar(&mut self, text: &[u8]) -> Option<Timestamp> {
        let (minute, after) = text.split_first_chunk::<MINUTE>()?;
        let (second, after) = parse_second(after)?;
        if *minute != self.text {
            self.minute = parse_minute(minute)?;
            self.text = *minute;
            self.local_start = None;
        }
        let (nanos, zone) = match after {
            [b'.', digits @ ..] => parse_fraction(digits)?,
            _ => (0, after),
        };
        let is_local = zone.is_empty();
        let offset = if is_local { self.local_offset() } else { parse_any_zone(zone)? };
        let start = u64::try_from(self.minute - offset).ok()?.checked_mul(NANOS_PER_SECOND)?;
        let at = Timestamp::from_nanos(start.checked_add(second * NANOS_PER_SECOND + nanos)?)?;
        if is_local {
            self.local = true;
            self.local_start = Timestamp::from_nanos(start);
        }
        Some(at)
    }
}

/// The one to nine digits at the start of `text` as nanoseconds, and the remaining text.
fn parse_fraction(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut nanos, mut unit, mut rest) = (0, NANOS_PER_SECOND, text);
    while let [found @ b'0'..=b'9', tail @ ..] = rest {
        unit /= 10;
        if unit == 0 {
            return None;
        }
        nanos += u64::from(found - b'0') * unit;
        rest = tail;
    }
    (rest.len() < text.len()).then_some((nanos, rest))
}

/// Unix time in seconds, milli-, micro- or nanoseconds, with or without a fraction. The number of digits
/// shows the unit, from 1973 on.
#[cold]
fn unix_time(text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.is_empty() {
        return None;
    }
    let unit = match whole.len() {
        9 | 10 => NANOS_PER_SECOND,
        12 | 13 => 1_000_000,
        15 | 16 => 1_000,
        18 | 19 => 1,
        _ => return None,
    };
    let whole = whole.parse::<u64>().ok()?.checked_mul(unit)?;
    let places = fraction.bytes().scan(unit, |unit, digit| {
        *unit /= 10;
        Some(u64::from(digit - b'0') * *unit)
    });
    Timestamp::from_nanos(whole.checked_add(places.sum())?)
}

/// A time zone of a timestamp, in seconds ahead of UTC: as ISO 8601 writes it, or ` UTC`.
fn parse_any_zone(text: &[u8]) -> Option<i64> {
    match text.trim_ascii_start() {
        b"UTC" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, m1, m2] => parse_zone(&[*sign, *h1, *h2, b':', *m1, *m2]),
        [sign @ (b'+' | b'-'), h1, h2] => parse_zone(&[*sign, *h1, *h2, b':', b'0', b'0']),
        zone => parse_zone(zone),
    }
}

/// A time zone in seconds ahead of UTC.
fn parse_zone(text: &[u8]) -> Option<i64> {
    let (sign, h, m) = match text {
        [b'Z'] => return Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => (sign, [*h1, *h2], [*m1, *m2]),
        _ => return None,
    };
    let (hours, minutes) = (number(&h)?, number(&m)?);
    let seconds = i64::from(hours) * 3_600 + i64::from(minutes) * 60;
    (hours < 24 && minutes < 60).then_some(if *sign == b'-' { -seconds } else { seconds })
}

/// The second at the start of `text`, `:27`, and the remaining text.
fn parse_second(text: &[u8]) -> Option<(u64, &[u8])> {
    let ([b':', digits @ ..], after) = text.split_first_chunk::<3>()? else { return None };
    let second = u64::from(number(digits)?);
    (second < 60).then_some((second, after))
}

/// Seconds since 1970 of a calendar date and minute, 1969 to 2262: a time zone may move either end
/// into range.
fn parse_minute(text: &[u8; MINUTE]) -> Option<i64> {
    let [y1, y2, y3, y4, s1, mo1, mo2, s2, d1, d2, t, h1, h2, c1, mi1, mi2] = *text;
    let marks = matches!(s1, b'/' | b'-') && s1 == s2 && matches!(t, b' ' | b'T');
    if !marks || c1 != b':' {
        return None;
    }
    let year = number(&[y1, y2, y3, y4]).filter(|year| (1969..=2262).contains(year))?;
    let pair = |tens: u8, ones: u8| u8::try_from(number(&[tens, ones])?).ok();
    let month = Month::try_from(pair(mo1, mo2)?).ok()?;
    let date = Date::from_calendar_date(i32::from(year), month, pair(d1, d2)?).ok()?;
    let time = Time::from_hms(pair(h1, h2)?, pair(mi1, mi2)?, 0).ok()?;
    Some(UtcDateTime::new(date, time).unix_timestamp())
}

/// A number of up to four digits.
fn number(digits: &[u8]) -> Option<u16> {
    digits.iter().try_fold(0, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + u16::from(digit - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use time::{Date, Month, Time, UtcDateTime};

    use super::*;

    fn nanos(text: &str) -> Option<u64> {
        TimestampParser::new(None).read(text.as_bytes()).map(Timestamp::as_nanos)
    }

    #[test]
    fn common_formats_are_equivalent() {
        let expected = nanos("2026/07/27 00:22:27.123");
        assert_eq!(expected, Some(1_785_111_747_123_000_000));
        for text in [
            "2026-07-27 00:22:27.123",
            "2026-07-27T00:22:27.123Z",
            "2026/07/27 00:22:27.123000000",
            "2026-07-27T02:22:27.123+02:00",
            "2026-07-26T19:52:27.123-04:30",
            "2026/07/27 00:22:27.1230",
            "2026-07-27T02:22:27.123+0200",
            "2026-07-27 02:22:27.123 +02",
            "2026-07-27 00:22:27.123 UTC",
            "1785111747.123",
            "1785111747.1230000000",
            "1785111747123",
            "1785111747123.0",
            "1785111747123000",
            "1785111747123000000",
        ] {
            assert_eq!(nanos(text), expected, "{text}");
        }
    }

    #[test]
    fn invalid_timestamp_is_rejected() {
        for text in [
            "",
            "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
            "2026/07/27",
            "2026/07-27 00:22:27",
            "2026/02/29 00:00:00",
            "2100/02/29 00:00:00",
            "2026/13/01 00:00:00",
            "2026/00/01 00:00:00",
            "2026/01/00 00:00:00",
            "2026/07/27 24:00:00",
            "2026/07/27 00:00:60",
            "2026/07/27 00:00:00.",
            "2026/07/27 00:00:00.1234567890",
            "2026/07/27 00:00:00+24:00",
            "1969/12/31 23:59:59.999",
            "2262/01/01 00:00:00",
            "9999/01/01 00:00:00",
            "12",
            "1785111747.",
            ".1785111747",
            "1.785111747e9",
            "-1785111747",
            "17851117471",
            "9999999999",
            "1785111747,5",
            "99999999999999999999",
            "9999999999999999999",
        ] {
            assert_eq!(nanos(text), None, "{text:?}");
        }
        assert_eq!(nanos("2000/02/29 00:00:00"), Some(951_782_400_000_000_000));
        assert_eq!(nanos("2261/12/31 23:59:59.999999999"), Some(Timestamp::END - 1));
        assert_eq!(nanos("1969/12/31 23:59:59.5-00:01"), Some(59_500_000_000));
    }

    #[test]
    fn offset_applies_to_local_time_only() {
        let mut parser = TimestampParser::new(Some("+02:00".parse().unwrap()));
        let mut read = |text: &str| parser.read(text.as_bytes()).unwrap().as_nanos();
        assert_eq!(read("1970/01/01 02:00:01"), NANOS_PER_SECOND);
        assert_eq!(read("1970/01/01 02:00:01Z"), 7_201 * NANOS_PER_SECOND);
        assert!(!parser.assumed_utc());
    }

    #[test]
    fn offset_parses_hours_and_minutes() {
        assert_eq!("-09:30".parse(), Ok(UtcOffset { seconds: -34_200 }));
        assert_eq!("Z".parse(), Ok(UtcOffset { seconds: 0 }));
        for text in ["", "2", "+2", "+02", "02:00", "+02:60", "+24:00", "+02:00 "] {
            assert!(text.parse::<UtcOffset>().is_err(), "{text:?} was accepted");
        }
    }

    proptest! {
        /// Agrees with the `time` crate on any date, valid or not.
        #[test]
        fn timestamp_agrees_with_time_crate(
            year in 1969_i32..=2263, month in 0_u8..=13, day in 0_u8..=32,
            (hour, minute, second) in (0_u8..=24, 0_u8..=60, 0_u8..=60),
            nano in 0_u32..1_000_000_000,
        ) {
            let text = format!("{year:04}/{month:02}/{day:02} {hour:02}:{minute:02}:{second:02}.{nano:09}");
            let known = Month::try_from(month).ok()
                .and_then(|month| Date::from_calendar_date(year, month, day).ok())
                .zip(Time::from_hms_nano(hour, minute, second, nano).ok())
                .and_then(|(date, time)| {
                    u64::try_from(UtcDateTime::new(date, time).unix_timestamp_nanos()).ok()
                })
                .filter(|nanos| *nanos < Timestamp::END);
            prop_assert_eq!(nanos(&text), known);
        }

        /// Unix time is what it counts, in each unit, with any fraction.
        #[test]
        fn unix_time_is_read_in_each_unit(nanos in 1_000_000_000_000_000_000..Timestamp::END) {
            for unit in [1_000_000_000, 1_000_000, 1_000] {
                let width = unit.to_string().len() - 1;
                let text = format!("{}.{:0width$}", nanos / unit, nanos % unit);
                prop_assert_eq!(self::nanos(&text), Some(nanos));
                let whole = (nanos / unit).to_string();
                prop_assert_eq!(self::nanos(&whole), Some(nanos / unit * unit));
            }
            prop_assert_eq!(self::nanos(&nanos.to_string()), Some(nanos));
        }

        /// The cached minute never affects the next timestamp.
        #[test]
        fn cached_minute_does_not_affect_result(texts in proptest::collection::vec(
            prop_oneof![
                "2026/0[1-3]/[0-3][0-9] 00:00:0[0-2](\\.[0-9]{0,4})?Z?",
                "2026/01/01 00:0[0-1]:[0-6][0-9]\\.[0-9]{3}(Z|\\+00:01)?",
            ],
            1..20,
        )) {
            let mut parser = TimestampParser::new(None);
            for text in &texts {
                let fresh = TimestampParser::new(None).read(text.as_bytes());
                prop_assert_eq!(parser.read(text.as_bytes()), fresh);
            }
        }
    }
}
