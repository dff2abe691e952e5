//! Projections of a bill: cost per month and year, per unit of work, and per effective GPU-hour.
//!
//! Each states its basis. All arithmetic is in integers.

use std::fmt;

use crate::money::{NANOS_PER_USD, NanoUsd, div_half_even};
use crate::units::{NANOS_PER_HOUR, PPM};

/// Hours in a month of 30 days.
pub const HOURS_PER_MONTH: u64 = 24 * 30;
/// The basis of [`Projection::monthly`], for reports.
pub const MONTHLY_BASIS: &str = "× 24 × 30";
/// Hours in a year of 365 days.
pub const HOURS_PER_YEAR: u64 = 24 * 365;
/// The basis of [`Projection::yearly`], for reports.
pub const YEARLY_BASIS: &str = "× 24 × 365";

/// The cost of GPUs that are kept, idle or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// Cost per hour: the sum of the rates.
    pub hourly: NanoUsd,
    /// Cost of [`HOURS_PER_MONTH`] hours.
    pub monthly: NanoUsd,
    /// Cost of [`HOURS_PER_YEAR`] hours.
    pub yearly: NanoUsd,
}

impl Projection {
    /// From the hourly cost of the GPUs.
    #[must_use]
    pub const fn of(hourly: NanoUsd) -> Self {
        Self {
            hourly,
            monthly: hourly.times(HOURS_PER_MONTH),
            yearly: hourly.times(HOURS_PER_YEAR),
        }
    }
}

/// The cost of one unit of work (a sample, a token, a request) in dollars with 18 decimals, rounded
/// half to even. A token can cost far less than a nano-dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitCost(i128);

impl UnitCost {
    /// 10^-18 dollars per nano-dollar.
    const PER_NANO: i128 = 1_000_000_000;

    /// `cost ÷ count`; `None` if `count` is zero or the cost exceeds 10^20 dollars.
    #[must_use]
    pub fn of(cost: NanoUsd, count: u64) -> Option<Self> {
        div_half_even(cost.0.checked_mul(Self::PER_NANO)?, i128::from(count)).map(Self)
    }

    /// In dollars, for OTLP and JSON.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exported as a double")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (Self::PER_NANO as f64 * NANOS_PER_USD as f64)
    }
}

/// Dollars with as many decimals as needed, at most 18: `0.0004`.
impl fmt::Display for UnitCost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ONE: u128 = 1_000_000_000_000_000_000;
        let sign = if self.0 < 0 { "-" } else { "" };
        let magnitude = self.0.unsigned_abs();
        write!(f, "{sign}{}", magnitude / ONE)?;
        let decimals = format!("{:018}", magnitude % ONE);
        match decimals.trim_end_matches('0') {
            "" => Ok(()),
            decimals => write!(f, ".{decimals}"),
        }
    }
}

/// The cost per effective GPU-hour: the cost of the observed time ÷ effective time Σ u·dt in ppm ×
/// ns, to the nano-dollar, rounded half to even. `None` if the effective time is zero or the cost
/// exceeds $47 billion.
#[must_use]
pub fn cost_per_effective_hour(observed_cost: NanoUsd, effective_time: u128) -> Option<NanoUsd> {
    let hour = i128::from(NANOS_PER_HOUR) * i128::from(PPM);
    observed_cost.ratio(hour, i128::try_from(effective_time).ok()?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::money::Rate;

    fn usd(dollars: &str) -> NanoUsd {
        Rate::parse(dollars).unwrap().hourly()
    }

    #[test]
    fn effective_hour_costs_13_33_usd_at_8_usd_and_60_percent() {
        let bill = usd("8").times(10);
        let effective_time = u128::from(NANOS_PER_HOUR) * 10 * 600_000;
        assert_eq!(bill, usd("80"));
        assert_eq!(effective_time, u128::from(NANOS_PER_HOUR) * 6 * u128::from(PPM));
        assert_eq!(cost_per_effective_hour(bill, effective_time), Some(usd("13.333333333")));
    }

    #[test]
    fn unit_cost_of_200_000_samples_for_80_usd_is_0_0004() {
        assert_eq!(UnitCost::of(usd("80"), 200_000).unwrap().to_string(), "0.0004");
    }

    #[test]
    fn month_has_720_hours_and_year_8760() {
        let two_gpus = Projection::of(usd("3").times(2));
        assert_eq!(two_gpus.monthly, usd("4320"));
        assert_eq!(two_gpus.yearly.to_string(), "52560.000000000");
        assert_eq!(Projection::of(usd("0.01")).monthly, usd("7.2"));
        assert_eq!(MONTHLY_BASIS, "× 24 × 30");
        assert_eq!(YEARLY_BASIS, "× 24 × 365");
    }

    #[test]
    fn instance_price_divides_among_gpus() {
        for (instance, gpu) in [("24", "3"), ("32", "4"), ("98", "12.25")] {
            let instance = Rate::parse(instance).unwrap().nano_usd_per_hour();
            assert_eq!(Rate::from_instance(instance, 8), Rate::parse(gpu).ok());
        }
    }

    #[test]
    fn year_at_24_usd_costs_210_240_and_126_144_after_40_percent_off() {
        let yearly = Projection::of(usd("24")).yearly;
        assert_eq!(yearly.to_string(), "210240.000000000");
        assert_eq!(yearly.ratio(60, 100).unwrap().to_string(), "126144.000000000");
    }

    /// On demand at $3.06 and reserved for one year at $1.82: eight GPUs per month, one per year.
    #[test]
    fn list_prices_project_to_month_and_year() {
        let monthly = Projection::of(usd("3.06").times(8)).monthly;
        assert_eq!(monthly.to_string(), "17625.600000000");
        assert_eq!(monthly.times(12).to_string(), "211507.200000000");
        let yearly = |hourly| Projection::of(usd(hourly)).yearly.to_string();
        assert_eq!(yearly("3.06"), "26805.600000000");
        assert_eq!(yearly("1.82"), "15943.200000000");
    }

    #[test]
    fn unit_cost_displays_significant_decimals() {
        let shown = |cost, count| UnitCost::of(NanoUsd(cost), count).unwrap().to_string();
        assert_eq!(shown(1_000_000_000, 1), "1");
        assert_eq!(shown(1, 3), "0.000000000333333333");
        assert_eq!(shown(-3_000_000_000, 2), "-1.5");
        assert_eq!(shown(0, 7), "0");
        assert_eq!(shown(1, 2_000_000_000), "0", "half of the last decimal rounds to even");
        assert_eq!(shown(3, 2_000_000_000), "0.000000000000000002");
    }

    #[test]
    fn zero_count_or_overflow_has_no_unit_cost() {
        assert_eq!(UnitCost::of(usd("80"), 0), None);
        assert_eq!(cost_per_effective_hour(usd("80"), 0), None);
        assert_eq!(UnitCost::of(NanoUsd(i128::MAX), 1), None);
        assert_eq!(cost_per_effective_hour(NanoUsd(i128::MAX), 1), None);
    }

    proptest! {
        #[test]
        fn unit_cost_times_count_is_cost_within_rounding(
            cost in 0..=1_000_000_000_000_000_i128,
            count in 1..=u64::MAX,
        ) {
            let UnitCost(each) = UnitCost::of(NanoUsd(cost), count).unwrap();
            let off = (each * i128::from(count) - cost * UnitCost::PER_NANO).abs();
            prop_assert!(off * 2 <= i128::from(count));
        }
    }
}
