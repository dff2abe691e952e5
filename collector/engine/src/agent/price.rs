//! The price of a GPU in the protocol's form, and back.

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::{Price, PriceRange};
use phasemeter_terminal::escape::clean;
use serde::{Deserialize, Serialize};

/// The price of a GPU-hour and its provenance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentPrice {
    nano_usd_per_hour: u64,
    plan: Option<String>,
    provider: Option<String>,
    region: Option<String>,
    instance_type: Option<String>,
    source: String,
    as_of: Option<String>,
    estimate: Option<AgentEstimate>,
}

/// The prices of which one is the median.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AgentEstimate {
    rows: usize,
    low_nano_usd_per_hour: u64,
    high_nano_usd_per_hour: u64,
    anywhere: bool,
}

impl From<&Price> for AgentPrice {
    fn from(price: &Price) -> Self {
        Self {
            nano_usd_per_hour: price.rate.nano_usd_per_hour(),
            plan: price.plan.map(|plan| plan.to_string()),
            provider: price.provider.clone(),
            region: price.region.clone(),
            instance_type: price.instance_type.clone(),
            source: price.source.clone(),
            as_of: price.as_of.map(|day| day.to_string()),
            estimate: price.estimate.map(|estimate| AgentEstimate {
                rows: estimate.rows,
                low_nano_usd_per_hour: estimate.low.nano_usd_per_hour(),
                high_nano_usd_per_hour: estimate.high.nano_usd_per_hour(),
                anywhere: estimate.anywhere,
            }),
        }
    }
}

impl AgentPrice {
    /// The price; `None` if it is none. A plan or day that is unknown here is missing.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        let estimate = self.estimate.map(|estimate| {
            Some(PriceRange {
                rows: estimate.rows,
                low: Rate::new(estimate.low_nano_usd_per_hour)?,
                high: Rate::new(estimate.high_nano_usd_per_hour)?,
                anywhere: estimate.anywhere,
            })
        });
        Some(Price {
            rate: Rate::new(self.nano_usd_per_hour)?,
            plan: self.plan.as_ref().and_then(|plan| plan.parse().ok()),
            provider: self.provider.as_deref().map(clean),
            region: self.region.as_deref().map(clean),
            instance_type: self.instance_type.as_deref().map(clean),
            source: clean(&self.source),
            as_of: self.as_of.as_ref().and_then(|day| day.parse().ok()),
            estimate: estimate.flatten(),
        })
    }
}
