//! What is written about GPUs that others could use.

use phasemeter_diagnoses::{Allocation, SIMILAR, confidence};
use phasemeter_policy::format::{count, duration, gib, percent, subject};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, HOUR, Recommendation, RecommendationKind, Remediation, Saving,
    Target, Thresholds, Vendor, Workload, evidence, mean,
};

use crate::find::{Action, Capacity, Finding, Free};

/// The most holders that are named.
const NAMED: usize = 3;

/// The recommendation for GPUs with the same action and similar loads.
pub(crate) fn recommendation(group: &[Finding<'_>], bounds: Thresholds) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().map(|finding| finding.gpu);
    let mean = |value: &dyn Fn(&Gpu) -> f64| mean(gpus(), value);
    let lost = phasemeter_policy::mean(group, |finding| finding.lost);
    let quiet = mean(&|gpu| gpu.activity.quiet.seconds);
    let observed = mean(&|gpu| gpu.accounts.observed().seconds);
    let is_far = |finding: &Finding<'_>| (finding.lost - lost).abs() > SIMILAR;
    let on_average = if group.iter().any(is_far) { " on average" } else { "" };
    let peak = gpus().filter_map(Gpu::memory_peak).reduce(f64::max);
    let mut values = evidence([
        ("idle.share_of_time", mean(&|gpu| gpu.share(Accounts::idle)), "1"),
        ("quiet.time", quiet, "s"),
        ("lost.share_of_bill", lost, "1"),
    ]);
    values.extend(peak.map(|peak| Evidence::new("memory.peak", peak, "By")));
    let saving = Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving)));
    let confidence = mean(&|gpu| gpu.confidence());
    let kind = match first.why {
        Capacity::Alone if group.len() == 1 => RecommendationKind::Capacity,
        _ => first.kind,
    };
    let part = match (kind, first.why) {
        (RecommendationKind::Capacity, Capacity::Busy) => {
            " This instance has busy GPUs too, so this frees capacity and saves no money by itself."
        }
        (RecommendationKind::Capacity, Capacity::Unrecorded) => {
            " Other GPUs of its instance were not recorded, so this frees capacity, and whether the instance \
             can be given back is unknown."
        }
        (RecommendationKind::Capacity, Capacity::Committed) => {
            " Its hours are paid for, used or not, so this frees capacity and saves no money."
        }
        (RecommendationKind::Capacity, Capacity::Alone) => {
            " No other task of this size was recorded, so this frees capacity and saves no money by itself."
        }
        _ => "",
    };
    Some(match first.action {
        Action::Use { held, when, slurm, workload } => {
            let seconds = group.iter().map(|finding| finding.free_seconds).sum::<f64>();
            let time = [duration(seconds / group.len() as f64), duration(observed)].join(" of ");
            let is_used = when != Free::Always;
            let (code, lever) = match (is_used, held) {
                (false, true) => ("sharing.unused", "release_memory"),
                (false, false) => ("sharing.free", "bin_pack"),
                (true, true) => ("sharing.ends-held", "release_memory"),
                (true, false) => ("sharing.ends", "bin_pack"),
            };
            let title = match held {
                true => "End what holds these GPUs: no work for ",
                false => "Place other jobs on these GPUs: free for ",
            };
            let action = match (is_used, held) {
                _ if slurm => {
                    "Request fewer GPUs, or end the allocation with the work (scancel): the queue cannot use GPUs \
                     that it has allocated."
                }
                (false, true) if workload == Workload::Serving => {
                    "Remove the replicas without requests, and let other work use their GPUs."
                }
                (false, true) => {
                    "End the process and let other jobs use the GPU, or start the job on as many GPUs as it uses."
                }
                (true, true) => {
                    "Start the process with the first work, end it after the last, and let other jobs use the GPUs \
                     otherwise."
                }
                (false, false) if first.why == Capacity::Busy => {
                    "Let the scheduler fill them, or move the other jobs and return the instance."
                }
                _ => "Let the scheduler fill them.",
            };
            let action = match released(group) {
                Some(released) if !slurm => released,
                _ => action.to_owned(),
            };
            let rationale = format!(
                "{} {} for {time}{on_average}{}{}.{part}",
                subject(group.len()),
                if held { "did nothing, held by a process," } else { "was free" },
                match when {
                    Free::Always => "",
                    Free::Before => ", before its first work",
                    Free::After => ", after its last work",
                    Free::Around => ", before its first work and after its last",
                },
                match first.why {
                    Capacity::Unrecorded => "",
                    _ => ", while other GPUs of the instance work",
                },
            );
            Recommendation {
                title: [title, &time].concat(),
                action,
                rationale,
                saving,
                confidence: confidence::PROBABLE * confidence,
                evidence: values,
                kind,
                reversible: !held,
                ..Recommendation::new(code, Target::Idle, lever, gpus())
            }
        }
        Action::Divide { parts, lever } => {
            let memory =
                peak.map_or_else(String::new, |peak| [" It uses up to ", &gib(peak), "."].concat());
            // That of the largest task.
            let fits = group.iter().filter_map(|finding| finding.fit);
            let fit = fits.reduce(|a, b| if b > a { b } else { a })?;
            values.push(fit.evidence());
            let each = if group.len() == 1 { "it" } else { "each" };
            let (how, remedy, parameter) = match lever {
                "mig" => ("MIG instances", "nvidia.mig", "instances"),
                "mps" => ("MPS clients", "nvidia.mps", "clients"),
                _ => ("time slices", "nvidia.time-slicing", "replicas"),
            };
            let is_nvidia = Vendor::of(gpus()) == Vendor::Nvidia;
            let longest = mean(&|gpu| gpu.activity.longest_seconds);
            let idle = percent(mean(&|gpu| gpu.share(Accounts::idle)));
            let is_small = first.target == Target::Underload;
            let level = percent(mean(&|gpu| gpu.accounts.observed().level()));
            let which = if group.len() == 1 { "this GPU" } else { "each GPU" };
            let title = match is_small {
                true => format!("Share {which}: {level} busy all the time"),
                false => format!("Share {which}: idle {idle} of the time"),
            };
            let (code, load) = if is_small {
                ("sharing.small", format!("runs a steady {level} all the time"))
            } else if longest < 1.0 {
                let bound = percent(bounds.idle);
                let load =
                    format!("was below {bound} for {idle} of the time, and never without work");
                ("sharing.divide", load)
            } else {
                let short = if longest < HOUR { ", too short to switch it off" } else { "" };
                let longest = duration(longest);
                let load =
                    format!("was idle {idle} of the time, for at most {longest} at once{short}");
                ("sharing.divide", load)
            };
            Recommendation {
                title,
                action: format!(
                    "Divide {each} into {how} for {} of this size, if their owners agree. Work that comes in \
                     bursts then takes longer.",
                    count(parts, "task")
                ),
                rationale: format!(
                    "{} {load}.{memory} {}{part}",
                    subject(group.len()),
                    fit.reason(parts),
                ),
                saving,
                confidence: confidence::EVEN * confidence,
                evidence: values,
                kind,
                effort: Effort::Medium,
                remediation: is_nvidia.then(|| {
                    Remediation::new(remedy, [(parameter, parts.to_string())])
                        .unless("owners do not agree, or a task grows beyond its part")
                }),
                ..Recommendation::new(code, first.target, lever, gpus())
            }
        }
    })
}

/// How those that hold these GPUs release them; `None` if they are unknown.
fn released(group: &[Finding<'_>]) -> Option<String> {
    let mut known: Vec<&Allocation> = Vec::new();
    for allocation in group.iter().filter_map(|finding| finding.allocation.as_ref()) {
        if !known.contains(&allocation) {
            known.push(allocation);
        }
    }
    let first = known.first()?;
    // One instruction must be right for all.
    if known.iter().any(|of| of.release() != first.release()) {
        return None;
    }
    let named: Vec<&str> = known.iter().take(NAMED).map(|of| of.name.as_str()).collect();
    let more = match known.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!(
        "For {}{more}: save what the process holds, then {}. Request {} again with the first work.",
        named.join(", "),
        first.release(),
        if group.len() == 1 { "this GPU" } else { "these GPUs" },
    ))
}
