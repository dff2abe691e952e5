//! The question of `phasemeter plan own`.

use phasemeter_plan::own::Request;
use phasemeter_plan::units::Ratio;

use super::super::error::CommandError;
use super::price_lookup::PriceLookup;
use super::{lacks, measured};
use phasemeter_cli::OwnArgs;

pub(super) fn request(args: &OwnArgs, prices: &mut PriceLookup) -> Result<Request, CommandError> {
    prices.read(&args.price.prices)?;
    let report = measured(args.from.as_deref())?;
    let watts = args.watts.or_else(|| report.as_ref()?.watts()).ok_or_else(|| {
        lacks(args.from.as_deref(), "energy", "record the column power.draw, or give --watts")
    })?;
    let utilization = args.utilization.or_else(|| ratio(report.as_ref()?.utilization()?));
    let rent = prices.on_demand(&args.price, args.gpu.as_deref(), report.as_ref())?;
    Ok(Request {
        purchase: args.purchase,
        residual: args.residual,
        years: args.years,
        watts,
        idle_watts: args.idle_watts,
        pue: args.pue,
        electricity: args.electricity,
        rack: args.rack,
        staff: args.staff,
        rent,
        utilization,
    })
}

/// A fraction of 0 to 1 as a ratio.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
pub(super) fn ratio(fraction: f64) -> Option<Ratio> {
    let ppm = (fraction * 1e6).round();
    (0.0..=1e6).contains(&ppm).then(|| Ratio::from_ppm(ppm as u64))
}
