//! Parsers of command-line values. Errors state what was expected; clap adds flag and value.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use phasemeter_meter::phase::Thresholds;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{Nanos, Utilization};
use phasemeter_otlp::experiment::{TraceParent, TraceParentError};

pub(super) fn seconds(text: &str) -> Result<Nanos, String> {
    decimal(text, 9)
        .filter(|nanos| *nanos > 0)
        .map(Nanos)
        .ok_or_else(|| "expected seconds above 0, like 15 or 0.5".to_owned())
}

/// A length that divides a day.
#[cfg(any(feature = "full", test))]
pub(super) fn period(text: &str) -> Result<Nanos, String> {
    const DAY: Nanos = Nanos::from_secs(86_400);
    let is_period =
        |length: &Nanos| DAY.0.is_multiple_of(length.0) && length.0.is_multiple_of(1_000_000_000);
    let length = duration(text).ok().filter(is_period);
    length.ok_or_else(|| "expected a length that divides a day, like 1h or 24h".to_owned())
}

/// A number with a unit, at least a second.
#[cfg(any(feature = "full", test))]
pub(super) fn duration(text: &str) -> Result<Nanos, String> {
    let units = [("s", 1), ("m", 60), ("h", 3_600), ("d", 86_400)];
    let unit = units.iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let nanos = unit.and_then(|(number, seconds)| decimal(number, 9)?.checked_mul(seconds));
    nanos.map(Nanos).filter(|nanos| *nanos >= Nanos::SECOND).ok_or_else(|| {
        "expected a number with s, m, h or d, like 1h, of at least a second".to_owned()
    })
}

/// A decimal number times 10^`places`; `None` if it is invalid or has more fractional digits.
fn decimal(text: &str, places: usize) -> Option<u64> {
    let (whole, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = !whole.is_empty() && fraction.len() <= places && digits(whole) && digits(fraction);
    if fits { format!("{whole}{fraction:0<places$}").parse().ok() } else { None }
}

pub(super) fn thresholds(text: &str) -> Result<Thresholds, String> {
    let bounds: Option<Vec<_>> = text.split(',').map(percent).collect();
    match bounds.as_deref() {
        Some(&[idle, productive, compute_bound]) => {
            Thresholds::new(idle, productive, compute_bound).map_err(|error| error.to_string())
        }
        _ => Err("expected three percentages, like 10,70,90".to_owned()),
    }
}

pub(super) fn plan(text: &str) -> Result<PaymentPlan, String> {
    text.parse().map_err(|_| {
        format!("expected one of {}", PaymentPlan::ALL.map(PaymentPlan::as_str).join(", "))
    })
}

pub(super) fn traceparent(text: &str) -> Result<TraceParent, String> {
    text.parse().map_err(|error: TraceParentError| format!("expected {}", error.expected()))
}

/// A parser of these values by name. `known`: name, description for the help, value.
pub(super) fn one_of<T, const N: usize>(
    known: [(&'static str, &'static str, T); N],
) -> impl TypedValueParser<Value = T>
where
    T: Copy + Send + Sync + 'static,
{
    let names = known.map(|(name, help, _)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(names).try_map(move |text| {
        let found = known.into_iter().find(|(name, ..)| *name == text);
        found.map(|(.., value)| value).ok_or("unknown value")
    })
}

fn percent(text: &str) -> Option<Utilization> {
    decimal(text, 4).and_then(|ppm| u32::try_from(ppm).ok()).and_then(Utilization::from_ppm)
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::money::Rate;

    use super::*;

    #[test]
    fn values_are_parsed_exactly_or_rejected() {
        assert_eq!(seconds("0.5"), Ok(Nanos::from_millis(500)));
        assert_eq!(seconds("15"), Ok(Nanos::from_secs(15)));
        for text in ["", "0", "-1", "1e9", "x", "0.0000000001", "99999999999999"] {
            assert!(seconds(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(duration("1.5h"), Ok(Nanos::from_secs(5_400)));
        assert_eq!(
            ["1s", "2m", "1d"].map(duration),
            [1, 120, 86_400].map(|s| Ok(Nanos::from_secs(s)))
        );
        for text in ["", "1", "h", "0.5s", "-1h", "1w", "9999999999d"] {
            assert!(duration(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(
            ["1h", "24h", "1d"].map(period),
            [1, 24, 24].map(|h| Ok(Nanos::from_secs(h * 3_600)))
        );
        for text in ["7h", "1.5s", "2d", "25h", "x"] {
            assert!(period(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(thresholds("10,70,90"), Ok(Thresholds::default()));
        for text in ["", "10", "10,70", "10,70,101", "70,10,90", "10,70,90,95"] {
            assert!(thresholds(text).is_err(), "{text:?} was accepted");
        }
        assert_eq!(plan("reserved_1y"), Ok(PaymentPlan::Reserved1y));
    }

    /// Guarantee: no error repeats the value, which clap prints itself.
    #[test]
    fn errors_begin_with_expected() {
        let errors = [
            seconds("x").unwrap_err(),
            duration("x").unwrap_err(),
            period("7h").unwrap_err(),
            thresholds("70,10,90").unwrap_err(),
            thresholds("x").unwrap_err(),
            plan("x").unwrap_err(),
            traceparent("x").unwrap_err(),
            traceparent("00-00000000000000000000000000000000-b7ad6b7169203331-01").unwrap_err(),
            Rate::parse("x").unwrap_err().to_string(),
        ];
        for error in errors {
            assert!(error.starts_with("expected "), "{error}");
        }
    }
}
