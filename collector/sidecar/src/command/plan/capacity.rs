//! The question of `phasemeter plan capacity`.

use phasemeter_plan::capacity::{Demand, Request};
use phasemeter_plan::error::PlanError;
use phasemeter_plan::units::PerSecond;

use super::super::error::CommandError;
use super::prices::Prices;
use super::{lacks, measured};
use crate::cli::CapacityArgs;

pub(super) fn request(args: CapacityArgs, prices: &mut Prices) -> Result<Request, CommandError> {
    prices.read(&args.price.prices)?;
    let report = measured(args.from.as_deref())?;
    let demand = match (args.demand, args.by_hour, args.per_day.zip(args.window)) {
        (Some(demand), ..) => Demand::PerSecond(demand),
        (None, Some(demands), _) => Demand::ByHour(demands),
        (None, None, Some((per_day, window))) => {
            Demand::Offline { per_day, window, windows: args.windows }
        }
        (None, None, None) => {
            return Err(PlanError::Missing {
                option: "demand",
                reason: "the number of GPUs depends on it",
                fix: "give --demand, --by-hour, or --per-day with --window",
            }
            .into());
        }
    };
    let measured_throughput = report.as_ref().and_then(|it| it.throughput());
    let (throughput, throughput_source) = match (args.throughput, measured_throughput) {
        (Some(given), _) => (given, "the throughput of a GPU is as given".to_owned()),
        (None, Some((unit, per_second))) => (
            PerSecond::new(per_second).ok_or(PlanError::Overflow)?,
            format!(
                "a GPU does {per_second:.1} {unit} per second, as measured over the whole run, idle \
                 time included"
            ),
        ),
        (None, None) => {
            let fix = "set --work in the run, with one unit, or give --throughput";
            return Err(lacks(args.from.as_deref(), "work of one unit", fix));
        }
    };
    let price = prices.on_demand(&args.price, args.gpu.as_deref(), report.as_ref())?;
    let today = args.today.or_else(|| report.map(|it| it.gpus.len() as u64));
    let (target, headroom) = (args.target, args.headroom);
    Ok(Request { demand, throughput, throughput_source, target, headroom, price, today })
}
