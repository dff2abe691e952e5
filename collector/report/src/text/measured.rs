//! Facts about measurement: what was measured, what is missing, and what was assumed.

use std::collections::BTreeMap;

use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::Nanos;
use phasemeter_terminal::page::{Page, SEPARATOR};
use phasemeter_terminal::{duration, number};

use crate::model::{Gpu, Report, UnobservedReason};

use super::format;
use super::gpus::name_of;

/// Maximum number of rejected rows; the JSON report lists more.
const REJECTED_ROWS: usize = 3;

pub(super) fn write(page: &mut Page, report: &Report) {
    page.fact("Utilization", &utilization(&report.gpus), SEPARATOR);
    page.fact("Unobserved", &unobserved(report), SEPARATOR);
    page.fact("Memory", &memory(&report.gpus), SEPARATOR);
    page.fact("Energy", &energy(&report.gpus), SEPARATOR);
    page.facts("Rejected", rejected(report));
    page.sentences("Sampling", &report.sampling);
    page.sentences("Delivery", &report.delivery);
    page.sentences("Notes", &report.assumptions);
    let experiment = &report.experiment;
    // The default ID of an experiment is its trace ID.
    let id = Some(&experiment.id).filter(|id| Some(*id) != experiment.trace_id.as_ref()).cloned();
    let trace = match &experiment.trace_id {
        Some(trace_id) => format!("trace {trace_id}"),
        None => "one trace per session".to_owned(),
    };
    page.fact("Experiment", &id.into_iter().chain([trace]).collect::<Vec<_>>(), SEPARATOR);
}

/// A longer update period is stated to hide shorter bursts.
const FAST_UPDATES: Nanos = Nanos::SECOND;

/// The basis of utilization, and how often it changes.
fn utilization(gpus: &[Gpu]) -> Vec<String> {
    let mut bases: Vec<&str> = gpus.iter().filter_map(|gpu| gpu.utilization.basis).collect();
    bases.dedup();
    if bases.is_empty() {
        return vec!["not measured".to_owned()];
    }
    let periods = || gpus.iter().filter_map(|gpu| gpu.utilization.update_period_seconds);
    let period = periods().min().zip(periods().max()).map(|(low, high)| {
        let (low, high) = (duration::seconds_alone(low.0), duration::seconds(high.0));
        if high.starts_with(&format!("{low} ")) {
            format!("changes every {high}")
        } else {
            format!("changes every {low}–{high}")
        }
    });
    let period = period.unwrap_or_else(|| "update period unknown: too few changes".to_owned());
    let polled = if bases == [Basis::NvmlGpu.name()] { ", polled" } else { "" };
    let mut facts = vec![format!("{}{polled}", bases.join(", ")), period];
    if periods().max().is_some_and(|high| high.0 >= FAST_UPDATES) {
        facts.push("shorter bursts are not seen".to_owned());
    }
    facts
}

fn unobserved(report: &Report) -> Vec<String> {
    let reasons = &report.fleet.unobserved_reasons;
    reasons
        .iter()
        .map(|it| format!("{}: {}", reason(it.reason), duration::duration(it.seconds.0)))
        .collect()
}

const fn reason(reason: UnobservedReason) -> &'static str {
    match reason {
        UnobservedReason::NoReading => "no reading",
        UnobservedReason::NoUtilizationColumn => "no utilization column",
        UnobservedReason::NotSupported => "utilization not supported",
        UnobservedReason::GpuLost => "GPU lost",
        UnobservedReason::Unreadable => "unreadable value",
        UnobservedReason::GpuVanished => "GPU no longer listed",
    }
}

/// Peak memory of the GPU with the highest.
fn memory(gpus: &[Gpu]) -> Vec<String> {
    let peaks = gpus.iter().enumerate();
    let peaks = peaks.filter_map(|(index, gpu)| Some((gpu.memory.used_peak_bytes?, index, gpu)));
    let Some((peak, index, gpu)) = peaks.max_by_key(|(peak, index, _)| (*peak, gpus.len() - index))
    else {
        return Vec::new();
    };
    let total =
        gpu.memory.total_bytes.map(|total| format!(" of {}", number::tenths_of(total, 1 << 30)));
    let which =
        if gpus.len() > 1 { format!(", on {}", name_of(gpus, index)) } else { String::new() };
    vec![format!(
        "peak {}{} GiB{which}",
        number::tenths_of(peak, 1 << 30),
        total.unwrap_or_default()
    )]
}

fn energy(gpus: &[Gpu]) -> Vec<String> {
    let known: Vec<f64> = gpus.iter().filter_map(|gpu| gpu.energy_joules).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let mut bases = BTreeMap::new();
    for part in gpus.iter().flat_map(|gpu| &gpu.energy_by_basis) {
        *bases.entry(part.basis).or_insert(Nanos::ZERO) += part.seconds.0;
    }
    let alone = bases.len() == 1;
    let bases = bases.into_iter().map(|(basis, time)| match alone {
        true => basis.to_owned(),
        false => format!("{basis} for {}", duration::duration(time)),
    });
    let missing = known.len() < gpus.len();
    let of = missing.then(|| format!("measured on {} of {} GPUs", known.len(), gpus.len()));
    let energy = format::energy(known.iter().sum());
    std::iter::once(energy).chain(bases).chain(of).collect()
}

fn rejected(report: &Report) -> Vec<Vec<String>> {
    let total = report.rejected_total;
    if total == 0 {
        return Vec::new();
    }
    let rows = report.rejected_rows.iter().take(REJECTED_ROWS);
    let mut facts: Vec<Vec<String>> =
        rows.map(|row| vec![format!("{}:{}  {}", row.file, row.line, row.reason)]).collect();
    let count = number::counted(total, "row");
    let count = if total > facts.len() as u64 { format!("{count}, the first:") } else { count };
    facts.insert(0, vec![count]);
    facts
}
