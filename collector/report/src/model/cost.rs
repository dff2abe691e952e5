//! What the GPUs cost.

use phasemeter_meter::money::Rate;
use serde::{Serialize, Serializer};

use super::super::price_tag::PriceTag;
use super::super::value::Usd;

/// Cost of all GPUs. Sums in dollars cover the GPUs that have a price; `None` if none has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Rate at the last reading; `None` unless it is the same for all GPUs.
    #[serde(serialize_with = "optional_rate")]
    pub rate_usd_per_gpu_hour: Option<Rate>,
    /// GPU time in hours, observed or not.
    pub gpu_hours: f64,
    /// Σ utilization × time, in hours.
    pub effective_gpu_hours: f64,
    /// Bill: utilized + waste + unobserved.
    pub total_usd: Option<Usd>,
    /// Bill at the lowest and the highest price, if any price is an estimate over all locations.
    pub total_range_usd: Option<UsdRange>,
    /// Σ utilization × cost.
    pub utilized_usd: Option<Usd>,
    /// Observed cost minus utilized cost.
    pub waste_usd: Option<Usd>,
    /// Waste by category.
    pub waste_by_category_usd: WasteUsd,
    /// Cost of unobserved time.
    pub unobserved_usd: Option<Usd>,
    /// (bill − unobserved) ÷ effective hours, both of the priced GPUs.
    pub cost_per_effective_gpu_hour_usd: Option<Usd>,
    /// Hourly cost of the priced GPUs, idle or not.
    pub hourly_usd: Option<Usd>,
    /// Hourly × 24 × 30.
    pub monthly_usd: Option<Usd>,
    /// Hourly × 24 × 365.
    pub yearly_usd: Option<Usd>,
    /// Provenance of the rate; `None` unless it is the same for all GPUs.
    pub price: Option<PriceTag>,
    /// Which GPUs have no price, and why.
    pub unpriced_reason: Option<String>,
}

/// The lowest and the highest possible amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UsdRange {
    /// Lowest.
    pub low: Usd,
    /// Highest.
    pub high: Usd,
}

/// Waste by category; sums to the waste.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WasteUsd {
    /// In bouncing stretches: the GPU waited for input.
    pub starvation: Option<Usd>,
    /// Idle elsewhere.
    pub idle: Option<Usd>,
    /// All other waste: the GPU worked below capacity.
    pub underload: Option<Usd>,
}

pub(super) fn optional_rate<S: Serializer>(
    rate: &Option<Rate>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    rate.map(|rate| Usd(rate.hourly())).serialize(serializer)
}
