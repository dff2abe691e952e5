//! What could not be recommended: waste without a recommendation, and missing information.

use std::ops::Add;

use phasemeter_meter::money::NanoUsd;
use phasemeter_rules::workload::WORKLOAD;
use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, Style};

use crate::model::{Gpu, Report};
use crate::policies::{Need, UncoveredWaste};

use super::amounts::Bill;
use super::format;
use super::gpus::{has_many, which};

/// Maximum number of missing pieces of information, also beside many GPUs.
const NEEDS: usize = 2;
const NEEDS_BESIDE_MANY: usize = 1;

/// Maximum lines of each, also beside many GPUs, and with all of them.
const LINES: usize = 3;
const LINES_BESIDE_MANY: usize = 2;
const LINES_IN_FULL: usize = 4;

/// `in_full`: all of it. `is_apart`: after a blank line.
pub(super) fn write(
    page: &mut Page,
    report: &Report,
    bill: Option<&Bill>,
    in_full: bool,
    is_apart: bool,
) {
    if report.needs.is_empty() && report.uncovered_waste.is_empty() {
        return;
    }
    if is_apart {
        page.end_line();
    }
    let mut label = "Uncovered";
    for wastes in report.uncovered_waste.chunk_by(is_alike) {
        page.passage(label, Style::Plain, &uncovered(&report.gpus, bill, wastes), LINES);
        label = "";
    }
    let (count, lines) = if in_full {
        (report.needs.len(), LINES_IN_FULL)
    } else if has_many(&report.gpus) {
        (NEEDS_BESIDE_MANY, LINES_BESIDE_MANY)
    } else {
        (NEEDS, LINES)
    };
    let mut label = "Missing";
    for it in report.needs.iter().take(count) {
        page.passage(label, Style::Plain, &need(&report.gpus, it), lines);
        label = "";
    }
    match report.needs.len().saturating_sub(count) {
        0 => {}
        more => page.sentences("", [format!("{more} more with --explain")]),
    }
}

fn need(gpus: &[Gpu], it: &Need) -> String {
    format!("{} ({}): {}", it.missing, which(gpus, &it.gpus), it.reason)
}

/// Whether both are waste of the same GPUs, for which the same is to be done.
fn is_alike(a: &UncoveredWaste, b: &UncoveredWaste) -> bool {
    let step = |it: &UncoveredWaste| (it.is_rest, it.usd.is_some());
    (&a.gpus, &a.risks, &a.missing, step(a)) == (&b.gpus, &b.risks, &b.missing, step(b))
}

/// `idle: $12.34 (14.0% of the bill), 6.2 GPU-hours of GPU 0–3 of 8; missing: a longer log (an hour or more)`, of
/// alike waste in one or several categories.
fn uncovered(gpus: &[Gpu], bill: Option<&Bill>, all: &[UncoveredWaste]) -> String {
    let Some(it) = all.first() else { return String::new() };
    let categories: Vec<&str> = all.iter().map(|it| it.category).collect();
    let share = number::percent(all.iter().map(|it| it.fraction).sum());
    let hours = format::gpu_time(all.iter().map(|it| it.gpu_hours).sum());
    let hours = format!("{hours} of {}", which(gpus, &it.gpus));
    let usd: Option<Vec<_>> = all.iter().map(|it| Some(it.usd?.0)).collect();
    let waste = match usd.map(|usd| usd.into_iter().fold(NanoUsd::ZERO, NanoUsd::add)) {
        Some(usd) => format!("{} ({share} of the bill), {hours}", Bill::printed(bill, usd)),
        None => format!("{hours} ({share} of the time without a price)"),
    };
    let rest = if it.is_rest { "the rest of " } else { "" };
    let risks = match it.risks.as_slice() {
        [] => None,
        [risk] => Some(format!("first see the risk {risk}")),
        risks => Some(format!("first see the risks {}", risks.join(", "))),
    };
    let missing: Vec<&str> = it.missing.iter().map(|name| explained(name)).collect();
    let missing = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    let steps: Vec<String> = risks.into_iter().chain(missing).collect();
    format!("{rest}{}: {waste}; {}", categories.join(" and "), steps.join("; "))
}

/// What is missing, and how to get it.
fn explained(missing: &str) -> &str {
    match missing {
        "duration" => "a longer log (an hour or more)",
        "interval" => "a reading per second (nvidia-smi -l 1)",
        "k8s.pod.name" => "the pod of each GPU (k8s.pod.name)",
        "memory.used" => "memory in use (memory.used)",
        "memory_in_use" => "memory in use inside of the constant block",
        WORKLOAD => "the kind of workload (phasemeter.workload)",
        "profile" => "a profile (nsys profile -d 30 COMMAND)",
        "queued_jobs" => "jobs that wait for a GPU (squeue, or pending pods)",
        "requests" => "requests per second and latency",
        "sessions" => "a second user for the GPU, or an end of the session",
        "sm.activity" => "SM activity (dcgmi dmon -e 1002)",
        "stack_dump" => "what the process does then (py-spy dump --pid PID)",
        "video.engines" => "the video engines (utilization.encoder, utilization.decoder)",
        other => other,
    }
}
