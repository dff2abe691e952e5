//! What a bill means: an hour of it in a month or a year, the price of one unit of work, and of
//! one effective hour.
//!
//! Each says its basis, for a number without one can't be compared. All of it is integer
//! arithmetic. This room must not know how a bill came about.

use std::fmt;

use crate::money::{NANOS_PER_USD, NanoUsd, div_half_even};
use crate::units::{NANOS_PER_HOUR, PPM};

/// Hours in a month of 30 days.
pub const HOURS_A_MONTH: u64 = 24 * 30;
/// How [`Projection::monthly`] follows from the hour, for reports.
pub const MONTHLY_BASIS: &str = "× 24 × 30";
/// Hours in a year of 365 days.
pub const HOURS_A_YEAR: u64 = 24 * 365;
/// How [`Projection::yearly`] follows from the hour, for reports.
pub const YEARLY_BASIS: &str = "× 24 × 365";

/// What GPUs cost if they are kept, idle or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Projection {
    /// An hour: the sum of the rates.
    pub hourly: NanoUsd,
    /// [`HOURS_A_MONTH`] of these hours.
    pub monthly: NanoUsd,
    /// [`HOURS_A_YEAR`] of these hours.
    pub yearly: NanoUsd,
}

impl Projection {
    /// From what the GPUs cost in one hour.
    #[must_use]
    pub const fn of(hourly: NanoUsd) -> Self {
        Self { hourly, monthly: hourly.times(HOURS_A_MONTH), yearly: hourly.times(HOURS_A_YEAR) }
    }
}

/// The cost of one unit of work (a sample, a token, a request): dollars to 18 decimals, half to
/// even. A token can cost far less than a nano-dollar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnitCost(i128);

impl UnitCost {
    /// 10^-18 dollars in a nano-dollar.
    const PER_NANO: i128 = 1_000_000_000;

    /// `cost ÷ count`; `None` where nothing was counted, or for a cost above 10^20 dollars.
    #[must_use]
    pub fn of(cost: NanoUsd, count: u64) -> Option<Self> {
        div_half_even(cost.0.checked_mul(Self::PER_NANO)?, i128::from(count)).map(Self)
    }

    /// Dollars as a float, for the wire.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "doubles on the wire")]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / (Self::PER_NANO as f64 * NANOS_PER_USD as f64)
    }
}

/// Dollars with as many decimals as are needed, at most 18: `0.0004`.
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

/// What an effective GPU-hour cost: the cost of the observed time ÷ effective time Σ u·dt in
/// ppm × ns, to the nano-dollar, half to even. `None` where there was no effective time, or for a
/// cost above $47 billion.
#[must_use]
pub fn effective_hour(observed_cost: NanoUsd, effective_time: u128) -> Option<NanoUsd> {
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
    fn ten_gpu_hours_at_8_dollars_and_60_percent_cost_13_33_an_effective_hour() {
        let bill = usd("8").times(10);
        let effective_time = u128::from(NANOS_PER_HOUR) * 10 * 600_000;
        assert_eq!(bill, usd("80"));
        assert_eq!(effective_time, u128::from(NANOS_PER_HOUR) * 6 * u128::from(PPM));
        assert_eq!(effective_hour(bill, effective_time), Some(usd("13.333333333")));
    }

    #[test]
    fn eighty_dollars_for_200_000_samples_are_0_0004_each() {
        assert_eq!(UnitCost::of(usd("80"), 200_000).unwrap().to_string(), "0.0004");
    }

    #[test]
    fn a_month_is_24_times_30_hours_and_a_year_24_times_365_to_the_cent() {
        let two_gpus = Projection::of(usd("3").times(2));
        assert_eq!(two_gpus.monthly, usd("4320"));
        assert_eq!(two_gpus.yearly.to_string(), "52560.000000000");
        assert_eq!(Projection::of(usd("0.01")).monthly, usd("7.2"));
        assert_eq!(MONTHLY_BASIS, "× 24 × 30");
        assert_eq!(YEARLY_BASIS, "× 24 × 365");
    }

    #[test]
    fn an_instance_divides_into_its_gpus() {
        for (instance, gpu) in [("24", "3"), ("32", "4"), ("98", "12.25")] {
            let instance = Rate::parse(instance).unwrap().nano_usd_per_hour();
            assert_eq!(Rate::of_instance(instance, 8), Rate::parse(gpu).ok());
        }
    }

    #[test]
    fn a_year_at_24_dollars_is_210_240_and_40_percent_less_is_126_144() {
        let yearly = Projection::of(usd("24")).yearly;
        assert_eq!(yearly.to_string(), "210240.000000000");
        assert_eq!(yearly.ratio(60, 100).unwrap().to_string(), "126144.000000000");
    }

    /// On demand at $3.06 and reserved for a year at $1.82: eight of them a month, one a year.
    #[test]
    fn list_prices_project_to_what_their_owners_pay() {
        let monthly = Projection::of(usd("3.06").times(8)).monthly;
        assert_eq!(monthly.to_string(), "17625.600000000");
        assert_eq!(monthly.times(12).to_string(), "211507.200000000");
        let yearly = |hourly| Projection::of(usd(hourly)).yearly.to_string();
        assert_eq!(yearly("3.06"), "26805.600000000");
        assert_eq!(yearly("1.82"), "15943.200000000");
    }

    #[test]
    fn a_unit_cost_shows_the_decimals_it_has() {
        let shown = |cost, count| UnitCost::of(NanoUsd(cost), count).unwrap().to_string();
        assert_eq!(shown(1_000_000_000, 1), "1");
        assert_eq!(shown(1, 3), "0.000000000333333333");
        assert_eq!(shown(-3_000_000_000, 2), "-1.5");
        assert_eq!(shown(0, 7), "0");
        assert_eq!(shown(1, 2_000_000_000), "0", "half of the last decimal goes to even");
        assert_eq!(shown(3, 2_000_000_000), "0.000000000000000002");
    }

    #[test]
    fn what_was_not_counted_has_no_unit_cost() {
        assert_eq!(UnitCost::of(usd("80"), 0), None);
        assert_eq!(effective_hour(usd("80"), 0), None);
        assert_eq!(UnitCost::of(NanoUsd(i128::MAX), 1), None);
        assert_eq!(effective_hour(NanoUsd(i128::MAX), 1), None);
    }

    proptest! {
        #[test]
        fn a_unit_cost_times_the_count_is_the_cost_to_half_a_last_decimal_each(
            cost in 0..=1_000_000_000_000_000_i128,
            count in 1..=u64::MAX,
        ) {
            let UnitCost(each) = UnitCost::of(NanoUsd(cost), count).unwrap();
            let off = (each * i128::from(count) - cost * UnitCost::PER_NANO).abs();
            prop_assert!(off * 2 <= i128::from(count));
        }
    }
}
