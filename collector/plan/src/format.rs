//! Numbers in formulas and sentences.

use phasemeter_meter::money::{NanoUsd, Rate, div_half_even};

/// Dollars and cents: `$17,625.60`, `−$86.40`. Amounts below ten cents have five decimals.
pub(crate) fn usd(amount: NanoUsd) -> String {
    let magnitude = amount.0.unsigned_abs();
    let decimals = if magnitude > 0 && magnitude < 100_000_000 { 5 } else { 2 };
    let exact = i128::try_from(magnitude).unwrap_or(i128::MAX);
    let rounded = div_half_even(exact, 10_i128.pow(9 - decimals)).unwrap_or(0).unsigned_abs();
    let unit = 10_u128.pow(decimals);
    let sign = if amount.0 < 0 && rounded > 0 { "−" } else { "" };
    let width = usize::try_from(decimals).unwrap_or(2);
    format!("{sign}${}.{:0width$}", grouped(rounded / unit), rounded % unit)
}

/// Dollars to a hundredth of a cent: `$2.7397`.
pub(crate) fn fine(amount: NanoUsd) -> String {
    let rounded = div_half_even(amount.0.abs(), 100_000).unwrap_or(0).unsigned_abs();
    let sign = if amount.0 < 0 && rounded > 0 { "−" } else { "" };
    format!("{sign}${}.{:04}", grouped(rounded / 10_000), rounded % 10_000)
}

/// An exact rate with at least two decimals: `$3.06`.
pub(crate) fn rate(rate: Rate) -> String {
    let exact = rate.hourly().to_string();
    let (whole, decimals) = exact.split_once('.').unwrap_or((&exact, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    format!("${whole}.{:0<2}", decimals.trim_end_matches('0'))
}

/// `1,234,567`.
pub(crate) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// A number with up to four significant digits below 1,000, and whole above.
pub(crate) fn number(number: f64) -> String {
    let magnitude = number.abs();
    let decimals = match magnitude {
        _ if magnitude >= 1_000.0 => 0,
        _ if magnitude >= 100.0 => 1,
        _ if magnitude >= 10.0 => 2,
        _ if magnitude >= 1.0 => 3,
        _ => 4,
    };
    let written = format!("{magnitude:.decimals$}");
    let (whole, fraction) = written.split_once('.').unwrap_or((&written, ""));
    let whole = whole.parse().map_or_else(|_| whole.to_owned(), grouped);
    let decimal = if fraction.is_empty() { whole } else { format!("{whole}.{fraction}") };
    let sign = if number < 0.0 { "−" } else { "" };
    format!("{sign}{}", trimmed(&decimal))
}

/// A fraction as a percentage with one decimal: `40.5%`, `−7.1%`.
pub(crate) fn percent(fraction: f64) -> String {
    let written = format!("{:.1}", (fraction * 100.0).abs());
    let sign = if fraction < 0.0 && written != "0.0" { "−" } else { "" };
    format!("{sign}{written}%")
}

/// Bytes in GB to one decimal, without the unit.
pub(crate) fn gb(bytes: u64) -> String {
    tenths(bytes, 1_000_000_000)
}

/// Bytes in GiB to one decimal, without the unit.
pub(crate) fn gib(bytes: u64) -> String {
    tenths(bytes, 1 << 30)
}

fn tenths(bytes: u64, unit: u64) -> String {
    let tenths = (u128::from(bytes) * 10 + u128::from(unit / 2)) / u128::from(unit);
    trimmed(&format!("{}.{}", grouped(tenths / 10), tenths % 10)).to_owned()
}

/// A time in the unit that suits it: `30 ms`, `90 s`, `14 d`.
pub(crate) fn seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 2.0 * 86_400.0 => format!("{} d", number(seconds / 86_400.0)),
        _ if seconds >= 3_600.0 => format!("{} h", number(seconds / 3_600.0)),
        _ if seconds >= 120.0 => format!("{} min", number(seconds / 60.0)),
        _ if seconds >= 1.0 => format!("{} s", number(seconds)),
        _ => format!("{} ms", number(seconds * 1e3)),
    }
}

/// `7B`, `1.5M`, `200,000`.
pub(crate) fn count(count: u64) -> String {
    for (unit, suffix) in [(1_000_000_000, "B"), (1_000_000, "M")] {
        if count >= unit && count.is_multiple_of(unit / 1_000) {
            let thousandths = count / (unit / 1_000);
            let decimal = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
            return format!("{}{suffix}", trimmed(&decimal));
        }
    }
    grouped(u128::from(count))
}

/// `1 GPU`, `8 GPUs`.
pub(crate) fn gpus(count: u64) -> String {
    if count == 1 { "1 GPU".to_owned() } else { format!("{} GPUs", grouped(u128::from(count))) }
}

/// Without trailing zeros of a fraction.
pub(crate) fn trimmed(decimal: &str) -> &str {
    if decimal.contains('.') {
        decimal.trim_end_matches('0').trim_end_matches('.')
    } else {
        decimal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_cents_and_its_sign() {
        assert_eq!(usd(NanoUsd(17_625_600_000_000)), "$17,625.60");
        assert_eq!(usd(NanoUsd(-86_400_000_000)), "−$86.40");
        assert_eq!(usd(NanoUsd(400_000)), "$0.00040");
        assert_eq!(usd(NanoUsd(0)), "$0.00");
        assert_eq!(rate(Rate::parse("3.06").unwrap()), "$3.06");
        assert_eq!(rate(Rate::parse("0.5708").unwrap()), "$0.5708");
    }

    #[test]
    fn numbers_have_four_significant_digits() {
        let numbers = [428.235_294, 0.045, 17.572, 153.016, 3_200.0, -7.0];
        assert_eq!(numbers.map(number), ["428.2", "0.045", "17.57", "153", "3,200", "−7"]);
        assert_eq!([0.405_23, -0.070_588, -0.000_1].map(percent), ["40.5%", "−7.1%", "0.0%"]);
        assert_eq!(
            [0.03, 90.0, 14_400.0, 1_209_600.0].map(seconds),
            ["30 ms", "90 s", "4 h", "14 d"]
        );
        assert_eq!([200_000, 7_000_000_000, 1_500_000].map(count), ["200,000", "7B", "1.5M"]);
        assert_eq!(
            (gb(104_000_000_000), gib(104_000_000_000)),
            ("104".to_owned(), "96.9".to_owned())
        );
    }
}
