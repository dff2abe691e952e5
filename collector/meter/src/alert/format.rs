//! Rules and their values as text.

use std::fmt;

use super::rule::{Condition, MINUTE, Metric, Rule};
use crate::units::{Nanos, PPM};

/// A time in the longest unit that it is whole in: `30m`, `1h`, `7d`.
#[must_use]
pub fn short_time(time: Nanos) -> String {
    match time.0 / MINUTE.0 {
        0 => "0m".to_owned(),
        minutes if minutes.is_multiple_of(24 * 60) => format!("{}d", minutes / (24 * 60)),
        minutes if minutes.is_multiple_of(60) => format!("{}h", minutes / 60),
        minutes => format!("{minutes}m"),
    }
}

impl Metric {
    /// A value for people, in percent or degrees.
    #[must_use]
    pub fn scaled(self, value: f64) -> f64 {
        let in_units = value / f64::from(PPM);
        if self.is_share() { in_units * 100.0 } else { in_units }
    }

    /// A value with its unit: `12.5%`, `83 °C`.
    #[must_use]
    pub fn with_unit(self, value: f64) -> String {
        let text = format!("{:.1}", self.scaled(value));
        let unit = if self.is_share() { "%" } else { " °C" };
        format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
    }
}

/// One phrase: `mean utilization below 40% over 30m`.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = match self.condition() {
            Condition::Below(_) => "below",
            Condition::Above(_) => "above",
        };
        let threshold = self.metric().with_unit(f64::from(self.condition().threshold()));
        let metric = self.metric().name().replace('_', " ");
        write!(f, "mean {metric} {side} {threshold} over {}", short_time(self.window()))?;
        match self.hold() {
            Nanos::ZERO => Ok(()),
            hold => write!(f, ", for {}", short_time(hold)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quantity::Quantity;

    fn metric(quantity: Quantity) -> Metric {
        Metric::of(quantity).unwrap()
    }

    #[test]
    fn times_and_quantities_are_short() {
        let times = [0, 60, 5_400, 3_600, 86_400].map(Nanos::from_secs);
        assert_eq!(times.map(short_time), ["0m", "1m", "90m", "1h", "1d"]);
        assert_eq!(metric(Quantity::Power).with_unit(987_500.0), "98.8%");
        assert_eq!(metric(Quantity::MemoryUsed).with_unit(850_000.0), "85%");
        assert_eq!(metric(Quantity::Temperature).with_unit(83_000_000.0), "83 °C");
    }
}
