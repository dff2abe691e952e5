//! The provenance of prices in a report.

use phasemeter_meter::money::Rate;
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
    /// Days between that date and the first day of use.
    pub age_days: Option<u64>,
    /// Whether that age exceeds the limit.
    pub stale: bool,
    /// The prices behind an estimate; `None` if the price is exact.
    pub estimate: Option<EstimateTag>,
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
