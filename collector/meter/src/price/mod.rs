//! What a GPU-hour costs, and how we know: a rate with its provenance.
//!
//! A price is given by the user, quoted by a policy, or found in the [`PriceBook`], in that order.
//! Where none of them knows, a GPU is [`Unpriced`], which is not free. This room must not know
//! which GPUs there are, or how long they ran.

mod book;
mod day;
mod near;
mod plan;
mod unpriced;

pub use book::{PriceBook, Query};
pub use day::{Day, NotADay};
pub use plan::{NotAPlan, Plan};
pub use unpriced::Unpriced;

use crate::money::Rate;

/// A price is old when its day is more than this many days from the first day of use: list prices
/// fall in large steps.
pub const OLD_AFTER_DAYS: u64 = 180;

/// What a GPU-hour costs, and how we know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Price {
    /// What is charged.
    pub rate: Rate,
    /// How it is paid for, where that is known.
    pub plan: Option<Plan>,
    /// Who sells it: `aws`. `None` where that is not known, or where an estimate mixes several;
    /// so too below.
    pub provider: Option<String>,
    /// Where: `us-east-1`.
    pub region: Option<String>,
    /// In what: `p5.48xlarge`.
    pub instance_type: Option<String>,
    /// Who says so, in words for people.
    pub source: String,
    /// The day it was true; of an estimate, the oldest day in it.
    pub as_of: Option<Day>,
    /// What it was picked from, where it is no exact price.
    pub estimate: Option<Estimate>,
}

impl Price {
    /// A price that someone gave. It has no day, and never grows old.
    #[must_use]
    pub fn given(rate: Rate, plan: Option<Plan>, source: impl Into<String>) -> Self {
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

    /// How many days lie between the day of this price and the first day of use, whichever came
    /// first; `None` where the price has no day.
    #[must_use]
    pub fn age(&self, first_use: Day) -> Option<u64> {
        self.as_of.map(|day| day.days_between(first_use))
    }

    /// Whether it is too far from the first day of use to be trusted without a word.
    #[must_use]
    pub fn is_old(&self, first_use: Day) -> bool {
        self.age(first_use).is_some_and(|days| days > OLD_AFTER_DAYS)
    }
}

/// The prices that an estimate was picked from: it is their lower median.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// How many there were.
    pub rows: usize,
    /// The lowest of them.
    pub low: Rate,
    /// The highest of them.
    pub high: Rate,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(text: &str) -> Day {
        text.parse().unwrap()
    }

    #[test]
    fn a_price_is_old_after_180_days_in_either_direction() {
        let given = Price::given(Rate::new(1).unwrap(), None, "a test");
        let price = Price { as_of: Some(day("2026-07-20")), ..given.clone() };
        for (first_use, age, old) in [
            ("2026-07-20", 0, false),
            ("2027-01-16", 180, false),
            ("2027-01-17", 181, true),
            ("2026-01-21", 180, false),
            ("2026-01-20", 181, true),
        ] {
            assert_eq!(price.age(day(first_use)), Some(age), "{first_use}");
            assert_eq!(price.is_old(day(first_use)), old, "{first_use}");
        }
        assert!(!given.is_old(day("1970-01-01")), "what was given has no day");
    }
}
