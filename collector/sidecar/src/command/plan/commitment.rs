//! The question of `phasemeter plan commitment`.

use std::path::Path;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_plan::commitment::{Commitment, Request};
use phasemeter_plan::error::PlanError;

use super::super::error::CommandError;
use super::price_lookup::PriceLookup;
use super::{lacks, measured};
use phasemeter_cli::{CommitmentArgs, PlanPriceArgs};
use phasemeter_plan_report::Measured;

/// The most GPUs of a plan: sums of money do not overflow.
const MAX_GPUS: u64 = 100_000;

pub(super) fn request(
    args: CommitmentArgs,
    prices: &mut PriceLookup,
) -> Result<Request, CommandError> {
    prices.read(&args.price.prices)?;
    let report = measured(args.from.as_deref())?;
    let by_hour = match args.by_hour {
        Some(list) if list.is_empty() => used_by_hour(args.from.as_deref(), report.as_ref())?,
        list => list.unwrap_or_default(),
    };
    let gpus = args.gpu_count.or_else(|| Some(report.as_ref()?.gpus.len() as u64)).unwrap_or(1);
    if !(1..=MAX_GPUS).contains(&gpus) {
        return Err(PlanError::invalid(
            "gpu-count",
            gpus,
            "not a number of GPUs",
            "give 1 to 100000",
        )
        .into());
    }
    let model = args.gpu.as_deref();
    let quoted = prices.quoted(&args.price, model, report.as_ref())?;
    if let Some(price) = &quoted {
        prices.note("quoted price", price);
    }
    let quoted = |plan: PaymentPlan| {
        let of_plan = quoted.as_ref().filter(|it| it.plan.unwrap_or(PaymentPlan::OnDemand) == plan);
        of_plan.map(|price| price.rate)
    };
    let on_demand = match quoted(PaymentPlan::OnDemand) {
        Some(rate) => Some(rate),
        None => prices.unquoted(&args.price, model, report.as_ref())?,
    };
    let on_demand = on_demand.ok_or(PlanError::missing(
        "price",
        "plans are compared with the price on demand",
        "give --price, --gpu or --instance-type",
    ))?;
    let model = model.or_else(|| report.as_ref()?.model());
    // Other prices are those of the same place: what another provider charges is not for these instances.
    let place = placed_as(&args.price, report.as_ref());
    let given = [
        (PaymentPlan::Spot, args.spot_price),
        (PaymentPlan::Reserved1y, args.reserved_1y_price),
        (PaymentPlan::Reserved3y, args.reserved_3y_price),
        (PaymentPlan::Owned, args.owned_price),
    ];
    let mut rates = Vec::new();
    for (plan, given) in given {
        let rate = match given.or_else(|| quoted(plan)) {
            None if args.price.price.is_none() || !args.price.prices.is_empty() => {
                prices.beside(&place, model, plan)
            }
            known => known,
        };
        rates.extend(rate.map(|rate| (plan, rate)));
    }
    let spot = rates.iter().find(|(plan, _)| *plan == PaymentPlan::Spot).map(|(_, rate)| *rate);
    let upfront = |plan| match plan {
        PaymentPlan::Reserved1y => args.reserved_1y_upfront.unwrap_or_default(),
        PaymentPlan::Reserved3y => args.reserved_3y_upfront.unwrap_or_default(),
        _ => NanoUsd::ZERO,
    };
    let committed = rates.into_iter().filter(|(plan, _)| *plan != PaymentPlan::Spot);
    let committed = committed.map(|(plan, rate)| Commitment { plan, rate, upfront: upfront(plan) });
    Ok(Request {
        gpus,
        hours: args.hours,
        measured: report.as_ref().and_then(Measured::measured_use),
        month_hours: args.month_hours,
        on_demand,
        spot,
        committed: committed.collect(),
        by_hour,
    })
}

/// The place of the prices, else that of the report's.
fn placed_as(args: &PlanPriceArgs, report: Option<&Measured>) -> PlanPriceArgs {
    let is_given = args.provider.is_some() || args.region.is_some() || args.instance_type.is_some();
    match report.and_then(|report| report.price.as_ref()).filter(|_| !is_given) {
        Some(price) => PlanPriceArgs {
            provider: price.provider.clone(),
            region: price.region.clone(),
            instance_type: price.instance_type.clone(),
            ..args.clone()
        },
        None => args.clone(),
    }
}

/// The GPUs in use in each hour of a report.
fn used_by_hour(from: Option<&Path>, report: Option<&Measured>) -> Result<Vec<u64>, CommandError> {
    let report = report.ok_or(PlanError::missing(
        "from",
        "--by-hour without a list takes the hours of a report",
        "give --from, or a list like 2,2,8,8",
    ))?;
    let hours: Vec<u64> = report.hours().into_values().map(|hour| hour.in_use).collect();
    if hours.iter().all(|&gpus| gpus == 0) {
        let fix = "give the report of a run with work, or --by-hour a list like 2,2,8,8";
        return Err(lacks(from, "hour in which a GPU is in use", fix));
    }
    Ok(hours)
}
