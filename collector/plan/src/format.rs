//! Numbers in formulas and sentences.

use phasemeter_meter::money::NanoUsd;
use phasemeter_terminal::money::amount;
pub(crate) use phasemeter_terminal::money::rate;
use phasemeter_terminal::number::{self, counted, tenths_of, trimmed};
pub(crate) use phasemeter_terminal::number::{grouped, percent};

/// Dollars and cents: `$17,625.60`, `−$86.40`. Amounts below ten cents have five decimals.
pub(crate) fn usd(usd: NanoUsd) -> String {
    let is_small = (1..100_000_000).contains(&usd.0.unsigned_abs());
    amount(usd, if is_small { 5 } else { 2 })
}

/// Dollars to a hundredth of a cent: `$2.7397`.
pub(crate) fn fine(usd: NanoUsd) -> String {
    amount(usd, 4)
}

/// A number with up to four significant digits below 1,000, and whole above.
pub(crate) fn number(number: f64) -> String {
    number::number(number, 4)
}

/// Bytes in GB to one decimal, without the unit.
pub(crate) fn gb(bytes: u64) -> String {
    trimmed(&tenths_of(bytes, 1_000_000_000)).to_owned()
}

/// Bytes in GiB to one decimal, without the unit.
pub(crate) fn gib(bytes: u64) -> String {
    trimmed(&tenths_of(bytes, 1 << 30)).to_owned()
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
    counted(count, "GPU")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_amounts_have_five_decimals() {
        assert_eq!(usd(NanoUsd(17_625_600_000_000)), "$17,625.60");
        assert_eq!(usd(NanoUsd(400_000)), "$0.00040");
        assert_eq!(usd(NanoUsd(0)), "$0.00");
    }

    #[test]
    fn times_and_counts_have_units() {
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
