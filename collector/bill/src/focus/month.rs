//! Billing periods: months in UTC.

use phasemeter_meter::units::Timestamp;
use time::{Duration, OffsetDateTime};

use crate::report::Period;

/// The start of the month of an instant, or of the month after it; `None` beyond the range of timestamps.
pub(super) fn month(at: Timestamp, is_next: bool) -> Option<Timestamp> {
    let at = OffsetDateTime::from_unix_timestamp_nanos(at.as_nanos().into()).ok()?;
    let days = if is_next { at.month().length(at.year()) } else { 0 };
    let first = at.date().replace_day(1).ok()?.checked_add(Duration::days(days.into()))?;
    let nanos = first.midnight().assume_utc().unix_timestamp_nanos();
    u64::try_from(nanos).ok().and_then(Timestamp::from_nanos)
}

/// The parts of a period, each within one month.
pub(super) fn by_month(period: &Period) -> Vec<Period> {
    let mut parts = Vec::new();
    let mut from = period.start;
    while from < period.end {
        let to = month(from, true).map_or(period.end, |next| next.min(period.end));
        parts.push(period.part(from, to));
        from = to;
    }
    parts
}
