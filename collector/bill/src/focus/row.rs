//! One row of FOCUS 1.2: a period of a GPU.
//!
//! Must not depend on the format of the output.

use std::collections::BTreeMap;

use phasemeter_meter::date::Date;
use phasemeter_meter::instant::Instant;
use phasemeter_meter::money::{NanoUsd, div_half_even};
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::report::{Gpu, Period, Price, Report, Usd};

/// Stands for what a report does not contain and FOCUS does not allow to be null.
const NOT_REPORTED: &str = "not reported";

/// The unit of prices and quantities.
const HOURS: &str = "Hours";

/// What a row is made of.
struct Context<'a> {
    report: &'a Report,
    gpu: &'a Gpu,
    period: &'a Period,
    plan: Plan,
    cost: NanoUsd,
    tags: &'a BTreeMap<String, String>,
}

/// How a GPU is paid for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    OnDemand,
    Spot,
    Reserved,
    Owned,
}

/// The value of a column; empty for null.
type Value = fn(&Context<'_>) -> String;

/// The columns, in the order of their names, then our own.
const COLUMNS: [(&str, Value); 61] = [
    ("BilledCost", |it| if it.plan.is_prepaid() { "0".to_owned() } else { it.cost.to_string() }),
    ("BillingAccountId", |it| it.attribute("cloud.account.id").unwrap_or(NOT_REPORTED).to_owned()),
    ("BillingAccountName", |it| it.attribute("cloud.account.name").unwrap_or_default().to_owned()),
    ("BillingAccountType", |_| "Account".to_owned()),
    ("BillingCurrency", |_| "USD".to_owned()),
    ("BillingPeriodEnd", |it| it.month(1)),
    ("BillingPeriodStart", |it| it.month(0)),
    ("ChargeCategory", |_| "Usage".to_owned()),
    ("ChargeClass", |_| String::new()),
    ("ChargeDescription", |it| format!("GPU time, {}, {}", it.model(), it.plan.name())),
    ("ChargeFrequency", |_| "Usage-Based".to_owned()),
    ("ChargePeriodEnd", |it| Instant(it.period.end).to_string()),
    ("ChargePeriodStart", |it| Instant(it.period.start).to_string()),
    ("CommitmentDiscountCategory", |it| it.if_reserved(|_| "Usage".to_owned())),
    ("CommitmentDiscountId", |it| it.if_reserved(Context::sku_price)),
    ("CommitmentDiscountName", |it| it.if_reserved(|it| it.plan_name().to_owned())),
    ("CommitmentDiscountQuantity", |it| it.if_reserved(Context::hours)),
    ("CommitmentDiscountStatus", |it| it.if_reserved(|_| "Used".to_owned())),
    ("CommitmentDiscountType", |it| it.if_reserved(|_| "Reservation".to_owned())),
    ("CommitmentDiscountUnit", |it| it.if_reserved(|_| HOURS.to_owned())),
    ("ConsumedQuantity", |it| it.hours()),
    ("ConsumedUnit", |_| HOURS.to_owned()),
    ("ContractedCost", |it| it.cost.to_string()),
    ("ContractedUnitPrice", |it| it.unit_price()),
    ("EffectiveCost", |it| it.cost.to_string()),
    ("InvoiceIssuerName", |it| it.provider().to_owned()),
    ("ListCost", |it| it.cost.to_string()),
    ("ListUnitPrice", |it| it.unit_price()),
    ("PricingCategory", |it| it.plan.pricing_category().to_owned()),
    ("PricingQuantity", |it| it.hours()),
    ("PricingUnit", |_| HOURS.to_owned()),
    ("ProviderName", |it| it.provider().to_owned()),
    ("PublisherName", |it| it.provider().to_owned()),
    ("RegionId", |it| it.region().to_owned()),
    ("RegionName", |it| it.region().to_owned()),
    ("ResourceId", |it| it.gpu.uuid.clone().unwrap_or_else(|| it.resource())),
    ("ResourceName", |it| it.gpu.uuid.as_ref().map(|_| it.resource()).unwrap_or_default()),
    ("ResourceType", |_| "GPU".to_owned()),
    ("ServiceCategory", |_| "Compute".to_owned()),
    ("ServiceName", |_| "GPU compute".to_owned()),
    ("ServiceSubcategory", |_| "Virtual Machines".to_owned()),
    ("SkuId", |it| it.sku()),
    ("SkuMeter", |_| "GPU Hours".to_owned()),
    ("SkuPriceDetails", |it| it.sku_details()),
    ("SkuPriceId", |it| it.sku_price()),
    ("Tags", |it| json(it.tags)),
    ("x_ComputeBoundCost", |it| it.account(Account::ComputeBound)),
    ("x_EffectiveGpuHours", |it| hours(it.period.effective_seconds.0)),
    ("x_ExperimentId", |it| it.report.experiment.id.clone()),
    ("x_GpuModel", |it| it.model().to_owned()),
    ("x_IdleFreeCost", |it| it.account(Account::IdleFree)),
    ("x_IdleHeldCost", |it| it.account(Account::IdleHeld)),
    ("x_IdleUnknownCost", |it| it.account(Account::IdleUnknown)),
    ("x_PriceSource", |it| it.price().map(|price| price.source.clone()).unwrap_or_default()),
    ("x_ProductiveCost", |it| it.account(Account::Productive)),
    ("x_Reported", |it| it.report.title.clone()),
    ("x_UnderutilizedCost", |it| it.account(Account::Underutilized)),
    ("x_UnobservedCost", |it| it.account(Account::Unobserved)),
    ("x_UnobservedHours", |it| hours(it.period.accounts.time(Account::Unobserved))),
    ("x_UtilizedCost", |it| it.utilized().to_string()),
    ("x_WasteCost", |it| {
        (it.period.accounts.cost_of(&Account::OBSERVED) - it.utilized()).to_string()
    }),
];

/// The names of the columns.
pub(super) fn names() -> [&'static str; COLUMNS.len()] {
    COLUMNS.map(|(name, _)| name)
}

/// The cells of a period of a GPU with a price.
pub(super) fn cells(
    report: &Report,
    gpu: &Gpu,
    period: &Period,
    tags: &BTreeMap<String, String>,
) -> [String; COLUMNS.len()] {
    let plan = Plan::of(gpu.price.as_ref());
    let cost = period.accounts.cost_of(&Account::ALL);
    let context = Context { report, gpu, period, plan, cost, tags };
    COLUMNS.map(|(_, value)| value(&context))
}

impl Plan {
    fn of(price: Option<&Price>) -> Self {
        match price.and_then(|price| price.plan.as_deref()) {
            Some("spot") => Self::Spot,
            Some("reserved_1y" | "reserved_3y") => Self::Reserved,
            Some("owned") => Self::Owned,
            _ => Self::OnDemand,
        }
    }

    /// Whether it is paid for in advance.
    const fn is_prepaid(self) -> bool {
        matches!(self, Self::Reserved | Self::Owned)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::OnDemand => "on demand",
            Self::Spot => "spot",
            Self::Reserved => "reserved",
            Self::Owned => "owned",
        }
    }

    const fn pricing_category(self) -> &'static str {
        match self {
            Self::OnDemand => "Standard",
            Self::Spot => "Dynamic",
            Self::Reserved => "Committed",
            Self::Owned => "Other",
        }
    }
}

