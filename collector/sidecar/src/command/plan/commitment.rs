//! The question of `phasemeter plan commitment`.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::price::Plan;
use phasemeter_plan::commitment::{Commitment, Request};
use phasemeter_plan::error::PlanError;

use super::super::error::CommandError;
use super::measured;
use super::prices::Prices;
use crate::cli::CommitmentArgs;

/// The most GPUs of a plan: sums of money do not overflow.
const MAX_GPUS: u64 = 100_000;

pub(super) fn request(args: CommitmentArgs, prices: &mut Prices) -> Result<Request, CommandError> {
    prices.read(&args.price.prices)?;
    let report = measured(args.from.as_deref())?;
    let gpus = args.gpu_count.or_else(|| Some(report.as_ref()?.gpus.len() as u64)).unwrap_or(1);
    if !(1..=MAX_GPUS).contains(&gpus) {
        return Err(PlanError::Invalid {
            option: "gpu-count",
            value: gpus.to_string(),
            problem: "not a number of GPUs".to_owned(),
            fix: "give 1 to 100000".to_owned(),
        }
        .into());
    }
    let model = args.gpu.as_deref();
    let on_demand = prices.on_demand(&args.price, model, report.as_ref())?;
    let on_demand = on_demand.ok_or(PlanError::Missing {
        option: "price",
        reason: "plans are compared with the price on demand",
        fix: "give --price, --gpu or --instance-type",
    })?;
    let model = model.or_else(|| report.as_ref()?.model());
    // The book's spot price is shown if it has one.
    let spot = match (args.spot_price, args.price.price) {
        (Some(given), _) => Some(given),
        (None, Some(_)) => None,
        (None, None) => {
            let listed = prices.listed(&args.price, model, Plan::Spot, "--spot-price");
            let listed = listed.ok().flatten();
            if let Some(price) = &listed {
                prices.note("spot price", price);
            }
            listed.map(|price| price.rate)
        }
    };
    let upfront = |given: Option<NanoUsd>| given.unwrap_or_default();
    let committed = [
        (Plan::Reserved1y, args.reserved_1y_price, upfront(args.reserved_1y_upfront)),
        (Plan::Reserved3y, args.reserved_3y_price, upfront(args.reserved_3y_upfront)),
        (Plan::Owned, args.owned_price, NanoUsd::ZERO),
    ];
    let committed = committed
        .into_iter()
        .filter_map(|(plan, rate, upfront)| Some(Commitment { plan, rate: rate?, upfront }));
    Ok(Request {
        gpus,
        hours: args.hours,
        month_hours: args.month_hours,
        on_demand,
        spot,
        committed: committed.collect(),
        by_hour: args.by_hour.unwrap_or_default(),
    })
}
