//! Formats numbers for people, as the report does.
//!
//! Uses integers only: `core`'s float formatting would double the size of a small policy.

/// Seconds of an hour.
pub const HOUR: f64 = 3_600.0;

/// Seconds of a minute.
pub const MINUTE: f64 = 60.0;

/// Seconds of a day.
pub const DAY: f64 = 86_400.0;

/// Names in a list, at most.
const NAMED: usize = 3;

/// Formats a share as a percentage, with one decimal below 10%: `51%`, `2.5%`.
#[must_use]
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    decimal(percent, usize::from(percent < 9.95)) + "%"
}

/// Formats a number with `places` decimals, at most nine, rounded half up, and with commas between
/// thousands: `decimal(1.25, 1)` is `1.3`.
#[must_use]
pub fn decimal(number: f64, places: usize) -> String {
    let scale = 10_u64.pow(places.min(9) as u32);
    // The cast saturates, and turns NaN into 0.
    let scaled = (number.abs() * scale as f64 + 0.5) as u64;
    let mut text = thousands(scaled / scale);
    if places > 0 {
        let fraction = (scaled % scale + scale).to_string();
        text.push('.');
        text.push_str(&fraction[1..]);
    }
    if number < 0.0 && scaled > 0 { ["−", &text].concat() } else { text }
}

/// Formats nano-USD as dollars and cents, rounded half up: `$1,024.50`.
#[must_use]
pub fn usd(nano_usd: u64) -> String {
    let cents = nano_usd / 10_000_000 + u64::from(nano_usd % 10_000_000 >= 5_000_000);
    let text = (cents % 100 + 100).to_string();
    ["$", &thousands(cents / 100), ".", &text[1..]].concat()
}

/// Formats bytes in GiB: `30.0 GiB`.
#[must_use]
pub fn gib(bytes: f64) -> String {
    decimal(bytes / f64::from(1 << 30), 1) + " GiB"
}

/// Formats seconds in their two largest units: `3 h 47 min`, `42 s`, `0.4 s`.
#[must_use]
pub fn duration(seconds: f64) -> String {
    if seconds < 9.95 {
        return decimal(seconds, 1) + " s";
    }
    let whole = (seconds + 0.5) as u64;
    let (hours, minutes) = (whole / 3_600, whole % 3_600 / 60);
    match (hours, minutes, whole % 60) {
        (0, 0, seconds) => [&seconds.to_string(), " s"].concat(),
        (0, minutes, 0) => [&minutes.to_string(), " min"].concat(),
        (0, minutes, seconds) => {
            [&minutes.to_string(), " min ", &seconds.to_string(), " s"].concat()
        }
        (hours, 0, _) => [&thousands(hours), " h"].concat(),
        (hours, minutes, _) => [&thousands(hours), " h ", &minutes.to_string(), " min"].concat(),
    }
}

/// Formats seconds in whole minutes, at least one: `3 h 47 min`.
#[must_use]
pub fn minutes(seconds: f64) -> String {
    duration((seconds / MINUTE + 0.5).floor().max(1.0) * MINUTE)
}

/// Formats nanoseconds since 1970 as minutes of UTC: `2026-07-27 14:05 UTC`.
#[must_use]
pub fn instant(nanos: u64) -> String {
    let minutes = nanos / 60_000_000_000;
    let (day, minute) = (minutes / 1_440, minutes % 1_440);
    // Days of the Gregorian calendar, in years that begin in March.
    let days = day + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march = (5 * of_year + 2) / 153;
    let date = of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let two = |number: u64| (number + 100).to_string().split_off(1);
    let [month, date, hour, minute] = [month, date, minute / 60, minute % 60].map(two);
    [&*year.to_string(), "-", &month, "-", &date, " ", &hour, ":", &minute, " UTC"].concat()
}

/// Formats a count: `1 GPU`, `3 GPUs`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    [&*number.to_string(), " ", noun, plural].concat()
}

/// Returns the subject of a sentence about `number` GPUs: `The GPU` or `Each GPU`.
#[must_use]
pub fn subject(number: usize) -> &'static str {
    if number == 1 { "The GPU" } else { "Each GPU" }
}

/// Returns what an action is about: `this GPU` or `these GPUs`.
#[must_use]
pub fn these(number: usize) -> &'static str {
    if number == 1 { "this GPU" } else { "these GPUs" }
}

/// Lists names, of many the first: `a, b, c and 4 more`.
#[must_use]
pub fn list<T: AsRef<str>>(names: &[T]) -> String {
    let named: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let more = match names.len() - named.len() {
        0 => String::new(),
        more => [" and ", &*more.to_string(), " more"].concat(),
    };
    named.join(", ") + &more
}

fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_of_share() {
        let shares = [0.513, 0.0995, 0.0994, 0.025, 0.0, 1.0].map(percent);
        assert_eq!(shares, ["51%", "10%", "9.9%", "2.5%", "0.0%", "100%"]);
    }

    #[test]
    fn instants_are_minutes_of_utc() {
        let of = |seconds: u64| instant(seconds * 1_000_000_000);
        assert_eq!(of(0), "1970-01-01 00:00 UTC");
        assert_eq!(of(1_785_161_139), "2026-07-27 14:05 UTC");
        assert_eq!(of(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(of(4_107_542_400), "2100-03-01 00:00 UTC");
    }

    #[test]
    fn usd_rounds_to_cents() {
        let amounts = [0, 4_999_999, 5_000_000, 1_024_499_999_999, u64::MAX].map(usd);
        assert_eq!(amounts, ["$0.00", "$0.00", "$0.01", "$1,024.50", "$18,446,744,073.71"]);
    }

    #[test]
    fn duration_has_at_most_two_units() {
        let times = [0.42, 9.94, 9.96, 90.0, 120.0, 3_600.0, 13_620.0].map(duration);
        assert_eq!(times, ["0.4 s", "9.9 s", "10 s", "1 min 30 s", "2 min", "1 h", "3 h 47 min"]);
    }

    #[test]
    fn decimal_rounds_and_saturates() {
        assert_eq!(decimal(1.25, 1), "1.3");
        assert_eq!(decimal(11_475.6, 2), "11,475.60");
        assert_eq!(decimal(-2.0, 0), "−2");
        assert_eq!(decimal(-0.01, 1), "0.0");
        assert_eq!(decimal(f64::NAN, 0), "0");
        assert_eq!(decimal(f64::INFINITY, 0), "18,446,744,073,709,551,615");
        assert_eq!(gib(42_949_672_960.0), "40.0 GiB");
    }
}
