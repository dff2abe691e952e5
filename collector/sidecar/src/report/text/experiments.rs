//! Experiments that ended during the run, and what each cost.
//!
//! Must not depend on how their cost is found.

use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};

use crate::report::experiments::RunExperiment;
use crate::report::model::Report;
use crate::report::value::Usd;

use super::format::{self, Dollars};
use super::layout::Page;

/// Maximum number of experiments; the JSON report lists more.
const EXPERIMENTS: usize = 8;

pub(super) fn write(page: &mut Page, report: &Report) {
    let Some(experiments) = &report.experiments else { return };
    let shown = experiments.listed.iter().take(EXPERIMENTS);
    let mut facts: Vec<Vec<String>> = shown.map(experiment).collect();
    let hidden = experiments.listed.len().saturating_sub(EXPERIMENTS) as u64;
    match hidden.saturating_add(experiments.more.count) {
        0 => {}
        more => facts.push(vec![format!("{more} more in --format json")]),
    }
    let rest = experiments.unattributed_usd;
    facts.extend(rest.map(|Usd(rest)| vec![format!("unattributed: {}", Dollars::of(rest))]));
    page.facts("Experiments", facts);
}

/// `first: $0.12`, `1.5 GPU-hours`, `50% utilized`.
fn experiment(experiment: &RunExperiment) -> Vec<String> {
    let cost = experiment.cost_usd.map(|Usd(cost)| format!(": {}", Dollars::of(cost)));
    let first = format!("{}{}", experiment.id, cost.unwrap_or_default());
    let Nanos(time) = experiment.gpu_seconds.0;
    let time = format!("{} GPU-hours", format::hours(time as f64 / NANOS_PER_HOUR as f64));
    let utilized = experiment.utilization;
    let utilized = utilized.map(|it| format!("{} utilized", format::percent(it / 100.0)));
    [first, time].into_iter().chain(utilized).collect()
}
