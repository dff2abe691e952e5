//! One row of a price book: an instance type in a region, with a price per plan.

use std::borrow::Cow;

use super::plan::PaymentPlan;
use crate::date::Date;
use crate::money::Rate;

/// The plans that a book can list, in the order of its columns.
pub const LISTED_PLANS: [PaymentPlan; 4] =
    [PaymentPlan::OnDemand, PaymentPlan::Spot, PaymentPlan::Reserved1y, PaymentPlan::Reserved3y];

/// One instance type in one region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookRow {
    /// Provider, such as `aws`.
    pub provider: Cow<'static, str>,
    /// Region, such as `us-east-1`.
    pub region: Cow<'static, str>,
    /// Instance type, such as `p5.48xlarge`.
    pub instance_type: Cow<'static, str>,
    /// Its GPU, as spelled by the driver.
    pub model: Cow<'static, str>,
    /// Number of GPUs.
    pub gpus: u32,
    /// Prices by plan, in the order of [`LISTED_PLANS`]; `None` if unknown.
    pub prices: [Option<ListedPrice>; 4],
}

/// A list price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPrice {
    /// Of the whole instance per hour, as listed.
    pub instance: Rate,
    /// Of one GPU: that divided by their number, rounded half to even.
    pub rate: Rate,
    /// Date of the price.
    pub as_of: Date,
    /// Source of the price.
    pub source: Cow<'static, str>,
}

impl BookRow {
    /// The price of a plan; `None` if it is not listed.
    #[must_use]
    pub fn listed(&self, plan: PaymentPlan) -> Option<&ListedPrice> {
        let at = LISTED_PLANS.iter().position(|listed| *listed == plan)?;
        self.prices.get(at)?.as_ref()
    }

    /// What identifies it: provider, region and instance type, in lowercase.
    #[must_use]
    pub fn key(&self) -> [String; 3] {
        [&self.provider, &self.region, &self.instance_type].map(|part| part.to_ascii_lowercase())
    }
}
