//! The question of `phasemeter plan spot`.

use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_plan::error::PlanError;
use phasemeter_plan::spot::{Interruptions, Request, Spot};

use super::super::error::CommandError;
use super::measured;
use super::price_lookup::PriceLookup;
use phasemeter_cli::SpotArgs;

pub(super) fn request(args: &SpotArgs, prices: &mut PriceLookup) -> Result<Request, CommandError> {
    if args.no_checkpoints {
        return Err(PlanError::invalid(
            "no-checkpoints",
            "given",
            "an interruption would repeat the whole job",
            "save checkpoints, or use capacity that is not interrupted",
        )
        .into());
    }
    prices.read(&args.price.prices)?;
    let report = measured(args.from.as_deref())?;
    let model = args.gpu.as_deref().or_else(|| report.as_ref()?.model());
    let on_demand = prices.on_demand(&args.price, model, report.as_ref())?;
    let spot = match (args.discount, args.spot_price) {
        (Some(discount), _) => Spot::Discount(discount),
        (None, Some(price)) => Spot::Price(price),
        (None, None) => {
            let listed = prices.listed(
                &args.price,
                model,
                PaymentPlan::Spot,
                "--discount or --spot-price",
            )?;
            let listed = listed.ok_or(PlanError::missing(
                "discount",
                "the saving depends on the price of spot",
                "give --discount, --spot-price, --gpu or --instance-type",
            ))?;
            prices.note("spot price", &listed);
            Spot::Price(listed.rate)
        }
    };
    let gpu_hours = args.gpu_hours.or_else(|| nanos(report.as_ref()?.gpu_hours?));
    let interruptions = interruptions(args)?;
    Ok(Request { on_demand, spot, interruptions, gpu_hours })
}

fn interruptions(args: &SpotArgs) -> Result<Interruptions, PlanError> {
    if let Some(redone) = args.redone {
        return Ok(Interruptions::Redone(redone));
    }
    let missing = |option| {
        PlanError::missing(
            option,
            "interruptions repeat work",
            "give --interval, --restart and --mean-time, or --redone as measured",
        )
    };
    Ok(Interruptions::Checkpoints {
        interval: args.interval.ok_or_else(|| missing("interval"))?,
        restart: args.restart.ok_or_else(|| missing("restart"))?,
        between: args.mean_time.ok_or_else(|| missing("mean-time"))?,
        write: args.checkpoint_time,
    })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
fn nanos(hours: f64) -> Option<Nanos> {
    let nanos = (hours * NANOS_PER_HOUR as f64).round();
    (0.0..1e18).contains(&nanos).then_some(Nanos(nanos as u64))
}
