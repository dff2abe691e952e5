//! Experiments that ended during the run, and what each cost.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos};
use phasemeter_terminal::number;
use phasemeter_terminal::page::Page;

use crate::experiments::RunExperiment;
use crate::model::Report;
use crate::value::Usd;

use super::amounts::Bill;
use super::format::{self, Dollars};

/// Maximum number of experiments; the JSON report lists more.
const EXPERIMENTS: usize = 8;

pub(super) fn write(page: &mut Page, report: &Report, bill: Option<&Bill>) {
    let Some(experiments) = &report.experiments else { return };
    let count = experiments.listed.len().min(EXPERIMENTS);
    let (shown, hidden) = experiments.listed.split_at(count);
    let usd = |usd: Option<Usd>| usd.map_or(NanoUsd::ZERO, |Usd(usd)| usd);
    let others = hidden.iter().map(|it| usd(it.cost_usd)).sum::<NanoUsd>();
    let others = others + usd(experiments.more.cost_usd);
    let unattributed = experiments.unattributed_usd;
    // Only if every GPU has a price do they sum to the bill.
    let costs = bill.filter(|_| unattributed.is_some()).map(|bill| {
        let costs = shown.iter().map(|it| usd(it.cost_usd));
        bill.total.split_all(costs.chain([others, usd(unattributed)]).collect())
    });
    let cost = |index: usize| costs.as_ref().and_then(|costs| costs.get(index));
    let mut facts: Vec<Vec<String>> =
        shown.iter().enumerate().map(|(index, it)| experiment(it, cost(index))).collect();
    let more = (hidden.len() as u64).saturating_add(experiments.more.count);
    if more > 0 {
        let cost = cost(count).map(|cost| format!("{cost} in all"));
        let first = format!("{more} more in --format json");
        facts.push(std::iter::once(first).chain(cost).collect());
    }
    facts.extend(cost(count + 1).map(|rest| vec![format!("unattributed: {rest}")]));
    page.facts("Experiments", facts);
}

/// `first: $0.12`, `1.5 GPU-hours`, `50% utilized`.
fn experiment(experiment: &RunExperiment, cost: Option<&Dollars>) -> Vec<String> {
    let cost = cost.map(|cost| format!(": {cost}"));
    let first = format!("{}{}", experiment.id, cost.unwrap_or_default());
    let Nanos(time) = experiment.gpu_seconds.0;
    let time = format!("{} GPU-hours", format::hours(time as f64 / NANOS_PER_HOUR as f64));
    let utilized = experiment.utilization;
    let utilized = utilized.map(|it| format!("{} utilized", number::percent(it / 100.0)));
    [first, time].into_iter().chain(utilized).collect()
}
