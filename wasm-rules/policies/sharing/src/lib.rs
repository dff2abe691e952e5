//! Recommends releasing or sharing idle GPUs.
//!
//! Long idle periods can be switched off. Short ones between bursts cannot, so the job moves to
//! another GPU with free capacity, or the GPU is divided with MIG, or with MPS if it does not support
//! MIG. Sharing depends on memory: it is not recommended unless memory was recorded.

use phasemeter_policy::column::periods_below;
use phasemeter_policy::format::{count, duration, gib, percent, subject};
use phasemeter_policy::log;
use phasemeter_policy::{
    Accounts, Gpu, Policy, Recommendation, Recommender, Saving, Target, Window, groups, same_model,
};
use phasemeter_specs::Model;

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to idle time.
    min_lost: number = 0.1 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
    /// Idle time after which a GPU is released, in seconds.
    release_after_seconds: number = 600.0 in 10.0..=86400.0;
}

/// Utilization below which a second is idle, as in the phases.
const IDLE: f64 = 0.1;

/// Memory use up to which no job holds the GPU.
const FREE_MEMORY: f64 = 0.01;

/// Share of a divided GPU's free capacity that other jobs use: low, expected, high. An assumption,
/// not a measurement.
const REUSED: [f64; 3] = [0.25, 0.5, 0.9];

/// Share of the idle time that packing removes: low, expected, high. Less if both jobs need the GPU at
/// once. An assumption.
const PACKED: [f64; 3] = [0.5, 0.8, 1.0];

/// Maximum utilization and memory use of a shared GPU.
const MAX_UTILIZATION: f64 = 0.8;
const MAX_MEMORY: f64 = 0.95;

/// Idle period from which a schedule applies: nights, weekends.
const OFF_HOURS_SECONDS: f64 = 4.0 * 3_600.0;

/// MIG instances of GPUs with seven and with four slices: shares of compute and of memory (NVIDIA's
/// MIG User Guide).
const SEVENTHS: [(f64, f64); 4] = [
    (1.0 / 7.0, 1.0 / 8.0),
    (2.0 / 7.0, 2.0 / 8.0),
    (3.0 / 7.0, 4.0 / 8.0),
    (4.0 / 7.0, 4.0 / 8.0),
];
const QUARTERS: [(f64, f64); 2] = [(0.25, 0.25), (0.5, 0.5)];

struct Sharing;

impl Policy for Sharing {
    const NAME: &'static str = "sharing";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Finds idle GPUs, and recommends sharing or releasing them.";
    type Settings = Settings;
}

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    action: Action<'a>,
    saving: Saving,
}

#[derive(Clone, Copy, PartialEq)]
enum Action<'a> {
    /// Release it while idle; `longest` is the longest idle period in seconds.
    Release { longest: f64, held: bool },
    /// Move its job to another GPU.
    Pack { host: &'a str, level: f64, memory: f64 },
    /// Divide it into parts, with MIG or with MPS.
    Divide { parts: usize, mig: bool },
}

impl Recommender for Sharing {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let mut findings = Vec::new();
        let mut hosts = Vec::new();
        let idle = |gpu: &&Gpu| gpu.lost_idle() >= settings.min_lost && !gpu.is_bouncing();
        let observed = window.observed_gpus(settings.min_seconds);
        for gpu in observed.iter().copied().filter(idle) {
            if let Some(finding) = release(gpu, window.step_seconds, settings) {
                findings.push(finding);
                continue;
            }
            let Some(memory) = gpu.memory_peak() else {
                log::info(
                    &[
                        "memory of ",
                        &gpu.name(),
                        " was not recorded, so whether its job fits elsewhere is unknown; idle \
                         periods are too short to switch it off",
                    ]
                    .concat(),
                );
                continue;
            };
            if gpu.memory_share().is_some_and(|share| share <= FREE_MEMORY) {
                continue;
            }
            if let Some(finding) = pack(gpu, memory, &observed, settings, &mut hosts) {
                findings.push(finding);
            }
            findings.extend(divide(gpu, memory));
        }
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            let same = match (a.action, b.action) {
                (Action::Release { held, .. }, Action::Release { held: other, .. }) => {
                    held == other
                }
                (a, b) => a == b,
            };
            same && (a.gpu.lost_idle() - b.gpu.lost_idle()).abs() <= 0.1
        };
        groups(findings, similar).iter().filter_map(|group| recommend(group, settings)).collect()
    }
}

/// Releases the GPU if that ends at least half of its idle time.
fn release<'a>(gpu: &'a Gpu, step: f64, settings: &Settings) -> Option<Finding<'a>> {
    let after = settings.release_after_seconds;
    let periods = || periods_below(&gpu.utilization, step, IDLE);
    let total: f64 = periods().sum();
    // The first and the last point reach beyond the run, which the accounts do not.
    let counted = f64::min(gpu.accounts.idle().seconds / total, 1.0);
    let (mut longest, mut released) = (0.0, [0.0; 3]);
    for period in periods().map(|period| period * counted) {
        longest = f64::max(longest, period);
        // Released three times as late, as set, and after a third of that.
        for (released, after) in released.iter_mut().zip([3.0 * after, after, after / 3.0]) {
            *released += f64::max(period - after, 0.0);
        }
    }
    let idle = total * counted;
    let parts = released.map(|seconds| if idle > 0.0 { seconds / idle } else { 0.0 });
    let held = gpu.accounts.idle_held.seconds > gpu.accounts.idle_free.seconds;
    (parts[1] >= 0.5).then(|| Finding {
        gpu,
        action: Action::Release { longest, held },
        saving: Saving::part(gpu.lost_idle(), parts),
    })
}

