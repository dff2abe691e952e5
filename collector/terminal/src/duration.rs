//! Durations as people read them.

use phasemeter_meter::units::Nanos;

use crate::number::{grouped, trimmed};

/// `13 min 33 s`, `2 h 5 min`, `1,234 h`; tenths of a second below ten seconds.
#[must_use]
pub fn duration(time: Nanos) -> String {
    written(time, 1)
}

/// The same, aligned for a column: ` 9 min  3 s`.
#[must_use]
pub fn duration_in_column(time: Nanos) -> String {
    written(time, 2)
}

fn written(time: Nanos, width: usize) -> String {
    let round = |unit: u64| (time.0 / (unit / 2)).div_ceil(2);
    let (tenths, seconds) = (round(100_000_000), round(1_000_000_000));
    let minutes = round(60_000_000_000);
    if time > Nanos::ZERO && tenths == 0 {
        "<0.1 s".to_owned()
    } else if tenths < 100 && tenths % 10 > 0 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else if seconds < 60 {
        format!("{seconds} s")
    } else if seconds < 3_600 {
        format!("{} min {:>width$} s", seconds / 60, seconds % 60)
    } else if minutes < 6_000 {
        format!("{} h {:>width$} min", minutes / 60, minutes % 60)
    } else {
        format!("{} h", grouped(u128::from(round(3_600_000_000_000))))
    }
}

/// A short duration in seconds, at most three digits: `0.17 s`, `2.5 s`, `42 s`.
#[must_use]
pub fn seconds(time: Nanos) -> String {
    format!("{} s", seconds_alone(time))
}

/// The same without its unit.
#[must_use]
pub fn seconds_alone(time: Nanos) -> String {
    let seconds = time.as_secs_f64();
    let decimals = if seconds < 1.0 { 3 } else { usize::from(seconds < 10.0) };
    trimmed(&format!("{seconds:.decimals$}")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_use_two_units() {
        let of = |millis| duration(Nanos::from_millis(millis));
        assert_eq!(of(0), "0 s");
        assert_eq!(of(20), "<0.1 s");
        assert_eq!(of(2_740), "2.7 s");
        assert_eq!(of(9_990), "10 s");
        assert_eq!(of(59_600), "1 min 0 s");
        assert_eq!(of(813_000), "13 min 33 s");
        assert_eq!(of(7_499_000), "2 h 5 min");
        assert_eq!(of(3_600_000 * 1_234), "1,234 h");
        assert_eq!(duration_in_column(Nanos::from_secs(549)), "9 min  9 s");
        assert_eq!(duration(Nanos(u64::MAX)), "5,124,096 h");
        assert_eq!(seconds(Nanos::from_millis(170)), "0.17 s");
        assert_eq!(seconds(Nanos::from_millis(42_300)), "42 s");
    }
}
