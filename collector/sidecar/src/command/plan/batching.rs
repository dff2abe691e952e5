//! The question of `phasemeter plan batching`.

use phasemeter_plan::batching::Request;
use phasemeter_plan::units::PerSecond;

use super::super::error::CommandError;
use super::{lacks, measured};
use phasemeter_cli::BatchingArgs;
use phasemeter_plan_report::Measured;

pub(super) fn request(args: &BatchingArgs) -> Result<Request, CommandError> {
    let report = measured(args.from.as_deref())?;
    let arrivals = args.rate.or_else(|| rate(report.as_ref()?)).ok_or_else(|| {
        let fix = "set --work or --work-log in the run, with one unit, or give --rate";
        lacks(args.from.as_deref(), "work of one unit", fix)
    })?;
    Ok(Request {
        arrivals,
        budget: args.budget,
        batch_time: args.batch_time,
        item_time: args.item_time,
        wait: args.wait,
        max_batch: args.max_batch,
        wanted_batch: args.wanted_batch,
        seed: args.seed,
    })
}

/// Work per second and GPU in the busiest hour, else over the whole run.
fn rate(report: &Measured) -> Option<PerSecond> {
    let busiest = report
        .work_rates()
        .and_then(|(_, rates)| rates.into_iter().map(|(_, rate)| rate).max_by(f64::total_cmp));
    let per_gpu = busiest.map(|rate| rate / report.gpus.len() as f64);
    PerSecond::new(per_gpu.or_else(|| Some(report.throughput()?.1))?)
}
