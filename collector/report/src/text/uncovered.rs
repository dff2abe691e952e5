//! Waste that no recommendation is about: how much, whose, and what decides it.

use std::ops::Add;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::vendor::Vendor;
use phasemeter_rules::workload::WORKLOAD;
use phasemeter_terminal::number;
use phasemeter_terminal::page::{Page, Style};

use crate::model::Gpu;
use crate::policies::UncoveredWaste;

use super::amounts::Bill;
use super::format;
use super::gpus::which;
use super::owners::owners;

/// Its label.
pub(super) const LABEL: &str = "Uncovered";

/// Maximum lines, and of what follows from what is missing.
const LINES: usize = 3;
const LINES_OF_OUTCOMES: usize = 3;

pub(super) fn write(page: &mut Page, gpus: &[Gpu], bill: Option<&Bill>, all: &[&UncoveredWaste]) {
    page.passage(LABEL, Style::Plain, &uncovered(gpus, bill, all), LINES);
    if let Some(outcomes) = all.first().and_then(|it| it.outcomes.first()) {
        page.passage("", Style::Plain, outcomes, LINES_OF_OUTCOMES);
    }
}

/// `idleness: $12.34 (14.0% of the bill), 6.2 GPU-hours of GPU 0–3 of 8; missing: a longer log (an hour or more)`, of
/// alike waste in one or several categories.
pub(super) fn uncovered(gpus: &[Gpu], bill: Option<&Bill>, all: &[&UncoveredWaste]) -> String {
    let Some(it) = all.first() else { return String::new() };
    let categories: Vec<&str> = all.iter().map(|it| format::waste_name(it.category)).collect();
    let share = number::percent(all.iter().map(|it| it.fraction).sum());
    let hours = format::gpu_time(all.iter().map(|it| it.gpu_hours).sum());
    let hours = format!("{hours} of {}{}", which(gpus, &it.gpus), owners(gpus, &it.gpus));
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
    let mut own = gpus.iter().filter(|gpu| it.gpus.contains(&gpu.id));
    let is_nvidia =
        own.all(|gpu| Vendor::of_model(gpu.model.as_deref().unwrap_or_default()) == Vendor::Nvidia);
    let missing: Vec<&str> = it.missing.iter().map(|name| explained(name, is_nvidia)).collect();
    let missing = (!missing.is_empty()).then(|| format!("missing: {}", missing.join(", ")));
    let steps: Vec<String> = risks.into_iter().chain(missing).collect();
    format!("{rest}{}: {waste}; {}", categories.join(" and "), steps.join("; "))
}

/// What is missing, and how to get it: by tools of NVIDIA only on its GPUs.
fn explained(missing: &str, is_nvidia: bool) -> &str {
    match missing {
        "duration" => "a longer log (an hour or more)",
        "interval" if is_nvidia => "a reading per second (nvidia-smi -l 1)",
        "interval" => "a reading per second",
        "k8s.pod.name" => "the pod of each GPU (k8s.pod.name)",
        "memory.used" => "memory in use (memory.used)",
        "memory_in_use" => "memory in use inside of the constant block",
        WORKLOAD => "the kind of workload (phasemeter.workload)",
        "profile" if is_nvidia => "a profile (nsys profile -d 30 COMMAND)",
        "queued_jobs" => "jobs that wait for a GPU (squeue, or pending pods)",
        "requests" => "requests per second and latency",
        "sessions" => "a second user for the GPU, or an end of the session",
        "profile" => "a profile",
        "sm.activity" if is_nvidia => "SM activity (dcgmi dmon -e 1002)",
        "sm.activity" => "activity of the compute units",
        "stack_dump" => "what the process does then (py-spy dump --pid PID)",
        "video.engines" => "the video engines (utilization.encoder, utilization.decoder)",
        other => other,
    }
}
