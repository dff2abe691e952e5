//! Numbers as people read them: grouped digits, few decimals.

/// Digits in groups of three: `1,234,567`.
#[must_use]
pub fn grouped(number: u128) -> String {
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

/// A decimal number with its digits in groups: `1,234.5`.
#[must_use]
pub fn with_commas(decimal: &str) -> String {
    let (whole, fraction) = decimal.split_at(decimal.find('.').unwrap_or(decimal.len()));
    whole.parse().map_or_else(|_| decimal.to_owned(), |whole| grouped(whole) + fraction)
}

/// A decimal number without trailing zeros of its fraction.
#[must_use]
pub fn trimmed(decimal: &str) -> &str {
    if decimal.contains('.') {
        decimal.trim_end_matches('0').trim_end_matches('.')
    } else {
        decimal
    }
}

/// Any number to this many significant digits, with at most four decimals. More digits before the point are
/// kept.
#[must_use]
pub fn number(number: f64, digits: i32) -> String {
    let magnitude = number.abs();
    let suffices = |decimals: &i32| magnitude >= 10_f64.powi(digits - 1 - decimals);
    let decimals = usize::try_from((0..4).find(suffices).unwrap_or(4)).unwrap_or(4);
    let written = format!("{magnitude:.decimals$}");
    let sign = if number < 0.0 { "−" } else { "" };
    format!("{sign}{}", with_commas(trimmed(&written)))
}

/// A fraction as a percentage to one decimal: `40.5%`, `−7.1%`.
#[must_use]
pub fn percent(fraction: f64) -> String {
    let written = format!("{:.1}", (fraction * 100.0).abs());
    let sign = if fraction < 0.0 && written != "0.0" { "−" } else { "" };
    format!("{sign}{written}%")
}

/// A count of so many per unit, to one decimal and rounded half up: bytes in GiB, for example.
#[must_use]
pub fn tenths_of(count: u64, unit: u64) -> String {
    let (count, unit) = (u128::from(count), u128::from(unit.max(1)));
    let tenths = (count * 10 + unit / 2) / unit;
    format!("{}.{}", grouped(tenths / 10), tenths % 10)
}

/// A count and its noun: `1 GPU`, `1,234 GPUs`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{} {noun}{ending}", grouped(count.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_significant_digits() {
        let numbers = [428.235_294, 0.045, 17.572, 153.016, 3_200.0, -7.0];
        let four = ["428.2", "0.045", "17.57", "153", "3,200", "−7"];
        assert_eq!(numbers.map(|it| number(it, 4)), four);
        let numbers = [16.0, 51.3, 6.88, 0.513, 0.0625, 1_234.5];
        let three = ["16", "51.3", "6.88", "0.513", "0.0625", "1,234"];
        assert_eq!(numbers.map(|it| number(it, 3)), three);
        assert_eq!(number(f64::INFINITY, 3), "inf");
    }

    #[test]
    fn percentages_have_one_decimal() {
        assert_eq!([0.405_23, -0.070_588, -0.000_1].map(percent), ["40.5%", "−7.1%", "0.0%"]);
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!((grouped(0), with_commas("1234.5")), ("0".to_owned(), "1,234.5".to_owned()));
        assert_eq!(counted(1, "GPU") + ", " + &counted(2_000, "GPU"), "1 GPU, 2,000 GPUs");
        assert_eq!(tenths_of(32_212_254_720, 1 << 30), "30.0");
    }
}
