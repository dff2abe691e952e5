//! What is written about GPUs that others could use.

use phasemeter_diagnoses::{
    Allocation, FREE_MEMORY, Model, SIMILAR, confidence, names_holders, share,
};
use phasemeter_policy::format::{count, duration, gib, list, percent, subject, these};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, HOUR, Recommendation, RecommendationKind, Remediation, Saving,
    Target, Thresholds, Vendor, Window, Workload, evidence, mean, same_model,
};

use crate::find::{Action, Capacity, Finding, Free};

/// The recommendation for GPUs with the same action and similar loads.
pub(crate) fn recommendation(group: &[Finding<'_>], window: &Window) -> Option<Recommendation> {
    let bounds = window.thresholds();
    let first = &group[0];
    let gpus = || group.iter().map(|finding| finding.gpu);
    let mean = |value: &dyn Fn(&Gpu) -> f64| mean(gpus(), value);
    let peak = gpus().filter_map(Gpu::memory_peak).reduce(f64::max);
    let mut values = evidence([
        ("idle.share_of_time", mean(&|gpu| gpu.share(Accounts::idle)), "1"),
        ("quiet.time", mean(&|gpu| gpu.activity.quiet.seconds), "s"),
        ("lost.share_of_bill", phasemeter_policy::mean(group, |finding| finding.lost), "1"),
    ]);
    values.extend(peak.map(|peak| Evidence::new("memory.peak", peak, "By")));
    let kind = match first.why {
        Capacity::Alone if group.len() == 1 => RecommendationKind::Capacity,
        _ => first.kind,
    };
    let capacity = match (kind, first.why) {
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
    let words = match first.action {
        Action::Use { held, when, slurm } => free(group, held, when, slurm, window),
        Action::Divide { parts, lever } => {
            // That of the largest task.
            let fits = group.iter().filter_map(|finding| finding.fit);
            let fit = fits.reduce(|a, b| if b > a { b } else { a })?;
            values.push(fit.evidence());
            divided(group, parts, lever, &fit.reason(parts), bounds)
        }
    };
    let is_held = matches!(first.action, Action::Use { held: true, .. });
    let is_divided = matches!(first.action, Action::Divide { .. });
    Some(Recommendation {
        title: words.title,
        action: words.action,
        rationale: words.why + capacity,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(&|gpu| gpu.confidence())
            * if is_divided { confidence::EVEN } else { confidence::PROBABLE },
        evidence: values,
        kind,
        effort: if is_divided { Effort::Medium } else { Effort::Low },
        reversible: !is_held,
        // Only with a source that names them can owners be asked.
        remediation: words.remediation.filter(|_| names_holders(window)),
        ..Recommendation::new(words.code, first.target, words.lever, gpus())
    })
}

/// What differs between actions.
struct Words {
    code: &'static str,
    lever: &'static str,
    title: String,
    action: String,
    why: String,
    remediation: Option<Remediation>,
}

/// GPUs that others can use as a whole.
fn free(group: &[Finding<'_>], held: bool, when: Free, slurm: bool, window: &Window) -> Words {
    let observed = mean(group, |it| it.gpu.accounts.observed().seconds);
    let seconds = mean(group, |it| it.free_seconds);
    let time = [duration(seconds), duration(observed)].join(" of ");
    let lost = mean(group, |it| it.lost);
    let is_far = |finding: &Finding<'_>| (finding.lost - lost).abs() > SIMILAR;
    let on_average = if group.iter().any(is_far) { " on average" } else { "" };
    let always = when == Free::Always;
    let (title, how, lever, code) = match held {
        true => (
            "End what holds these GPUs: no work for ",
            "did nothing, held by a process,",
            "release_memory",
            if always { "sharing.unused" } else { "sharing.ends-held" },
        ),
        false => (
            "Place other jobs on these GPUs: free for ",
            "was free",
            "bin_pack",
            if always { "sharing.free" } else { "sharing.ends" },
        ),
    };
    let action = match released(group) {
        _ if slurm => {
            "Request fewer GPUs, or end the allocation with the work (scancel): the queue cannot use GPUs that it has \
             allocated."
                .to_owned()
        }
        Some(released) => released,
        None if held => {
            "End the process after its last work and start it with the next, or start it on as many GPUs as it uses; \
             remove replicas without requests. Let other jobs use the GPUs otherwise."
                .to_owned()
        }
        None => match small_work(group[0].gpu, window).as_slice() {
            [] if group.iter().any(|it| it.gpu.node() != group[0].gpu.node()) => {
                "Let the scheduler fill them with small jobs, or gather the free ones on one node as jobs end, for a larger job."
                    .to_owned()
            }
            [] => "Let the scheduler fill them, or move the other jobs and return the instance.".to_owned(),
            work => format!(
                "Move the small work of {} {} ({} busy, up to {}) to them, if its latency allows; or let the scheduler fill \
                 them.",
                work.len(),
                work[0].model,
                percent(mean(work, |gpu| gpu.accounts.observed().level())),
                gib(work.iter().filter_map(|gpu| gpu.memory_peak()).fold(0.0, f64::max)),
            ),
        },
    };
    let when = match when {
        Free::Always => "",
        Free::Before => ", before its first work",
        Free::After => ", after its last work",
        Free::Around => ", before its first work and after its last",
    };
    let beside = match group[0].why {
        Capacity::Unrecorded => "",
        _ => ", while other GPUs of the instance work",
    };
    Words {
        code,
        lever,
        title: [title, &time].concat(),
        action,
        why: format!("{} {how} for {time}{on_average}{when}{beside}.", subject(group.len())),
        remediation: None,
    }
}

/// GPUs of one larger model whose work a free one would carry at half of its load, or less.
fn small_work<'a>(free: &Gpu, window: &'a Window) -> Vec<&'a Gpu> {
    let fits = |own: &Model, gpu: &Gpu| {
        let other = Model::of(&gpu.model).filter(|other| other.replaces(own))?;
        let faster =
            f64::max(other.bandwidth_gb_s? / own.bandwidth_gb_s?, other.tflops()? / own.tflops()?);
        let total = free.memory_total_bytes? as f64;
        let level = gpu.accounts.observed().level();
        let is_small = level > 0.0 && level * faster <= share::MOST;
        (is_small && gpu.memory_peak()? <= (1.0 - FREE_MEMORY) * total).then_some(())
    };
    let Some(own) = Model::of(&free.model) else { return Vec::new() };
    let others = window.gpus.iter().filter(|gpu| !same_model(&gpu.model, &free.model));
    let small: Vec<_> = others.filter(|gpu| fits(own, gpu).is_some()).collect();
    let first = small.first().map(|gpu| &gpu.model);
    small.iter().copied().filter(|gpu| Some(&gpu.model) == first).collect()
}

/// GPUs of which others can use a part.
fn divided(
    group: &[Finding<'_>],
    parts: usize,
    lever: &'static str,
    fits: &str,
    bounds: Thresholds,
) -> Words {
    let gpus = || group.iter().map(|finding| finding.gpu);
    let (how, kind, parameter) = match lever {
        "mig" => ("MIG instances", "nvidia.mig", "instances"),
        "mps" => ("MPS clients", "nvidia.mps", "clients"),
        _ => ("time slices", "nvidia.time-slicing", "replicas"),
    };
    let longest = mean(gpus(), |gpu| gpu.activity.longest_seconds);
    let idle = percent(mean(gpus(), |gpu| gpu.share(Accounts::idle)));
    let level = percent(mean(gpus(), |gpu| gpu.accounts.observed().level()));
    let is_small = group[0].target == Target::Underload;
    let load = if is_small {
        format!("runs a steady {level} all the time")
    } else if mean(gpus(), Gpu::quiet_share)
        < share::NEARLY_ALL * mean(gpus(), |gpu| gpu.share(Accounts::idle))
    {
        format!("was below {} for {idle} of the time", percent(bounds.idle))
    } else {
        let short = if longest < HOUR { ", too short to switch it off" } else { "" };
        format!("was idle {idle} of the time, for at most {} at once{short}", duration(longest))
    };
    let (code, busy) = match is_small {
        true => ("sharing.small", [&*level, " busy all the time"].concat()),
        false => ("sharing.divide", ["idle ", &*idle, " of the time"].concat()),
    };
    let peak = gpus().filter_map(Gpu::memory_peak).reduce(f64::max);
    let memory =
        peak.map_or_else(String::new, |peak| [" It uses up to ", &gib(peak), "."].concat());
    let set = || Remediation::new(kind, [(parameter, parts.to_string())]);
    Words {
        code,
        lever,
        title: format!("Share {}: {busy}", these(group.len())),
        action: format!(
            "{}ivide {} into {how} for {} of this size, if their owners agree. Work that comes in bursts then takes \
             longer.",
            match gpus().all(|gpu| gpu.workload == Workload::Interactive) {
                true => "Unload what it holds when nobody uses it, or d",
                false => "D",
            },
            if group.len() == 1 { "it" } else { "each" },
            count(parts, "task")
        ),
        why: format!("{} {load}.{memory} {fits}", subject(group.len())),
        remediation: (Vendor::of(gpus()) == Vendor::Nvidia)
            .then(|| set().unless("owners do not agree, or a task grows beyond its part")),
    }
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
    let names: Vec<&str> = known.iter().map(|of| of.name.as_str()).collect();
    Some(format!(
        "For {}: save what the process holds, then {}. Request {} again with the first work.",
        list(&names),
        first.release(),
        these(group.len()),
    ))
}
