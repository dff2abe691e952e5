//! The facts about what was measured, what was not, and what was assumed.
//!
//! This room must not know of money.

use phasemeter_meter::reading::Basis;

use crate::report::{Gpu, Report};

use super::gpus::name_of;
use super::layout::{Page, SEPARATOR};
use super::words;

/// Refused rows on the page; the JSON report has more of them.
const REJECTED_ROWS: usize = 3;

pub(super) fn write(page: &mut Page, report: &Report) {
    page.fact("Utilization", &utilization(&report.gpus), SEPARATOR);
    page.fact("Unobserved", &unobserved(report), SEPARATOR);
    page.fact("Memory", &memory(&report.gpus), SEPARATOR);
    page.fact("Energy", &energy(&report.gpus), SEPARATOR);
    page.facts("Rejected", rejected(report));
    page.facts("Assumed", report.assumptions.iter().map(|assumption| vec![assumption.clone()]));
    let experiment = &report.experiment;
    // An experiment that nobody named is called by its trace.
    let id = Some(&experiment.id).filter(|id| Some(*id) != experiment.trace_id.as_ref()).cloned();
    let trace = match &experiment.trace_id {
        Some(trace_id) => format!("trace {trace_id}"),
        None => "a trace a session".to_owned(),
    };
    page.fact("Experiment", &id.into_iter().chain([trace]).collect::<Vec<_>>(), SEPARATOR);
}

/// Whose notion of busy it is, and how often that changes.
fn utilization(gpus: &[Gpu]) -> Vec<String> {
    let mut bases: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.utilization.basis).collect();
    bases.dedup();
    if bases.is_empty() {
        return vec!["not measured".to_owned()];
    }
    let periods = || gpus.iter().filter_map(|gpu| gpu.utilization.update_period_seconds);
    let period = periods().min().zip(periods().max()).map(|(low, high)| {
        let (low, high) = (words::seconds_alone(low.0), words::seconds(high.0));
        if high.starts_with(&format!("{low} ")) {
            format!("changes every {high}")
        } else {
            format!("changes every {low}–{high}")
        }
    });
    let period = period.unwrap_or_else(|| "too few changes to tell how often".to_owned());
    let polled = if bases == [Basis::NvmlGpu.name()] { ", polled" } else { "" };
    vec![format!("{}{polled}", bases.join(", ")), period]
}

fn unobserved(report: &Report) -> Vec<String> {
    let reasons = &report.fleet.unobserved_reasons;
    reasons
        .iter()
        .map(|reason| format!("{}: {}", reason.reason, words::duration(reason.seconds.0)))
        .collect()
}

/// The GPU that needed most.
fn memory(gpus: &[Gpu]) -> Vec<String> {
    let peaks = gpus.iter().enumerate();
    let peaks = peaks.filter_map(|(place, gpu)| Some((gpu.memory.used_peak_bytes?, place, gpu)));
    let Some((peak, place, gpu)) = peaks.max_by_key(|(peak, place, _)| (*peak, gpus.len() - place))
    else {
        return Vec::new();
    };
    let total = gpu.memory.total_bytes.map(|total| format!(" of {}", words::gib(total)));
    let which =
        if gpus.len() > 1 { format!(", on {}", name_of(gpus, place)) } else { String::new() };
    vec![format!("at most {}{} GiB{which}", words::gib(peak), total.unwrap_or_default())]
}

fn energy(gpus: &[Gpu]) -> Vec<String> {
    let known: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.energy_joules).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mut bases: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.energy_basis).collect();
    bases.sort_unstable();
    bases.dedup();
    let missing = known.len() < gpus.len();
    let of = missing.then(|| format!("of {} of {} GPUs", known.len(), gpus.len()));
    let energy = words::energy(known.iter().sum());
    std::iter::once(energy).chain(bases.into_iter().map(str::to_owned)).chain(of).collect()
}

fn rejected(report: &Report) -> Vec<Vec<String>> {
    let total = report.rejected_total;
    if total == 0 {
        return Vec::new();
    }
    let rows = report.rejected_rows.iter().take(REJECTED_ROWS);
    let mut facts: Vec<Vec<String>> =
        rows.map(|row| vec![format!("{}:{}  {}", row.file, row.line, row.reason)]).collect();
    let noun = if total == 1 { "row" } else { "rows" };
    let count = format!("{} {noun}", words::grouped(u128::from(total)));
    let count = if total > facts.len() as u64 { format!("{count}, the first:") } else { count };
    facts.insert(0, vec![count]);
    facts
}
