//! Billing periods: months in UTC.

use phasemeter_meter::date::Date;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::units::Timestamp;

use crate::report::Period;

/// The start of the month of an instant, or of a later one; `None` beyond the range of timestamps.
pub(super) fn month(at: Timestamp, later: u32) -> Option<Timestamp> {
    let date = Date::of(at).to_string();
    let mut parts = date.split('-').map(|part| part.parse::<u32>().unwrap_or_default());
    let (year, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let months = (year * 12 + month + later).saturating_sub(1);
    let first = format!("{:04}-{:02}-01T00:00:00Z", months / 12, months % 12 + 1);
    first.parse().map(|Instant(at)| at).ok()
}

/// The parts of a period, each within one month.
pub(super) fn by_month(period: &Period) -> Vec<Period> {
    let mut parts = Vec::new();
    let mut from = period.start;
    while from < period.end {
        let to = month(from, 1).map_or(period.end, |next| next.min(period.end));
        parts.push(period.part(from, to));
        from = to;
    }
    parts
}
