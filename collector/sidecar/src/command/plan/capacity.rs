//! The question of `phasemeter plan capacity`.

use std::path::Path;

use phasemeter_plan::capacity::{Demand, Request};
use phasemeter_plan::error::PlanError;
use phasemeter_plan::profile::busiest_day;
use phasemeter_plan::units::PerSecond;

use super::super::error::CommandError;
use super::price_lookup::PriceLookup;
use super::{lacks, measured};
use phasemeter_cli::CapacityArgs;
use phasemeter_plan_report::Measured;

pub(super) fn request(
    args: CapacityArgs,
    prices: &mut PriceLookup,
) -> Result<Request, CommandError> {
    prices.read(&args.price.prices)?;
    let report = measured(args.from.as_deref())?;
    let by_report = args.by_hour.as_ref().is_some_and(Vec::is_empty);
    let profile = by_report.then(|| profile(args.from.as_deref(), report.as_ref())).transpose()?;
    let is_busy_time = profile.as_ref().is_some_and(|it| it.unit.is_none());
    let demand = match (args.demand, args.by_hour, args.per_day.zip(args.window)) {
        (Some(demand), ..) => Demand::PerSecond(demand),
        (None, Some(demands), _) => match profile {
            Some(profile) => Demand::Measured(profile.day),
            None => Demand::ByHour(demands),
        },
        (None, None, Some((per_day, window))) => {
            Demand::Offline { per_day, window, windows: args.windows }
        }
        (None, None, None) => {
            return Err(PlanError::missing(
                "demand",
                "the number of GPUs depends on it",
                "give --demand, --by-hour, or --per-day with --window",
            )
            .into());
        }
    };
    let day = "the busiest of each hour of the day counts, in UTC";
    let measured_throughput = report.as_ref().and_then(|it| it.throughput());
    let (throughput, throughput_source) = match (args.throughput, measured_throughput) {
        _ if is_busy_time => (
            PerSecond::new(1.0).ok_or(PlanError::Overflow)?,
            format!(
                "the demand is in GPU-seconds of full utilization per second, since the report has no work \
                 by hour; {day}"
            ),
        ),
        (Some(given), _) if by_report => {
            (given, format!("the throughput of a GPU is as given; {day}"))
        }
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

/// The demand of each hour of the day.
struct Profile {
    /// The unit of work; `None` if it is utilization.
    unit: Option<String>,
    day: Vec<f64>,
}

/// The demand by hour of the day of a report: its work by hour, else its utilization.
fn profile(from: Option<&Path>, report: Option<&Measured>) -> Result<Profile, CommandError> {
    let report = report.ok_or(PlanError::missing(
        "from",
        "--by-hour without a list takes the hours of a report",
        "give --from, or a list like 20,5,80,400",
    ))?;
    let (unit, rates) = match report.work_rates() {
        Some((unit, rates)) => (Some(unit.to_owned()), rates),
        None => {
            let hours = report.hours().into_iter().filter(|(_, hour)| hour.is_representative());
            (None, hours.map(|(number, hour)| (number, hour.busy_gpus())).collect())
        }
    };
    let day = busiest_day(rates);
    let day = day.filter(|day| day.iter().any(|rate| *rate > 0.0)).ok_or_else(|| {
        let fix = "record at least a day, or give --by-hour a list like 20,5,80,400";
        lacks(from, "use in every hour of a day", fix)
    })?;
    Ok(Profile { unit, day })
}
