//! Sharing: what to do with a GPU that idles.
//!
//! How it idles says what helps. Long stretches can be switched off; short ones between bursts
//! cannot, and then someone else has to use them: another GPU of the fleet that has room for the
//! job, a MIG instance of its size, or MPS where there is no MIG. Whether anything fits is told by
//! memory: where that was not recorded, nothing of the kind is advised.

use phasemeter_facts::Model;
use phasemeter_policy::column::stretches_below;
use phasemeter_policy::log;
use phasemeter_policy::words::{count, duration, each, gib, percent};
use phasemeter_policy::{
    Accounts, Gpu, Policy, Recommendation, Recommender, Saving, Target, Window, groups, same_model,
};

phasemeter_policy::settings! {
    /// GPUs that lost less than this share of their bill idling are left alone.
    least_lost: number = 0.1 in 0.0..=1.0;
    /// GPUs that were observed for less than this many seconds are not judged.
    least_seconds: number = 60.0 in 0.0..=86400.0;
    /// A GPU is given back after so many idle seconds.
    release_after_seconds: number = 600.0 in 10.0..=86400.0;
}

/// Below this a second is idle, as the phases have it.
const IDLE: f64 = 0.1;

/// With no more of its memory in use than this share, no job ever held it.
const HELD: f64 = 0.01;

/// What of the rest of a GPU others come to use, once it is divided: a quarter, half, nearly all.
/// An assumption; no measurement stands behind it, and the advice says how much is there to use.
const FILLED: [f64; 3] = [0.25, 0.5, 0.9];

/// What of the idle time is gone when a job moves in with another: some is lost where both want
/// the GPU at once. An assumption, too.
const PACKED: [f64; 3] = [0.5, 0.8, 1.0];

/// Two jobs on a GPU keep it this busy at most; serving is sized so. And they leave some memory.
const MOST_BUSY: f64 = 0.8;
const MOST_MEMORY: f64 = 0.95;

/// From this long a stretch on it is a matter of the clock: nights, weekends.
const OFF_HOURS_SECONDS: f64 = 4.0 * 3_600.0;

/// Instances of a GPU with seven slices, and of one with four: the part of its compute and of its
/// memory that each has (NVIDIA's MIG User Guide).
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
    const SUMMARY: &'static str =
        "Finds GPUs that idle, and says who else could use them or when they can go.";
    type Settings = Settings;
}

/// What one means does for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    means: Means<'a>,
    saving: Saving,
}

/// By what means.
#[derive(Clone, Copy, PartialEq)]
enum Means<'a> {
    /// Give it back when it idles; how long it does at a time, at most.
    Release { longest: f64, held: bool },
    /// Move its job to this GPU.
    Pack { host: &'a str, level: f64, memory: f64 },
    /// Divide it in so many, in hardware or in software.
    Divide { parts: usize, mig: bool },
}

impl Recommender for Sharing {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let mut findings = Vec::new();
        let mut hosts = Vec::new();
        let idle = |gpu: &&Gpu| gpu.lost_idle() >= settings.least_lost && !gpu.bounces();
        let seen = window.seen(settings.least_seconds);
        for gpu in seen.iter().copied().filter(idle) {
            if let Some(finding) = release(gpu, window.step_seconds, settings) {
                findings.push(finding);
                continue;
            }
            let Some(memory) = gpu.memory_peak() else {
                log::info(
                    &[
                        &gpu.id,
                        " idles in stretches too short to switch off, and its memory was not \
                         recorded: whether its job fits elsewhere cannot be told",
                    ]
                    .concat(),
                );
                continue;
            };
            if gpu.memory_share().is_some_and(|share| share <= HELD) {
                continue;
            }
            if let Some(finding) = pack(gpu, memory, &seen, settings, &mut hosts) {
                findings.push(finding);
            }
            findings.extend(divide(gpu, memory));
        }
        let alike = |a: &Finding<'_>, b: &Finding<'_>| {
            let same = match (a.means, b.means) {
                (Means::Release { held, .. }, Means::Release { held: other, .. }) => held == other,
                (a, b) => a == b,
            };
            same && (a.gpu.lost_idle() - b.gpu.lost_idle()).abs() <= 0.1
        };
        groups(findings, alike).iter().filter_map(|group| advise(group, settings)).collect()
    }
}