impl Context<'_> {
    fn attribute(&self, name: &str) -> Option<&str> {
        self.report.experiment.attributes.get(name).map(String::as_str).filter(|it| !it.is_empty())
    }

    const fn price(&self) -> Option<&Price> {
        self.gpu.price.as_ref()
    }

    fn model(&self) -> &str {
        self.gpu.model.as_deref().unwrap_or(NOT_REPORTED)
    }

    fn provider(&self) -> &str {
        let priced = self.price().and_then(|price| price.provider.as_deref());
        priced.or_else(|| self.attribute("cloud.provider")).unwrap_or(NOT_REPORTED)
    }

    fn region(&self) -> &str {
        let priced = self.price().and_then(|price| price.region.as_deref());
        priced.or_else(|| self.attribute("cloud.region")).unwrap_or_default()
    }

    fn instance_type(&self) -> Option<&str> {
        let priced = self.price().and_then(|price| price.instance_type.as_deref());
        priced.or_else(|| self.attribute("host.type"))
    }

    fn plan_name(&self) -> &str {
        self.price().and_then(|price| price.plan.as_deref()).unwrap_or_default()
    }

    fn if_reserved(&self, value: impl Fn(&Self) -> String) -> String {
        if self.plan == Plan::Reserved { value(self) } else { String::new() }
    }

    /// The GPU on its host.
    fn resource(&self) -> String {
        let host = self.attribute("host.name").or_else(|| self.attribute("host.id"));
        let host = host.unwrap_or(&self.report.experiment.id);
        format!(
            "{host}/{}",
            self.gpu.index.map_or_else(|| self.gpu.id.clone(), |it| it.to_string())
        )
    }

    fn sku(&self) -> String {
        format!("{}/{}/{}", self.provider(), self.instance_type().unwrap_or("GPU"), self.model())
    }

    fn sku_price(&self) -> String {
        let plan = if self.plan_name().is_empty() { "on_demand" } else { self.plan_name() };
        let region = if self.region().is_empty() { NOT_REPORTED } else { self.region() };
        format!("{}/{region}/{plan}", self.sku())
    }

    fn sku_details(&self) -> String {
        let mut details = serde_json::Map::from_iter([("GpuCount".to_owned(), 1.into())]);
        if let Some(instance_type) = self.instance_type() {
            details.insert("InstanceType".to_owned(), instance_type.into());
        }
        serde_json::Value::Object(details).to_string()
    }

    fn hours(&self) -> String {
        hours(self.period.length())
    }

    /// The rate; of a GPU whose price changed, that of the period.
    fn unit_price(&self) -> String {
        let rate = self.gpu.rate_usd_per_gpu_hour.filter(|_| self.gpu.earlier_prices_total == 0);
        let nanos = rate.map(|Usd(rate)| rate).filter(|rate| {
            let time = i128::from(self.period.length().0);
            let exact = rate.ratio(time, i128::from(NANOS_PER_HOUR)).unwrap_or_default();
            // Not if the GPU had no price at first.
            (exact - self.cost).0.abs() <= 1
        });
        nanos.unwrap_or_else(|| self.blended_rate()).to_string()
    }

    fn blended_rate(&self) -> NanoUsd {
        let time = i128::from(self.period.length().0);
        self.cost.ratio(i128::from(NANOS_PER_HOUR), time).unwrap_or_default()
    }

    fn account(&self, account: Account) -> String {
        self.period.accounts.cost(account).to_string()
    }

    fn utilized(&self) -> NanoUsd {
        self.period.utilized_usd.map_or(NanoUsd::ZERO, |Usd(utilized)| utilized)
    }

    /// The start of the month of the period, or of a later one.
    fn month(&self, later: u32) -> String {
        let date = Date::of(self.period.start).to_string();
        let mut parts = date.split('-').map(|part| part.parse::<u32>().unwrap_or_default());
        let (year, month) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let months = year * 12 + month - 1 + later;
        format!("{:04}-{:02}-01T00:00:00Z", months / 12, months % 12 + 1)
    }
}

/// Hours with nine decimals, rounded half to even.
fn hours(time: Nanos) -> String {
    let nanos = i128::from(time.0) * i128::from(phasemeter_meter::money::NANOS_PER_USD);
    NanoUsd(div_half_even(nanos, i128::from(NANOS_PER_HOUR)).unwrap_or_default()).to_string()
}

fn json(attributes: &BTreeMap<String, String>) -> String {
    serde_json::to_string(attributes).unwrap_or_default()
}
