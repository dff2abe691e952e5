//! Dollars as people read them.

use crate::printed::rounded;
use phasemeter_meter::money::{NanoUsd, Rate};

use crate::number::{grouped, with_commas};

/// Nano-dollars of one unit of the last of so many decimals.
#[must_use]
pub fn unit(decimals: u32) -> i128 {
    10_i128.pow(9_u32.saturating_sub(decimals))
}

/// The magnitude of an amount in units of the last of so many decimals: `$1,234.56`.
#[must_use]
pub fn dollars(units: i128, decimals: u32) -> String {
    let (units, one) = (units.unsigned_abs(), 10_u128.pow(decimals));
    let width = usize::try_from(decimals).unwrap_or_default();
    if decimals == 0 {
        return format!("${}", grouped(units));
    }
    format!("${}.{:0width$}", grouped(units / one), units % one)
}

/// An amount to so many decimals, rounded half to even: `−$86.40`.
#[must_use]
pub fn amount(amount: NanoUsd, decimals: u32) -> String {
    let units = rounded(amount, unit(decimals));
    let sign = if units < 0 { "−" } else { "" };
    format!("{sign}{}", dollars(units, decimals))
}

/// An exact rate with at least two decimals: `$3.06`, `$0.5708`.
#[must_use]
pub fn rate(rate: Rate) -> String {
    let exact = rate.hourly().to_string();
    let (whole, decimals) = exact.split_once('.').unwrap_or((&exact, ""));
    format!("${}.{:0<2}", with_commas(whole), decimals.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_decimals_and_a_sign() {
        assert_eq!(amount(NanoUsd(17_625_600_000_000), 2), "$17,625.60");
        assert_eq!(amount(NanoUsd(-86_400_000_000), 2), "−$86.40");
        assert_eq!(amount(NanoUsd(-1), 2), "$0.00");
        assert_eq!(amount(NanoUsd(2_739_720_000), 4), "$2.7397");
        assert_eq!(dollars(-1_234, 0), "$1,234");
    }

    #[test]
    fn rates_are_exact() {
        let of = |text| rate(Rate::parse(text).unwrap());
        assert_eq!([of("3"), of("3.06"), of("0.5708")], ["$3.00", "$3.06", "$0.5708"]);
        assert_eq!(of("3.673385"), "$3.673385");
        assert_eq!(of("10000"), "$10,000.00");
    }
}
