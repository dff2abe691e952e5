//! The question of `phasemeter plan select`.

use phasemeter_meter::gpu_specs::GpuSpecs;
use phasemeter_meter::money::Rate;
use phasemeter_plan::error::PlanError;
use phasemeter_plan::select::{Offer, Request};
use phasemeter_plan::units::PerSecond;

use super::super::error::CommandError;
use super::memory::specs;
use super::price_lookup::PriceLookup;
use super::{lacks, measured};
use phasemeter_cli::{OfferArg, PlanPriceArgs, PricerArgs, SelectArgs};
use phasemeter_plan_report::Measured;

pub(super) fn request(args: SelectArgs, prices: &mut PriceLookup) -> Result<Request, CommandError> {
    prices.read(&args.prices)?;
    let mut offers = Vec::new();
    if let Some(report) = measured(args.from.as_deref())? {
        offers.push(measured_offer(&report, prices).ok_or_else(|| {
            let fix = "set --work in the run, with one unit, and a price";
            lacks(args.from.as_deref(), "work of one unit with a price", fix)
        })?);
    }
    for arg in args.offers {
        offers.push(offer(arg, prices)?);
    }
    if let Some(intensity) = args.intensity.filter(|it| !it.is_finite() || *it <= 0.0) {
        return Err(PlanError::invalid(
            "intensity",
            intensity,
            "not FLOP per byte",
            "give a number above 0, like 50",
        )
        .into());
    }
    Ok(Request {
        offers,
        work: args.work,
        deadline: args.deadline,
        intensity: args.intensity,
        parameters: args.active_params.or(args.params),
    })
}

/// The GPUs of a report at its price.
fn measured_offer(report: &Measured, prices: &mut PriceLookup) -> Option<Offer> {
    let price = report.price.as_ref()?;
    let throughput = PerSecond::new(report.throughput()?.1)?;
    prices.note("measured run", price);
    let model = report.model();
    Some(Offer {
        name: format!("measured, {}", model.unwrap_or("several models")),
        specs: model.and_then(GpuSpecs::of),
        gpus: report.gpus.len() as u64,
        price: price.rate,
        throughput: Some(throughput),
    })
}

fn offer(arg: OfferArg, prices: &mut PriceLookup) -> Result<Offer, CommandError> {
    let instance_type = arg.instance_type.clone();
    let model = match &arg.gpu {
        Some(model) => Some(specs(model)?.model.to_owned()),
        None => prices.gpu_of(instance_type.as_deref()),
    };
    let name = arg.name.or(instance_type).or(arg.gpu).unwrap_or_default();
    let lookup = PlanPriceArgs {
        price: arg.price,
        prices: Vec::new(),
        provider: arg.provider,
        region: arg.region,
        instance_type: arg.instance_type,
        pricers: PricerArgs::default(),
    };
    let price: Option<Rate> = prices.on_demand(&lookup, model.as_deref(), None)?;
    let price = price.ok_or_else(|| {
        PlanError::invalid(
            "offer",
            &name,
            "its price is unknown",
            "add price=USD, gpu=MODEL or instance-type=NAME",
        )
    })?;
    let specs = model.as_deref().and_then(GpuSpecs::of);
    Ok(Offer { name, specs, gpus: arg.count, price, throughput: arg.throughput })
}
