//! What would be billed.

use std::collections::BTreeMap;

use phasemeter_report::{Gpu, Report};
use phasemeter_terminal::money;
use phasemeter_terminal::number::counted;

use super::findings::{Findings, Topic};

/// Describes the prices that were found, the phases of the trial, and what an hour would cost.
pub fn describe(report: &Report, findings: &mut Findings) {
    let mut prices: BTreeMap<String, u64> = BTreeMap::new();
    for gpu in &report.gpus {
        *prices.entry(price(gpu)).or_default() += 1;
        findings.fact(Topic::Billed, billed(gpu));
        if gpu.unobserved_seconds == gpu.span_seconds {
            findings.problem(format!(
                "GPU {}: no utilization was read, so its time would be unobserved; see Calls, and `nvidia-smi`",
                name(gpu)
            ));
        }
    }
    for (price, count) in prices {
        findings.fact(Topic::Price, format!("{}: {price}", counted(count, "GPU")));
    }
    if let Some(reason) = &report.cost.unpriced_reason {
        findings.note(format!("price: {reason}; set --price"));
    }
    if let Some(hourly) = report.cost.hourly_usd {
        findings.fact(Topic::Billed, format!("{} per hour", money::amount(hourly.0, 2)));
    }
}

fn name(gpu: &Gpu) -> String {
    gpu.index.map_or_else(|| gpu.id.clone(), |index| index.to_string())
}

/// The rate of a GPU, and where it is from.
fn price(gpu: &Gpu) -> String {
    let Some((rate, tag)) = gpu.rate_usd_per_gpu_hour.zip(gpu.price.as_ref()) else {
        return "no price".to_owned();
    };
    let origin = &tag.origin;
    let estimate = tag.estimate.map(|estimate| format!("median of {} prices", estimate.rows));
    let rate = match tag.estimate {
        Some(_) => format!("estimated {}", money::amount(rate.hourly(), 2)),
        None => money::rate(rate),
    };
    let of_day = origin.as_of.as_ref().map(|day| format!("of {day}"));
    let parts = [
        Some(rate),
        Some(origin.source.clone()),
        origin.location(),
        origin.plan.map(str::to_owned),
        of_day,
        estimate,
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The phases of a GPU in the trial.
fn billed(gpu: &Gpu) -> String {
    let phases = [
        ("idle", gpu.phases.idle.percent),
        ("underutilized", gpu.phases.underutilized.percent),
        ("productive", gpu.phases.productive.percent),
        ("compute-bound", gpu.phases.compute_bound.percent),
    ];
    let phases = phases.into_iter().filter_map(|(name, percent)| {
        let percent = percent?.as_f64();
        (percent > 0.0).then(|| format!("{percent:.0}% {name}"))
    });
    let phases: Vec<_> = phases.collect();
    let phases = if phases.is_empty() { "unobserved".to_owned() } else { phases.join(", ") };
    let basis = gpu.utilization.basis.map(|basis| format!(", by {basis}")).unwrap_or_default();
    let model = gpu.model.as_deref().unwrap_or("unknown model");
    format!("GPU {}, {model}: {phases}{basis}", name(gpu))
}