/// Giving it back, where that would end at least half of its idle time.
fn release<'a>(gpu: &'a Gpu, step: f64, settings: &Settings) -> Option<Finding<'a>> {
    let after = settings.release_after_seconds;
    let (mut all, mut longest, mut gone) = (0.0, 0.0, [0.0; 3]);
    for stretch in stretches_below(&gpu.utilization, step, IDLE) {
        all += stretch;
        longest = f64::max(longest, stretch);
        // Given back three times as late, as set, and a third of that.
        for (gone, after) in gone.iter_mut().zip([3.0 * after, after, after / 3.0]) {
            *gone += f64::max(stretch - after, 0.0);
        }
    }
    let parts = gone.map(|gone| if all > 0.0 { gone / all } else { 0.0 });
    let held = gpu.accounts.idle_held.seconds > gpu.accounts.idle_free.seconds;
    (parts[1] >= 0.5).then(|| Finding {
        gpu,
        means: Means::Release { longest, held },
        saving: Saving::part(gpu.lost_idle(), parts),
    })
}

/// Another GPU that has room for this one's job. Each takes one in.
fn pack<'a>(
    gpu: &'a Gpu,
    memory: f64,
    seen: &[&'a Gpu],
    settings: &Settings,
    hosts: &mut Vec<&'a str>,
) -> Option<Finding<'a>> {
    let level = gpu.accounts.observed().level();
    let roomy = seen.iter().copied().filter_map(|host| {
        let (used, total) = (host.memory_peak()? + memory, host.memory_total_bytes? as f64);
        let busy = host.accounts.observed().level() + level;
        let fits = host.id != gpu.id
            && same_model(&host.model, &gpu.model)
            && host.lost_idle() < settings.least_lost
            && used <= MOST_MEMORY * total
            && busy <= MOST_BUSY
            && !hosts.contains(&host.id.as_str());
        fits.then_some(Means::Pack { host: &host.id, level: busy, memory: used })
    });
    let room =
        |means: &Means<'_>| if let Means::Pack { memory, .. } = means { *memory } else { 0.0 };
    let means = roomy.min_by(|a, b| room(a).total_cmp(&room(b)))?;
    if let Means::Pack { host, .. } = means {
        hosts.push(host);
    }
    Some(Finding { gpu, means, saving: Saving::part(gpu.lost_idle(), PACKED) })
}

/// The smallest part of the GPU that its job fits into.
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
        share <= MOST_MEMORY * instance.1 && level <= MOST_BUSY * instance.0
    };
    let kept = match instances.iter().find(fits) {
        Some((compute, memory)) => compute.max(*memory),
        None if slices == 0 => share.max(level / MOST_BUSY),
        None => return None,
    };
    let parts = if kept > 0.0 { (1.0 / kept) as usize } else { return None };
    let others = f64::min(gpu.lost_idle(), 1.0 - kept);
    (parts >= 2).then(|| Finding {
        gpu,
        means: Means::Divide { parts: parts.min(7), mig: slices > 0 },
        saving: Saving::part(others, FILLED),
    })
}

