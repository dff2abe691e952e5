//! The provenance of prices in a report.

use phasemeter_meter::date::Date;
use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{PaymentPlan, Price};
use serde::{Serialize, Serializer};

use super::value::{Usd, Utc};

/// A price that is no longer in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierPrice {
    /// Start of the next price.
    pub until: Utc,
    /// The rate.
    #[serde(serialize_with = "rate")]
    pub rate_usd_per_gpu_hour: Rate,
    /// Provenance of that rate.
    pub price: PriceTag,
}

/// Provenance of a rate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PriceTag {
    /// Where it is from.
    #[serde(flatten)]
    pub origin: PriceOrigin,
    /// The prices behind an estimate; `None` if the price is exact.
    pub estimate: Option<EstimateTag>,
}

/// Where a price is from, and how old it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PriceOrigin {
    /// Purchase plan.
    pub plan: Option<&'static str>,
    /// Cloud provider.
    pub provider: Option<String>,
    /// Region.
    pub region: Option<String>,
    /// Instance type.
    pub instance_type: Option<String>,
    /// Source of the price.
    pub source: String,
    /// Date of the price.
    pub as_of: Option<String>,
    /// Days between that date and the day of use.
    pub age_days: Option<u64>,
    /// Whether that age exceeds the limit.
    pub stale: bool,
}

impl PriceOrigin {
    /// The origin of a price that is used from this day on.
    #[must_use]
    pub fn of(price: &Price, used: Option<Date>) -> Self {
        Self {
            plan: price.plan.map(PaymentPlan::as_str),
            provider: price.provider.clone(),
            region: price.region.clone(),
            instance_type: price.instance_type.clone(),
            source: price.source.clone(),
            as_of: price.as_of.map(|day| day.to_string()),
            age_days: used.and_then(|day| price.age(day)),
            stale: used.is_some_and(|day| price.is_stale(day)),
        }
    }

    /// Provider, region and instance type, if one of them is known.
    #[must_use]
    pub fn location(&self) -> Option<String> {
        let location = [&self.provider, &self.region, &self.instance_type];
        let location: Vec<_> = location.into_iter().flatten().map(String::as_str).collect();
        (!location.is_empty()).then(|| location.join(" "))
    }
}

/// An estimate: the lower median of several prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EstimateTag {
    /// Number of prices.
    pub rows: usize,
    /// Lowest price.
    #[serde(serialize_with = "rate")]
    pub low_usd_per_gpu_hour: Rate,
    /// Highest price.
    #[serde(serialize_with = "rate")]
    pub high_usd_per_gpu_hour: Rate,
    /// Whether it is of all providers, regions and instance types, because none was given.
    pub anywhere: bool,
}

fn rate<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    Usd(rate.hourly()).serialize(serializer)
}
