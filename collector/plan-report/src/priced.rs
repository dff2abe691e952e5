//! A price of a plan with its provenance and age.

use phasemeter_meter::date::Date;
use phasemeter_meter::price::Price;
use phasemeter_report::{PriceOrigin, Usd};
use phasemeter_terminal::money::rate;
use serde::Serialize;

/// A price as used by a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanPrice {
    /// What it is for, in the words of the question.
    pub purpose: String,
    /// Price per GPU-hour.
    pub rate_usd_per_gpu_hour: Usd,
    /// Where it is from.
    #[serde(flatten)]
    pub origin: PriceOrigin,
    /// Number of prices of which it is the lower median; `None` if it is exact.
    pub estimated_from: Option<usize>,
    /// For text.
    #[serde(skip)]
    items: Vec<String>,
}

impl PlanPrice {
    /// A price as of today.
    #[must_use]
    pub fn of(purpose: &str, price: &Price, today: Date) -> Self {
        let mut items = vec![format!("{} per GPU-hour", rate(price.rate)), purpose.to_owned()];
        let origin = PriceOrigin::of(price, Some(today));
        items.extend(origin.location());
        items.push(price.source.clone());
        if let Some((date, age)) = origin.as_of.as_ref().zip(origin.age_days) {
            let stale = if origin.stale { ", stale: check it" } else { "" };
            items.push(format!("{date}, {age} days old{stale}"));
        }
        if let Some(range) = price.estimate {
            items.push(format!(
                "estimate: lower median of {} prices, {}–{}",
                range.rows,
                rate(range.low),
                rate(range.high)
            ));
        }
        Self {
            purpose: purpose.to_owned(),
            rate_usd_per_gpu_hour: Usd(price.rate.hourly()),
            origin,
            estimated_from: price.estimate.map(|it| it.rows),
            items,
        }
    }

    /// For text.
    pub(super) fn items(&self) -> &[String] {
        &self.items
    }
}
