//! The columns of FOCUS, and how the values of a row are computed.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};

use self::Getter::{Cost, Hours, Map, OptionalCost, OptionalMap, Text, Time};
use super::context::{Context, NOT_REPORTED};
use super::value::{Decimal, Kind, Value};
use super::version::{FocusOptions, FocusVersion};
use crate::holder::Holder;

/// The unit of prices and quantities.
const HOURS: &str = "Hours";

/// How the values of a column are computed.
enum Getter {
    /// Null if it is empty.
    Text(fn(&Context<'_>) -> String),
    Cost(fn(&Context<'_>) -> NanoUsd),
    OptionalCost(fn(&Context<'_>) -> Option<NanoUsd>),
    Hours(fn(&Context<'_>) -> Option<Nanos>),
    Time(fn(&Context<'_>) -> Timestamp),
    Map(for<'a> fn(&Context<'a>) -> &'a BTreeMap<String, String>),
    OptionalMap(for<'a> fn(&Context<'a>) -> Option<&'a BTreeMap<String, String>>),
}

/// The columns, in the order of their names, then our own.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method has the lifetime of its context, and a column takes any"
)]
static COLUMNS: [(&str, Getter); 73] = [
    ("AllocatedMethodDetails", Text(|it| it.allocated(|of| of.details(it.charge.time)))),
    ("AllocatedMethodId", Text(|it| it.allocated(|of| of.method.to_owned()))),
    ("AllocatedResourceId", Text(|it| it.holder().map(Holder::id).unwrap_or_default())),
    ("AllocatedResourceName", Text(|it| it.holder().map(Holder::full_name).unwrap_or_default())),
    ("AllocatedTags", OptionalMap(|it| it.holder_tags)),
    ("BilledCost", Cost(|it| if it.plan.is_committed() { NanoUsd::ZERO } else { it.charge.cost })),
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
    ("ChargeDescription", Text(|it| it.description())),
    ("ChargeFrequency", Text(|_| "Usage-Based".to_owned())),
    ("ChargePeriodEnd", Time(|it| it.charge.end)),
    ("ChargePeriodStart", Time(|it| it.charge.start)),
    ("CommitmentDiscountCategory", Text(|it| it.if_reserved(|_| "Usage".to_owned()))),
    ("CommitmentDiscountId", Text(|it| it.if_reserved(Context::sku_price))),
    ("CommitmentDiscountName", Text(|it| it.if_reserved(|it| it.plan.as_str().to_owned()))),
    ("CommitmentDiscountQuantity", Hours(|it| it.is_reserved().then_some(it.charge.time))),
    ("CommitmentDiscountStatus", Text(|it| it.if_reserved(|_| "Used".to_owned()))),
    ("CommitmentDiscountType", Text(|it| it.if_reserved(|_| "Reservation".to_owned()))),
    ("CommitmentDiscountUnit", Text(|it| it.if_reserved(|_| HOURS.to_owned()))),
    ("ConsumedQuantity", Hours(|it| Some(it.charge.time))),
    ("ConsumedUnit", Text(|_| HOURS.to_owned())),
    ("ContractedCost", Cost(|it| it.charge.cost)),
    ("ContractedUnitPrice", Cost(|it| it.unit_price())),
    ("EffectiveCost", Cost(|it| it.charge.cost)),
    ("HostProviderName", Text(|it| it.provider().to_owned())),
    ("InvoiceId", Text(|it| it.options.invoice.clone().unwrap_or_default())),
    ("InvoiceIssuerName", Text(|it| it.provider().to_owned())),
    ("ListCost", Cost(|it| it.charge.cost)),
    ("ListUnitPrice", Cost(|it| it.unit_price())),
    ("PricingCategory", Text(|it| it.pricing_category().to_owned())),
    ("PricingQuantity", Hours(|it| Some(it.charge.time))),
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
    ("ServiceProviderName", Text(|it| it.provider().to_owned())),
    ("ServiceSubcategory", Text(|_| "Virtual Machines".to_owned())),
    ("SkuId", Text(|it| it.sku())),
    ("SkuMeter", Text(|_| "GPU Hours".to_owned())),
    ("SkuPriceDetails", Text(|it| it.sku_details())),
    ("SkuPriceId", Text(|it| it.sku_price())),
    ("Tags", Map(|it| it.tags)),
    ("x_ComputeBoundCost", OptionalCost(|it| it.account(Account::ComputeBound))),
    ("x_EffectiveCostHigh", OptionalCost(|it| it.range().map(|[_, high]| high))),
    ("x_EffectiveCostLow", OptionalCost(|it| it.range().map(|[low, _]| low))),
    ("x_EffectiveGpuHours", Hours(|it| Some(it.charge.effective))),
    ("x_ExperimentId", Text(|it| it.report.experiment.id.clone())),
    ("x_GpuModel", Text(|it| it.model().to_owned())),
    ("x_GrantedUnusedCost", OptionalCost(|it| it.unused(0))),
    ("x_IdleFreeCost", OptionalCost(|it| it.account(Account::IdleFree))),
    ("x_IdleHeldCost", OptionalCost(|it| it.account(Account::IdleHeld))),
    ("x_IdleUnknownCost", OptionalCost(|it| it.account(Account::IdleUnknown))),
    ("x_NeverTouchedCost", OptionalCost(|it| it.unused(1))),
    ("x_PriceSource", Text(|it| it.price().map(|price| price.source.clone()).unwrap_or_default())),
    ("x_ProductiveCost", OptionalCost(|it| it.account(Account::Productive))),
    ("x_Reported", Text(|it| it.report.title.clone())),
    ("x_UnderutilizedCost", OptionalCost(|it| it.account(Account::Underutilized))),
    ("x_UnobservedCost", Cost(|it| it.charge.unobserved)),
    (
        "x_UnobservedHours",
        Hours(|it| it.charge.phases.as_ref().map(|it| it.time(Account::Unobserved))),
    ),
    ("x_UtilizedCost", Cost(|it| it.charge.utilized)),
    ("x_WasteCost", Cost(|it| it.charge.cost - it.charge.unobserved - it.charge.utilized)),
];

/// Columns that only one version has.
const ONLY_IN: [(FocusVersion, &[&str]); 2] = [
    (FocusVersion::V1_2, &["ProviderName", "PublisherName"]),
    (
        FocusVersion::V1_4,
        &[
            "AllocatedMethodDetails",
            "AllocatedMethodId",
            "AllocatedResourceId",
            "AllocatedResourceName",
            "AllocatedTags",
            "HostProviderName",
            "ServiceProviderName",
            "x_GrantedUnusedCost",
            "x_NeverTouchedCost",
        ],
    ),
];

/// Whether a column is in these rows. An invoice is only if it is known.
fn is_written(name: &str, options: &FocusOptions) -> bool {
    let is_of_version = |(only, names): &(FocusVersion, &[&str])| {
        *only == options.version || !names.contains(&name)
    };
    ONLY_IN.iter().all(is_of_version) && (name != "InvoiceId" || options.invoice.is_some())
}

fn columns_of(options: &FocusOptions) -> impl Iterator<Item = &'static (&'static str, Getter)> {
    COLUMNS.iter().filter(|(name, _)| is_written(name, options))
}

/// The names of the columns, and what they contain.
pub(super) fn columns(options: &FocusOptions) -> impl Iterator<Item = (&'static str, Kind)> {
    columns_of(options).map(|(name, column)| (*name, column.kind()))
}

/// The values of a row.
pub(super) fn values<'a>(context: &Context<'a>) -> Vec<Value<'a>> {
    columns_of(context.options).map(|(_, column)| column.value(context)).collect()
}

impl Getter {
    const fn kind(&self) -> Kind {
        match self {
            Text(_) => Kind::Text,
            Cost(_) | OptionalCost(_) | Hours(_) => Kind::Decimal,
            Time(_) => Kind::Time,
            Map(_) => Kind::Map,
            OptionalMap(_) => Kind::OptionalMap,
        }
    }

    fn value<'a>(&self, context: &Context<'a>) -> Value<'a> {
        match self {
            Text(text) => Value::Text(Some(text(context)).filter(|text| !text.is_empty())),
            Cost(cost) => Value::Decimal(Some(Decimal::from(cost(context)))),
            OptionalCost(cost) => Value::Decimal(cost(context).map(Decimal::from)),
            Hours(time) => Value::Decimal(time(context).map(Decimal::hours)),
            Time(at) => Value::Time(at(context)),
            Map(map) => Value::Map(Some(map(context))),
            OptionalMap(map) => Value::Map(map(context)),
        }
    }
}
