//! Values of rules as text: times, shares and temperatures.

use phasemeter_meter::units::Nanos;

/// What a time is expected to be.
pub(crate) const EXPECTED_TIME: &str = "expected whole minutes, hours or days, like 30m, 1h or 7d";

/// A time like `30m`, `1h` or `7d`.
pub(crate) fn time(text: &str) -> Option<Nanos> {
    let (digits, seconds) = match text.as_bytes().split_last()? {
        (b'm', digits) => (digits, 60),
        (b'h', digits) => (digits, 3_600),
        (b'd', digits) => (digits, 86_400),
        _ => return None,
    };
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    let count: u32 = text.get(..digits.len()).filter(|_| is_number)?.parse().ok()?;
    Some(Nanos::from_secs(u64::from(count) * seconds))
}

/// What a threshold is expected to be.
pub(crate) const fn expected_threshold(is_share: bool) -> &'static str {
    if is_share {
        "expected a percentage from 0 to 100, like 85 or 12.5"
    } else {
        "expected degrees Celsius from 0 to 200, like 83"
    }
}

/// A threshold in the unit of the metric, from percent or degrees.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "within limits that were checked"
)]
pub(crate) fn threshold(value: f64, is_share: bool) -> Option<u32> {
    let (most, scale) = if is_share { (100.0, 10_000.0) } else { (200.0, 1_000_000.0) };
    (0.0..=most).contains(&value).then(|| (value * scale).round() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_parsed_exactly_or_rejected() {
        for (text, seconds) in [("0m", 0), ("30m", 1_800), ("1h", 3_600), ("7d", 604_800)] {
            assert_eq!(time(text), Some(Nanos::from_secs(seconds)), "{text}");
        }
        for text in ["", "m", "1", "1s", "-1m", "+1m", "1.5h", "1 h", "99999999999m", "1m30s", "é"]
        {
            assert_eq!(time(text), None, "{text}");
        }
    }

    #[test]
    fn thresholds_are_in_the_unit_of_the_metric_or_rejected() {
        assert_eq!(threshold(12.5, true), Some(125_000));
        assert_eq!(threshold(83.0, false), Some(83_000_000));
        for (value, is_share) in [(100.1, true), (-1.0, true), (f64::NAN, true), (201.0, false)] {
            assert_eq!(threshold(value, is_share), None, "{value}");
        }
    }
}
