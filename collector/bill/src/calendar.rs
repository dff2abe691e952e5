//! Days and months in UTC, at whose ends time ranges are divided.

use phasemeter_meter::units::{NANOS_PER_SECOND, Timestamp};
use time::{Duration, OffsetDateTime};

/// Nanoseconds of a day.
const DAY: u64 = 24 * 3_600 * NANOS_PER_SECOND;

/// The start of the month of an instant, or of the month after it; `None` beyond the range of timestamps.
pub(crate) fn month(at: Timestamp, is_next: bool) -> Option<Timestamp> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(at.as_nanos().into()).ok()?;
    let days = if is_next { at.month().length(at.year()) } else { 0 };
    let first = at.date().replace_day(1).ok()?.checked_add(Duration::days(days.into()))?;
    let nanos = first.midnight().assume_utc().unix_timestamp_nanos();
    u64::try_from(nanos).ok().and_then(Timestamp::from_nanos)
}

/// The parts of a time range, each within one month.
pub(crate) fn by_month(from: Timestamp, to: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    divided(from, to, |at| month(at, true))
}

/// The parts of a time range, each within one day.
pub(crate) fn by_day(from: Timestamp, to: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    divided(from, to, |at| {
        (at.as_nanos() / DAY + 1).checked_mul(DAY).and_then(Timestamp::from_nanos)
    })
}

fn divided(
    from: Timestamp,
    to: Timestamp,
    next: impl Fn(Timestamp) -> Option<Timestamp>,
) -> Vec<(Timestamp, Timestamp)> {
    let mut parts = Vec::new();
    let mut start = from;
    while start < to {
        let end = next(start).map_or(to, |next| next.min(to));
        parts.push((start, end));
        start = end;
    }
    parts
}
