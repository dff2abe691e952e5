//! Converts dates to instants.

const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;

/// Returns the first instant of a date, like [`nanos_at_end_of`].
pub(crate) fn nanos_at_start_of(date: &str) -> Option<u64> {
    nanos_at_end_of(date).map(|end| end - NANOS_PER_DAY)
}

/// Returns the first instant after a date like `2026-12-31`, in nanoseconds since 1970; `None` if it
/// is not a date from 1970 to 2261.
pub(crate) fn nanos_at_end_of(date: &str) -> Option<u64> {
    let mut parts = date.split('-');
    let mut part = |digits: usize| -> Option<u64> {
        let part = parts.next().filter(|part| part.len() == digits)?;
        part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok())?
    };
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let is_valid =
        (1970..2262).contains(&year) && (1..=12).contains(&month) && parts.next().is_none();
    if !is_valid || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let years: u64 = (1970..year).map(|year| 365 + u64::from(is_leap(year))).sum();
    let months: u64 = (1..month).map(|month| days_in_month(year, month)).sum();
    Some((years + months + day) * NANOS_PER_DAY)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_ends_when_the_next_begins() {
        let seconds = |date| nanos_at_end_of(date).map(|nanos| nanos / 1_000_000_000);
        assert_eq!(seconds("1970-01-01"), Some(86_400));
        assert_eq!(nanos_at_start_of("1970-01-02"), nanos_at_end_of("1970-01-01"));
        assert_eq!(seconds("2026-07-26"), Some(1_785_110_400));
        assert_eq!(seconds("2000-02-29"), Some(951_868_800));
        for invalid in [
            "",
            "2026",
            "2026-1-01",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "1969-12-31",
            "2026-04-31",
            "2026-04-00",
            "2026-04-01-",
            "+026-04-01",
            "9999-01-01",
        ] {
            assert_eq!(seconds(invalid), None, "{invalid}");
        }
    }
}
