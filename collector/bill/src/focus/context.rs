//! What the columns of a row are computed from.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Timestamp};

use super::allocation::Allocation;
use super::charge::Charge;
use super::version::FocusOptions;
use crate::calendar::month;
use crate::holder::Holder;
use crate::report::{Gpu, Price, Report, Usd};

/// Stands for what a report does not contain and FOCUS does not allow to be null.
pub(super) const NOT_REPORTED: &str = "not reported";

/// A part of a period has each account rounded down.
const ROUNDING: i128 = Account::ALL.len() as i128;

/// What a row is made of.
pub(super) struct Context<'a> {
    pub(super) report: &'a Report,
    pub(super) gpu: &'a Gpu,
    pub(super) charge: &'a Charge<'a>,
    pub(super) plan: PaymentPlan,
    pub(super) options: &'a FocusOptions,
    pub(super) tags: &'a BTreeMap<String, String>,
    /// Tags of the holder; `None` if the GPU is not divided, or nobody had this part.
    pub(super) holder_tags: Option<&'a BTreeMap<String, String>>,
}

impl Context<'_> {
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        self.report.experiment.attributes.get(name).map(String::as_str).filter(|it| !it.is_empty())
    }

    pub(super) const fn price(&self) -> Option<&Price> {
        self.gpu.price.as_ref()
    }

    pub(super) fn model(&self) -> &str {
        self.gpu.model.as_deref().unwrap_or(NOT_REPORTED)
    }

    pub(super) fn provider(&self) -> &str {
        let priced = self.price().and_then(|price| price.provider.as_deref());
        priced.or_else(|| self.attribute("cloud.provider")).unwrap_or(NOT_REPORTED)
    }

    pub(super) fn region(&self) -> &str {
        let priced = self.price().and_then(|price| price.region.as_deref());
        priced.or_else(|| self.attribute("cloud.region")).unwrap_or_default()
    }

    pub(super) fn instance_type(&self) -> Option<&str> {
        let priced = self.price().and_then(|price| price.instance_type.as_deref());
        priced.or_else(|| self.attribute("host.type"))
    }

    pub(super) const fn plan_name(&self) -> &'static str {
        match self.plan {
            PaymentPlan::OnDemand => "on demand",
            PaymentPlan::Spot => "spot",
            PaymentPlan::Reserved1y | PaymentPlan::Reserved3y => "reserved",
            PaymentPlan::Owned => "owned",
        }
    }

    pub(super) const fn pricing_category(&self) -> &'static str {
        match self.plan {
            PaymentPlan::OnDemand => "Standard",
            PaymentPlan::Spot => "Dynamic",
            PaymentPlan::Reserved1y | PaymentPlan::Reserved3y => "Committed",
            PaymentPlan::Owned => "Other",
        }
    }

    pub(super) const fn is_reserved(&self) -> bool {
        matches!(self.plan, PaymentPlan::Reserved1y | PaymentPlan::Reserved3y)
    }

    pub(super) fn if_reserved(&self, value: impl Fn(&Self) -> String) -> String {
        if self.is_reserved() { value(self) } else { String::new() }
    }

    /// The GPU on its host.
    pub(super) fn resource(&self) -> String {
        let host = self.attribute("host.name").or_else(|| self.attribute("host.id"));
        let host = host.unwrap_or(&self.report.experiment.id);
        format!(
            "{host}/{}",
            self.gpu.index.map_or_else(|| self.gpu.id.clone(), |it| it.to_string())
        )
    }

    pub(super) fn sku(&self) -> String {
        format!("{}/{}/{}", self.provider(), self.instance_type().unwrap_or("GPU"), self.model())
    }

    pub(super) fn sku_price(&self) -> String {
        let region = if self.region().is_empty() { NOT_REPORTED } else { self.region() };
        format!("{}/{region}/{}", self.sku(), self.plan)
    }

    pub(super) fn sku_details(&self) -> String {
        let mut details = serde_json::Map::from_iter([("GpuCount".to_owned(), 1.into())]);
        if let Some(instance_type) = self.instance_type() {
            details.insert("InstanceType".to_owned(), instance_type.into());
        }
        serde_json::Value::Object(details).to_string()
    }

    /// The rate; of a GPU whose price changed, that of the period.
    pub(super) fn unit_price(&self) -> NanoUsd {
        let rate = self.gpu.rate_usd_per_gpu_hour.filter(|_| self.gpu.earlier_prices_total == 0);
        let nanos = rate.map(|Usd(rate)| rate).filter(|rate| {
            let time = i128::from(self.charge.time.0);
            let exact = rate.ratio(time, i128::from(NANOS_PER_HOUR)).unwrap_or_default();
            // Not if the GPU had no price at first.
            (exact - self.charge.cost).0.abs() <= ROUNDING
        });
        nanos.unwrap_or_else(|| self.blended_rate())
    }

    fn blended_rate(&self) -> NanoUsd {
        let time = i128::from(self.charge.time.0);
        self.charge.cost.ratio(i128::from(NANOS_PER_HOUR), time).unwrap_or_default()
    }

    /// The cost of an account; `None` if it is a holder's, which has other ones.
    pub(super) fn account(&self, account: Account) -> Option<NanoUsd> {
        self.charge.phases.as_ref().map(|phases| phases.cost(account))
    }

    /// Something of a part of a divided GPU; empty if it is all of one.
    pub(super) fn allocated(&self, value: impl Fn(&Allocation<'_>) -> String) -> String {
        self.charge.allocation.as_ref().map(value).unwrap_or_default()
    }

    /// What a holder was granted and did not use, or never touched; `None` if no holder had it.
    pub(super) fn unused(&self, account: usize) -> Option<NanoUsd> {
        let allocation = self.charge.allocation.as_ref()?;
        allocation.holder.and(allocation.unused.get(account).copied())
    }

    /// Whose part of a divided GPU it is.
    pub(super) fn holder(&self) -> Option<&Holder> {
        self.charge.allocation.as_ref()?.holder
    }

    /// The start of the month of the period, or of the month after it.
    pub(super) fn month(&self, is_next: bool) -> Timestamp {
        month(self.charge.start, is_next).unwrap_or(self.charge.end)
    }

    /// What the charge is for.
    pub(super) fn description(&self) -> String {
        let description = format!("GPU time, {}, {}", self.model(), self.plan_name());
        match &self.charge.allocation {
            Some(it) => {
                let holder = it.holder.map_or_else(|| "nobody's".to_owned(), Holder::full_name);
                format!("{description}, {holder}")
            }
            None => description,
        }
    }

    /// The cost at the lowest and at the highest price of an estimate.
    pub(super) fn range(&self) -> Option<[NanoUsd; 2]> {
        self.gpu.range_of(self.charge.cost)
    }
}
