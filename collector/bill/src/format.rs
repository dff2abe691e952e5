//! Numbers as text: dollars to the cent, hours, percentages.

use phasemeter_meter::money::NanoUsd;
use phasemeter_terminal::money;
use phasemeter_terminal::number::with_commas;
use phasemeter_terminal::printed::{CENT, rounded};

/// Dollars with two decimals, rounded half to even; an amount that is not zero never displays as zero.
pub(crate) fn dollars(amount: NanoUsd) -> String {
    printed(rounded(amount, CENT), amount)
}

/// Cents of an amount, which were rounded beside others.
pub(crate) fn printed(cents: i128, amount: NanoUsd) -> String {
    if cents == 0 && amount != NanoUsd::ZERO {
        return if amount.0 < 0 { "-<$0.01".to_owned() } else { "<$0.01".to_owned() };
    }
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}", money::dollars(cents, 2))
}

/// Hours beside a sum: three decimals if that is below a hundred, else one.
pub(crate) fn hours(hours: f64, sum: f64) -> String {
    if sum < 100.0 {
        return format!("{hours:.3}");
    }
    with_commas(&format!("{hours:.1}"))
}

/// A part of a whole to one decimal; `–` if there is no whole.
pub(crate) fn percent(part: NanoUsd, whole: NanoUsd) -> String {
    match part.ratio(1_000, whole.0) {
        Some(NanoUsd(tenths)) => {
            let sign = if tenths < 0 { "-" } else { "" };
            let tenths = tenths.unsigned_abs();
            format!("{sign}{}.{}%", tenths / 10, tenths % 10)
        }
        None => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dollars_have_cents_and_are_grouped() {
        let text = |nanos| dollars(NanoUsd(nanos));
        assert_eq!(text(1_234_567_890_000_000), "$1,234,567.89");
        assert_eq!(text(-1_500_000_000), "-$1.50");
        assert_eq!((text(0), text(1)), ("$0.00".to_owned(), "<$0.01".to_owned()));
    }

    #[test]
    fn hours_and_percent_are_short() {
        assert_eq!(hours(6.0, 18.0), "6.000");
        assert_eq!(
            (hours(6.0, 2e3), hours(1_234.56, 2e3)),
            ("6.0".to_owned(), "1,234.6".to_owned())
        );
        assert_eq!(percent(NanoUsd(1), NanoUsd(3)), "33.3%");
        assert_eq!(percent(NanoUsd(1), NanoUsd(0)), "–");
    }
}