/// What to do for GPUs that idle in the same way.
fn advise(group: &[Finding<'_>], settings: &Settings) -> Option<Recommendation> {
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
    let mut why = format!(
        "{} idled for {} of the time: {} of the bill. ",
        each(group.len()),
        percent(idle),
        percent(lost)
    );
    let peaks = group.iter().filter_map(|finding| finding.gpu.memory_peak());
    if let Some(peak) = peaks.reduce(f64::max) {
        evidence.push(("memory.peak_bytes".to_owned(), peak));
        why += &["Up to ", &gib(peak), " of memory were held. "].concat();
    }
    let (code, lever, title, action, also, sure) = match first.means {
        Means::Release { longest, held } => {
            let after = duration(settings.release_after_seconds);
            evidence.push(("idle.longest_seconds".to_owned(), longest));
            let also = format!(
                "The longest stretch was {}. Given back after {after} of idleness, it would have \
                 been off for that part of it that is the saving here.",
                duration(longest),
            );
            if longest >= OFF_HOURS_SECONDS {
                let action =
                    "Switch its node off by schedule outside the hours in which it is used.";
                (
                    "sharing.schedule",
                    "schedule",
                    "Switch it off outside working hours",
                    action.to_owned(),
                    also,
                    0.8,
                )
            } else if held {
                let action = format!(
                    "End sessions that idle for {after}, so that their memory is released, and \
                     let the node go.",
                );
                (
                    "sharing.end-idle-sessions",
                    "release_memory",
                    "End idle sessions and release their memory",
                    action,
                    also,
                    0.7,
                )
            } else {
                let action = format!("Scale its node group down after {after} without work.");
                (
                    "sharing.scale-down",
                    "autoscale",
                    "Give it back while nothing runs",
                    action,
                    also,
                    0.8,
                )
            }
        }
        Means::Pack { host, level, memory } => {
            evidence.push(("together.utilization".to_owned(), level));
            evidence.push(("together.memory_bytes".to_owned(), memory));
            let action = format!(
                "Place its job on {host}, if the scheduler can put both there, and give this one \
                 back.",
            );
            let also = format!(
                "It idles in stretches too short to switch off. With the job of {} it would make \
                 one GPU {} busy, with {} of memory in use.",
                host,
                percent(level),
                gib(memory),
            );
            ("sharing.pack", "bin_pack", "Move its job in with another", action, also, 0.6)
        }
        Means::Divide { parts, mig } => {
            evidence.push(("parts".to_owned(), parts as f64));
            let (lever, how) =
                if mig { ("mig", "MIG instances") } else { ("mps", "clients of MPS") };
            let jobs = count(parts, "job");
            let action = format!(
                "Divide it into {how} for {jobs} of this size. Its bursts take longer then; that \
                 matters for what people wait for.",
            );
            let also = format!(
                "It idles in stretches too short to switch off, and its job fits into one of \
                 {parts} parts. The saving is what others come to use.",
            );
            ("sharing.divide", lever, "Share it with others of its size", action, also, 0.5)
        }
    };
    Some(Recommendation {
        code: code.to_owned(),
        target: Target::Idle,
        lever: lever.to_owned(),
        title: title.to_owned(),
        action,
        rationale: why + &also,
        saving: Saving::together(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: sure * mean(Gpu::certainty),
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

    fn advice(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Sharing::recommend(&Settings::default(), &window(gpus))
    }

    /// A notebook: a burst of six seconds every five minutes.
    fn notebook() -> Gpu {
        gpu(PatternKind::Idle, 7_200, |second| if second % 300 < 6 { 0.6 } else { 0.0 })
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|advice| advice.lever.as_str()).collect()
    }

    #[test]
    fn long_idleness_is_switched_off_by_who_holds_it() {
        let mut free = steady(7_200, 0.0);
        assert_eq!(levers(&advice(vec![free.clone()])), ["release_memory"]);
        std::mem::swap(&mut free.accounts.idle_free, &mut free.accounts.idle_held);
        let found = advice(vec![free.clone(), free]);
        assert_eq!((levers(&found), found[0].gpus.len()), (vec!["autoscale"], 2));
        // Two hours, given back after ten minutes.
        assert!((found[0].saving.expected - 11.0 / 12.0).abs() < 0.01);
        assert_eq!(levers(&advice(vec![steady(20_000, 0.0)])), ["schedule"]);
    }

    #[test]
    fn bursts_are_moved_in_with_a_job_that_leaves_room() {
        let host = with_memory(steady(7_200, 0.5), 33.0);
        let found = advice(vec![with_memory(notebook(), 30.0), host.clone()]);
        assert_eq!(levers(&found), ["bin_pack", "mig"]);
        assert!(found[0].action.contains("GPU-1"), "{}", found[0].action);
        // Thirty of eighty GB need half of the memory, so half of the GPU is for others.
        assert!((found[1].saving.high - 0.45).abs() < 1e-9);
        assert!(
            advice(vec![with_memory(notebook(), 0.5), host.clone()]).is_empty(),
            "nothing to move"
        );
        let full = with_memory(host, 60.0);
        assert_eq!(levers(&advice(vec![with_memory(notebook(), 30.0), full])), ["mig"]);
    }

    #[test]
    fn without_a_column_of_memory_nothing_is_said_of_what_fits() {
        assert!(advice(vec![notebook(), steady(7_200, 0.5)]).is_empty());
    }

    #[test]
    fn what_works_waits_or_was_hardly_seen_is_left_alone() {
        let gpus = vec![
            steady(3_600, 0.5),
            steady(3_600, 0.97),
            bouncing(3_600, 40, 0.5),
            steady(50, 0.0),
        ];
        assert!(advice(gpus).is_empty());
        assert!(advice(vec![gpu(PatternKind::Idle, 3_600, |_| f64::NAN)]).is_empty());
    }
}
