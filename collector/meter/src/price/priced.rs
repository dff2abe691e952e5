//! Prices: a rate with its provenance.

use super::plan::PaymentPlan;
use crate::date::Date;
use crate::money::Rate;

/// A price is stale if its date is more than this many days from the first day of use: list prices
/// change in large steps.
pub const STALE_AFTER_DAYS: u64 = 180;

/// The price of a GPU-hour and its provenance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// The rate charged.
    pub rate: Rate,
    /// The payment plan, if known.
    pub plan: Option<PaymentPlan>,
    /// The provider, such as `aws`; `None` if unknown, or if an estimate spans several (likewise
    /// below).
    pub provider: Option<String>,
    /// The region, such as `us-east-1`.
    pub region: Option<String>,
    /// The instance type, such as `p5.48xlarge`.
    pub instance_type: Option<String>,
    /// The source, for display.
    pub source: String,
    /// The date of the price; of an estimate, the oldest date in it.
    pub as_of: Option<Date>,
    /// The range it was selected from, if it is an estimate.
    pub estimate: Option<PriceRange>,
}

impl Price {
    /// A price given by the user. It has no date and never becomes stale.
    #[must_use]
    pub fn given(rate: Rate, plan: Option<PaymentPlan>, source: impl Into<String>) -> Self {
        Self {
            rate,
            plan,
            provider: None,
            region: None,
            instance_type: None,
            source: source.into(),
            as_of: None,
            estimate: None,
        }
    }

    /// Days between the date of this price and the first day of use, in either direction; `None` if
    /// the price has no date.
    #[must_use]
    pub fn age(&self, first_use: Date) -> Option<u64> {
        self.as_of.map(|date| date.days_between(first_use))
    }

    /// Whether it is too far from the first day of use to be used without a warning.
    #[must_use]
    pub fn is_stale(&self, first_use: Date) -> bool {
        self.age(first_use).is_some_and(|days| days > STALE_AFTER_DAYS)
    }
}

/// The prices of which an estimate is the lower median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriceRange {
    /// Number of rows.
    pub rows: usize,
    /// The lowest price.
    pub low: Rate,
    /// The highest price.
    pub high: Rate,
    /// Whether it is of all providers, regions and instance types, because none was given.
    pub anywhere: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn date(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn price_is_stale_after_180_days_in_either_direction() {
        let given = Price::given(Rate::new(1).unwrap(), None, "a test");
        let price = Price { as_of: Some(date("2026-07-20")), ..given.clone() };
        for (first_use, age, stale) in [
            ("2026-07-20", 0, false),
            ("2027-01-16", 180, false),
            ("2027-01-17", 181, true),
            ("2026-01-21", 180, false),
            ("2026-01-20", 181, true),
        ] {
            assert_eq!(price.age(date(first_use)), Some(age), "{first_use}");
            assert_eq!(price.is_stale(date(first_use)), stale, "{first_use}");
        }
        assert!(!given.is_stale(date("1970-01-01")), "a given price has no date");
    }
}
