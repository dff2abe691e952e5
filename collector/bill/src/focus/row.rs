//! One row of FOCUS 1.2: a period of a GPU.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos, Timestamp};

use self::Getter::{Cost, Hours, Map, Range, Text, Time};
use super::month::month;
use super::value::{Decimal, Kind, Value};
use crate::report::{Gpu, Period, Price, Report, Usd};

/// Stands for what a report does not contain and FOCUS does not allow to be null.
const NOT_REPORTED: &str = "not reported";

/// A part of a period has each account rounded down.
const ROUNDING: i128 = Account::ALL.len() as i128;

/// The unit of prices and quantities.
const HOURS: &str = "Hours";

/// How the values of a column are computed.
enum Getter {
    /// Null if it is empty.
    Text(fn(&Context<'_>) -> String),
    Cost(fn(&Context<'_>) -> NanoUsd),
    /// Null if it is exact.
    Range(fn(&Context<'_>) -> Option<NanoUsd>),
    Hours(fn(&Context<'_>) -> Option<Nanos>),
    Time(fn(&Context<'_>) -> Timestamp),
    Map(for<'a> fn(&Context<'a>) -> &'a BTreeMap<String, String>),
}

/// What a row is made of.
struct Context<'a> {
    report: &'a Report,
    gpu: &'a Gpu,
    period: &'a Period,
    plan: PaymentPlan,
    cost: NanoUsd,
    tags: &'a BTreeMap<String, String>,
}

/// The columns, in the order of their names, then our own.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method has the lifetime of its context, and a column takes any"
)]
const COLUMNS: [(&str, Getter); 63] = [
    ("BilledCost", Cost(|it| if it.plan.is_committed() { NanoUsd::ZERO } else { it.cost })),
    (
        "BillingAccountId",
        Text(|it| it.attribute("cloud.account.id").unwrap_or(NOT_REPORTED).to_owned()),
    ),
    (
        "BillingAccountName",
        Text(|it| it.attribute("cloud.account.name").unwrap_or_default().to_owned()),
    ),
    ("BillingAccountType", Text(|_| "Account".to_owned())),
    ("BillingCurrency", Text(|_| "USD".to_owned())),
    ("BillingPeriodEnd", Time(|it| it.month(true))),
    ("BillingPeriodStart", Time(|it| it.month(false))),
    ("ChargeCategory", Text(|_| "Usage".to_owned())),
    ("ChargeClass", Text(|_| String::new())),
    ("ChargeDescription", Text(|it| format!("GPU time, {}, {}", it.model(), it.plan_name()))),
    ("ChargeFrequency", Text(|_| "Usage-Based".to_owned())),
    ("ChargePeriodEnd", Time(|it| it.period.end)),
    ("ChargePeriodStart", Time(|it| it.period.start)),
    ("CommitmentDiscountCategory", Text(|it| it.if_reserved(|_| "Usage".to_owned()))),
    ("CommitmentDiscountId", Text(|it| it.if_reserved(Context::sku_price))),
    ("CommitmentDiscountName", Text(|it| it.if_reserved(|it| it.plan.as_str().to_owned()))),
    ("CommitmentDiscountQuantity", Hours(|it| it.is_reserved().then(|| it.period.length()))),
    ("CommitmentDiscountStatus", Text(|it| it.if_reserved(|_| "Used".to_owned()))),
    ("CommitmentDiscountType", Text(|it| it.if_reserved(|_| "Reservation".to_owned()))),
    ("CommitmentDiscountUnit", Text(|it| it.if_reserved(|_| HOURS.to_owned()))),
    ("ConsumedQuantity", Hours(|it| Some(it.period.length()))),
    ("ConsumedUnit", Text(|_| HOURS.to_owned())),
    ("ContractedCost", Cost(|it| it.cost)),
    ("ContractedUnitPrice", Cost(|it| it.unit_price())),
    ("EffectiveCost", Cost(|it| it.cost)),
    ("InvoiceIssuerName", Text(|it| it.provider().to_owned())),
    ("ListCost", Cost(|it| it.cost)),
    ("ListUnitPrice", Cost(|it| it.unit_price())),
    ("PricingCategory", Text(|it| it.pricing_category().to_owned())),
    ("PricingQuantity", Hours(|it| Some(it.period.length()))),
    ("PricingUnit", Text(|_| HOURS.to_owned())),
    ("ProviderName", Text(|it| it.provider().to_owned())),
    ("PublisherName", Text(|it| it.provider().to_owned())),
    ("RegionId", Text(|it| it.region().to_owned())),
    ("RegionName", Text(|it| it.region().to_owned())),
    ("ResourceId", Text(|it| it.gpu.uuid.clone().unwrap_or_else(|| it.resource()))),
    ("ResourceName", Text(|it| it.gpu.uuid.as_ref().map(|_| it.resource()).unwrap_or_default())),
    ("ResourceType", Text(|_| "GPU".to_owned())),
    ("ServiceCategory", Text(|_| "Compute".to_owned())),
    ("ServiceName", Text(|_| "GPU compute".to_owned())),
    ("ServiceSubcategory", Text(|_| "Virtual Machines".to_owned())),
    ("SkuId", Text(|it| it.sku())),
    ("SkuMeter", Text(|_| "GPU Hours".to_owned())),
    ("SkuPriceDetails", Text(|it| it.sku_details())),
    ("SkuPriceId", Text(|it| it.sku_price())),
    ("Tags", Map(|it| it.tags)),
    ("x_ComputeBoundCost", Cost(|it| it.account(Account::ComputeBound))),
    ("x_EffectiveCostHigh", Range(|it| it.range().map(|[_, high]| high))),
    ("x_EffectiveCostLow", Range(|it| it.range().map(|[low, _]| low))),
    ("x_EffectiveGpuHours", Hours(|it| Some(it.period.effective_seconds.0))),
    ("x_ExperimentId", Text(|it| it.report.experiment.id.clone())),
    ("x_GpuModel", Text(|it| it.model().to_owned())),
    ("x_IdleFreeCost", Cost(|it| it.account(Account::IdleFree))),
    ("x_IdleHeldCost", Cost(|it| it.account(Account::IdleHeld))),
    ("x_IdleUnknownCost", Cost(|it| it.account(Account::IdleUnknown))),
    ("x_PriceSource", Text(|it| it.price().map(|price| price.source.clone()).unwrap_or_default())),
    ("x_ProductiveCost", Cost(|it| it.account(Account::Productive))),
    ("x_Reported", Text(|it| it.report.title.clone())),
    ("x_UnderutilizedCost", Cost(|it| it.account(Account::Underutilized))),
    ("x_UnobservedCost", Cost(|it| it.account(Account::Unobserved))),
    ("x_UnobservedHours", Hours(|it| Some(it.period.accounts.time(Account::Unobserved)))),
    ("x_UtilizedCost", Cost(|it| it.utilized())),
    ("x_WasteCost", Cost(|it| it.period.accounts.cost_of(&Account::OBSERVED) - it.utilized())),
];

/// The names of the columns, and what they contain.
pub(super) fn columns() -> [(&'static str, Kind); COLUMNS.len()] {
    COLUMNS.map(|(name, column)| (name, column.kind()))
}

/// The values of a period of a GPU with a price.
pub(super) fn values<'a>(
    report: &'a Report,
    gpu: &'a Gpu,
    period: &'a Period,
    tags: &'a BTreeMap<String, String>,
) -> [Value<'a>; COLUMNS.len()] {
    let plan = gpu.price.as_ref().and_then(|price| price.plan.as_deref()?.parse().ok());
    let plan = plan.unwrap_or(PaymentPlan::OnDemand);
    let cost = period.accounts.cost_of(&Account::ALL);
    let context = Context { report, gpu, period, plan, cost, tags };
    COLUMNS.map(|(_, column)| column.value(&context))
}

impl Getter {
    const fn kind(&self) -> Kind {
        match self {
            Text(_) => Kind::Text,
            Cost(_) | Range(_) | Hours(_) => Kind::Decimal,
            Time(_) => Kind::Time,
            Map(_) => Kind::Map,
        }
    }

    fn value<'a>(&self, context: &Context<'a>) -> Value<'a> {
        match self {
            Text(text) => Value::Text(Some(text(context)).filter(|text| !text.is_empty())),
            Cost(cost) => Value::Decimal(Some(Decimal::from(cost(context)))),
            Range(cost) => Value::Decimal(cost(context).map(Decimal::from)),
            Hours(time) => Value::Decimal(time(context).map(Decimal::hours)),
            Time(at) => Value::Time(at(context)),
            Map(map) => Value::Map(map(context)),
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

    const fn plan_name(&self) -> &'static str {
        match self.plan {
            PaymentPlan::OnDemand => "on demand",
            PaymentPlan::Spot => "spot",
            PaymentPlan::Reserved1y | PaymentPlan::Reserved3y => "reserved",
            PaymentPlan::Owned => "owned",
        }
    }

    const fn pricing_category(&self) -> &'static str {
        match self.plan {
            PaymentPlan::OnDemand => "Standard",
            PaymentPlan::Spot => "Dynamic",
            PaymentPlan::Reserved1y | PaymentPlan::Reserved3y => "Committed",
            PaymentPlan::Owned => "Other",
        }
    }

    const fn is_reserved(&self) -> bool {
        matches!(self.plan, PaymentPlan::Reserved1y | PaymentPlan::Reserved3y)
    }

    fn if_reserved(&self, value: impl Fn(&Self) -> String) -> String {
        if self.is_reserved() { value(self) } else { String::new() }
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
        let region = if self.region().is_empty() { NOT_REPORTED } else { self.region() };
        format!("{}/{region}/{}", self.sku(), self.plan)
    }

    fn sku_details(&self) -> String {
        let mut details = serde_json::Map::from_iter([("GpuCount".to_owned(), 1.into())]);
        if let Some(instance_type) = self.instance_type() {
            details.insert("InstanceType".to_owned(), instance_type.into());
        }
        serde_json::Value::Object(details).to_string()
    }

    /// The rate; of a GPU whose price changed, that of the period.
    fn unit_price(&self) -> NanoUsd {
        let rate = self.gpu.rate_usd_per_gpu_hour.filter(|_| self.gpu.earlier_prices_total == 0);
        let nanos = rate.map(|Usd(rate)| rate).filter(|rate| {
            let time = i128::from(self.period.length().0);
            let exact = rate.ratio(time, i128::from(NANOS_PER_HOUR)).unwrap_or_default();
            // Not if the GPU had no price at first.
            (exact - self.cost).0.abs() <= ROUNDING
        });
        nanos.unwrap_or_else(|| self.blended_rate())
    }

    fn blended_rate(&self) -> NanoUsd {
        let time = i128::from(self.period.length().0);
        self.cost.ratio(i128::from(NANOS_PER_HOUR), time).unwrap_or_default()
    }

    fn account(&self, account: Account) -> NanoUsd {
        self.period.accounts.cost(account)
    }

    fn utilized(&self) -> NanoUsd {
        self.period.utilized_usd.map_or(NanoUsd::ZERO, |Usd(utilized)| utilized)
    }

    /// The start of the month of the period, or of the month after it.
    fn month(&self, is_next: bool) -> Timestamp {
        month(self.period.start, is_next).unwrap_or(self.period.end)
    }

    /// The cost at the lowest and at the highest price of an estimate.
    fn range(&self) -> Option<[NanoUsd; 2]> {
        self.gpu.range_of(self.cost)
    }
}