/// Finds another GPU with capacity for this one's job. Each hosts one more job.
fn pack<'a>(
    gpu: &'a Gpu,
    memory: f64,
    observed: &[&'a Gpu],
    settings: &Settings,
    hosts: &mut Vec<&'a str>,
) -> Option<Finding<'a>> {
    let level = gpu.accounts.observed().level();
    let candidates = observed.iter().copied().filter_map(|host| {
        let (used, total) = (host.memory_peak()? + memory, host.memory_total_bytes? as f64);
        let busy = host.accounts.observed().level() + level;
        let fits = host.id != gpu.id
            && same_model(&host.model, &gpu.model)
            && host.lost_idle() < settings.min_lost
            && used <= MAX_MEMORY * total
            && busy <= MAX_UTILIZATION
            && !hosts.contains(&host.id.as_str());
        fits.then_some(Action::Pack { host: &host.id, level: busy, memory: used })
    });
    let used = |action: &Action<'_>| {
        if let Action::Pack { memory, .. } = action { *memory } else { 0.0 }
    };
    let action = candidates.min_by(|a, b| used(a).total_cmp(&used(b)))?;
    if let Action::Pack { host, .. } = action {
        hosts.push(host);
    }
    Some(Finding { gpu, action, saving: Saving::part(gpu.lost_idle(), PACKED) })
}

/// Finds the smallest part of the GPU that fits its job.
fn divide(gpu: &Gpu, memory: f64) -> Option<Finding<'_>> {
    let share = memory / gpu.memory_total_bytes.filter(|total| *total > 0)? as f64;
    let level = gpu.accounts.observed().level();
    let slices = Model::of(&gpu.model).map_or(0, |model| model.mig_slices);
    let instances = match slices {
        7 => &SEVENTHS[..],
        4 => &QUARTERS,
        _ => &[],
    };
    let fits = |instance: &&(f64, f64)| {
        share <= MAX_MEMORY * instance.1 && level <= MAX_UTILIZATION * instance.0
    };
    let kept = match instances.iter().find(fits) {
        Some((compute, memory)) => compute.max(*memory),
        None if slices == 0 => share.max(level / MAX_UTILIZATION),
        None => return None,
    };
    let parts = if kept > 0.0 { (1.0 / kept) as usize } else { return None };
    let others = f64::min(gpu.lost_idle(), 1.0 - kept);
    (parts >= 2).then(|| Finding {
        gpu,
        action: Action::Divide { parts: parts.min(7), mig: slices > 0 },
        saving: Saving::part(others, REUSED),
    })
}

