//! A price of a plan with its provenance and age.

use phasemeter_meter::date::Date;
use phasemeter_meter::price::{Plan, Price};
use phasemeter_report::Usd;
use phasemeter_terminal::money::rate;
use serde::Serialize;

/// A price as used by a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PlanPrice {
    /// What it is for, in the words of the question.
    pub purpose: String,
    /// Price per GPU-hour.
    pub rate_usd_per_gpu_hour: Usd,
    /// Payment plan.
    pub plan: Option<&'static str>,
    /// Provider.
    pub provider: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Instance type.
    pub instance_type: Option<String>,
    /// Source.
    pub source: String,
    /// Date of the price.
    pub as_of: Option<String>,
    /// Days from that date to today.
    pub age_days: Option<u64>,
    /// Whether that is too long.
    pub stale: bool,
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
        let location = [&price.provider, &price.region, &price.instance_type];
        let location: Vec<_> = location.into_iter().flatten().map(String::as_str).collect();
        if !location.is_empty() {
            items.push(location.join(" "));
        }
        items.push(price.source.clone());
        let age = price.age(today);
        if let Some((date, age)) = price.as_of.zip(age) {
            let stale = if price.is_stale(today) { ", stale: check it" } else { "" };
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
            plan: price.plan.map(Plan::as_str),
            provider: price.provider.clone(),
            region: price.region.clone(),
            instance_type: price.instance_type.clone(),
            source: price.source.clone(),
            as_of: price.as_of.map(|date| date.to_string()),
            age_days: age,
            stale: price.is_stale(today),
            estimated_from: price.estimate.map(|it| it.rows),
            items,
        }
    }

    /// For text.
    pub(super) fn items(&self) -> &[String] {
        &self.items
    }
}
