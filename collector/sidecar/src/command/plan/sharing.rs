//! The question of `phasemeter plan sharing`.

use phasemeter_plan::error::PlanError;
use phasemeter_plan::sharing::{Request, Workload};
use phasemeter_plan::units::Size;

use super::super::error::CommandError;
use super::memory::memory_of;
use super::own::ratio;
use super::price_lookup::PriceLookup;
use super::{lacks, measured};
use phasemeter_cli::SharingArgs;
use phasemeter_plan_report::Measured;

/// The most workloads of one option.
const MAX_COUNT: u64 = 10_000;

pub(super) fn request(
    args: SharingArgs,
    prices: &mut PriceLookup,
) -> Result<Request, CommandError> {
    prices.read(&args.price.prices)?;
    let from = args.from.as_deref();
    let report = measured(from)?;
    let model = args.gpu.clone().or_else(|| Some(report.as_ref()?.model()?.to_owned()));
    let model = model.ok_or_else(|| lacks(from, "single model of its GPUs", "give --gpu"))?;
    let memory = memory_of(&model)?;
    let workloads = match (&report, args.workloads.is_empty() && args.partition.is_empty()) {
        (Some(report), true) => measured_workloads(report).ok_or_else(|| {
            lacks(
                from,
                "memory and utilization of each GPU",
                "record the columns memory.used and utilization.gpu",
            )
        })?,
        _ => given(&args)?,
    };
    let price = prices.on_demand(&args.price, Some(&model), report.as_ref())?;
    Ok(Request {
        model,
        memory,
        workloads,
        headroom: args.headroom,
        target: args.target,
        today: args.today,
        price,
        partition: args.partition,
    })
}

/// One workload per GPU of a report.
fn measured_workloads(report: &Measured) -> Option<Vec<Workload>> {
    let workload = |gpu: &phasemeter_plan_report::MeasuredGpu| {
        Some(Workload {
            name: gpu.id.clone(),
            memory: Size(gpu.peak_bytes?),
            utilization: ratio(gpu.utilization?)?,
        })
    };
    report.gpus.iter().map(workload).collect()
}

fn given(args: &SharingArgs) -> Result<Vec<Workload>, PlanError> {
    let mut workloads = Vec::new();
    for it in &args.workloads {
        if it.count > MAX_COUNT {
            return Err(PlanError::invalid(
                "workload",
                &it.name,
                format!("count={} is too many", it.count),
                format!("give at most {MAX_COUNT}"),
            ));
        }
        let name = |number: u64| {
            if it.count == 1 { it.name.clone() } else { format!("{}-{number}", it.name) }
        };
        let (memory, utilization) = (it.memory, it.utilization);
        workloads.extend((1..=it.count).map(|number| Workload {
            name: name(number),
            memory,
            utilization,
        }));
    }
    Ok(workloads)
}