/// Recommends an action for GPUs with similar idle time.
fn recommend(group: &[Finding<'_>], settings: &Settings) -> Option<Recommendation> {
    let first = group.first()?;
    let mean = |value: fn(&Gpu) -> f64| {
        group.iter().map(|finding| value(finding.gpu)).sum::<f64>() / group.len() as f64
    };
    let (idle, lost) = (mean(|gpu| gpu.share(Accounts::idle)), mean(Gpu::lost_idle));
    let held = mean(|gpu| gpu.share(|a| a.idle_held));
    let mut evidence = vec![
        ("idle.share_of_time".to_owned(), idle),
        ("idle_held.share_of_time".to_owned(), held),
        ("idle.share_of_bill".to_owned(), lost),
    ];
    let mut rationale = format!(
        "{} was idle {} of the time. This wastes {} of the bill. ",
        subject(group.len()),
        percent(idle),
        percent(lost)
    );
    let peaks = group.iter().filter_map(|finding| finding.gpu.memory_peak());
    if let Some(peak) = peaks.reduce(f64::max) {
        evidence.push(("memory.peak_bytes".to_owned(), peak));
        rationale += &["Peak memory is ", &gib(peak), ". "].concat();
    }
    let (code, lever, title, action, detail, confidence) = match first.action {
        Action::Release { longest, held } => {
            let after = duration(settings.release_after_seconds);
            evidence.push(("idle.longest_seconds".to_owned(), longest));
            let detail = format!(
                "The longest idle period was {}. The saving is the idle time beyond the first \
                 {after} of each period.",
                duration(longest),
            );
            if longest >= OFF_HOURS_SECONDS {
                let action = "Switch its node off on a schedule outside the hours of use.";
                (
                    "sharing.schedule",
                    "schedule",
                    "Switch this GPU off outside working hours",
                    action.to_owned(),
                    detail,
                    0.8,
                )
            } else if held {
                let action = format!(
                    "End sessions after {after} of idle time to release their memory, then release \
                     the node.",
                );
                (
                    "sharing.end-idle-sessions",
                    "release_memory",
                    "End idle sessions and release their memory",
                    action,
                    detail,
                    0.7,
                )
            } else {
                let action = format!("Scale its node group down after {after} without work.");
                (
                    "sharing.scale-down",
                    "autoscale",
                    "Release this GPU while nothing runs",
                    action,
                    detail,
                    0.8,
                )
            }
        }
        Action::Pack { host, level, memory } => {
            evidence.push(("combined.utilization".to_owned(), level));
            evidence.push(("combined.memory_bytes".to_owned(), memory));
            let action = format!(
                "Move its job to {host}, if the scheduler can place both there, and release this GPU.",
            );
            let detail = format!(
                "Idle periods are too short to switch it off. Both jobs together would run {host} at \
                 {}, with {} of memory in use.",
                percent(level),
                gib(memory),
            );
            ("sharing.pack", "bin_pack", "Move this job to another GPU", action, detail, 0.6)
        }
        Action::Divide { parts, mig } => {
            evidence.push(("parts".to_owned(), parts as f64));
            let (lever, how) = if mig { ("mig", "MIG instances") } else { ("mps", "MPS clients") };
            let jobs = count(parts, "job");
            let action = format!(
                "Divide it into {how} for {jobs} of this size. Bursts then take longer, which matters \
                 for interactive work.",
            );
            let detail = format!(
                "Idle periods are too short to switch it off. Its job fits into one of {parts} parts. \
                 The saving is the capacity that other jobs use.",
            );
            ("sharing.divide", lever, "Share this GPU between several jobs", action, detail, 0.5)
        }
    };
    Some(Recommendation {
        code: code.to_owned(),
        target: Target::Idle,
        lever: lever.to_owned(),
        title: title.to_owned(),
        action,
        rationale: rationale + &detail,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: confidence * mean(Gpu::confidence),
        evidence,
        gpus: group.iter().map(|finding| finding.gpu.id.clone()).collect(),
    })
}

phasemeter_policy::recommender!(Sharing);

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Sharing::recommend(&Settings::default(), &window(gpus))
    }

    /// A notebook: a burst of six seconds every five minutes.
    fn notebook() -> Gpu {
        gpu(PatternKind::Idle, 7_200, |second| if second % 300 < 6 { 0.6 } else { 0.0 })
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    #[test]
    fn long_idle_periods_are_released() {
        let mut free = steady(7_200, 0.0);
        assert_eq!(levers(&recommendations(vec![free.clone()])), ["release_memory"]);
        std::mem::swap(&mut free.accounts.idle_free, &mut free.accounts.idle_held);
        let found = recommendations(vec![free.clone(), free]);
        assert_eq!((levers(&found), found[0].gpus.len()), (vec!["autoscale"], 2));
        // Two hours, released after ten minutes.
        assert!((found[0].saving.expected - 11.0 / 12.0).abs() < 0.01);
        assert_eq!(levers(&recommendations(vec![steady(20_000, 0.0)])), ["schedule"]);
    }

    #[test]
    fn idle_period_is_no_longer_than_the_run() {
        // 24 min 59 s in points of 4 s, which begin before the run.
        let mut free = steady(1_499, 0.0);
        free.utilization.push(0.0);
        let found = recommendations(vec![free]);
        let longest = found[0].evidence.iter().find(|(name, _)| name == "idle.longest_seconds");
        assert!((longest.unwrap().1 - 1_499.0).abs() < 1e-6);
        assert!(found[0].rationale.contains("24 min 59 s"), "{}", found[0].rationale);
    }

    #[test]
    fn short_idle_periods_are_packed_or_divided() {
        let host = with_memory(steady(7_200, 0.5), 33.0);
        let found = recommendations(vec![with_memory(notebook(), 30.0), host.clone()]);
        assert_eq!(levers(&found), ["bin_pack", "mig"]);
        assert!(found[0].action.contains("GPU-1"), "{}", found[0].action);
        // 30 of 80 GB need half of the memory, so half of the GPU is free for other jobs.
        assert!((found[1].saving.high - 0.45).abs() < 1e-9);
        assert!(
            recommendations(vec![with_memory(notebook(), 0.5), host.clone()]).is_empty(),
            "there is no job to move"
        );
        let full = with_memory(host, 60.0);
        assert_eq!(levers(&recommendations(vec![with_memory(notebook(), 30.0), full])), ["mig"]);
    }

    #[test]
    fn sharing_requires_recorded_memory() {
        assert!(recommendations(vec![notebook(), steady(7_200, 0.5)]).is_empty());
    }

    #[test]
    fn other_loads_are_skipped() {
        let gpus = vec![
            steady(3_600, 0.5),
            steady(3_600, 0.97),
            bouncing(3_600, 40, 0.5),
            steady(50, 0.0),
        ];
        assert!(recommendations(gpus).is_empty());
        assert!(recommendations(vec![gpu(PatternKind::Idle, 3_600, |_| f64::NAN)]).is_empty());
    }
}
