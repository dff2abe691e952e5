//! What is written about changes that last.

use phasemeter_diagnoses::{MATTERS, SIMILAR, confidence};
use phasemeter_policy::format::{count, duration, gib, instant, percent};
use phasemeter_policy::{
    Gpu, Need, Recommendation, RecommendationKind, Response, Target, Window, Workload, evidence,
    mean,
};

use crate::change::{Change, Kind};

/// What would decide: its name, and what it tells.
const NEEDS: [(Kind, &str, &str); 3] = [
    (
        Kind::Divided,
        "throughput",
        "requests, samples or results per second, before GPUs were added and after, show whether these do more or only share \
         the same work",
    ),
    (
        Kind::Grew,
        "memory_in_use",
        "what is in use inside of the memory that grew, by the metrics of the server, decides what fits beside it",
    ),
    (
        Kind::Withheld,
        "clocks_event_reasons.active",
        "a reason for a reduced clock, or the performance state, tells a GPU that is withheld from one that is not asked",
    ),
];

/// What differs between kinds of change.
struct Words {
    /// Ends with the time, or the duration.
    title: &'static str,
    action: &'static str,
    cause: &'static str,
    kind: RecommendationKind,
}

/// What is advised about changes, and what would decide.
pub(crate) fn response(changes: &[Vec<Change<'_>>], window: &Window) -> Response {
    let needs = NEEDS.iter().filter_map(|(kind, missing, reason)| {
        let gpus = changes.iter().flatten().filter(|it| it.kind == *kind).map(|it| it.gpu);
        Need::if_any(missing, reason, gpus)
    });
    Response::of(changes.iter().map(|group| recommendation(group, window)), needs)
}

/// The recommendation for GPUs that changed at once.
fn recommendation(group: &[Change<'_>], window: &Window) -> Recommendation {
    let first = &group[0];
    let gpus = || group.iter().map(|it| it.gpu);
    let words = words(first);
    let [before, after] = [0, 1].map(|at| mean(group, |it| it.levels[at]));
    let seconds = first.point as f64 * window.step_seconds;
    let all = first.gpu.utilization.len() as f64 * window.step_seconds;
    let longest = group.iter().map(|it| it.points).max().unwrap_or(0);
    let since = match first.kind {
        Kind::Sank => [percent(before), percent(after)].join(" to "),
        Kind::Unattended => duration(longest as f64 * window.step_seconds),
        _ => instant(window.start.saturating_add((seconds * 1e9) as u64)),
    };
    Recommendation {
        title: [words.title, &since].concat(),
        action: words.action.to_owned(),
        rationale: [&*what(group, window), ". ", words.cause, "."].concat(),
        confidence: confidence::PROBABLE * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("utilization.before", before, "1"),
            ("utilization.since", after, "1"),
            ("since.time", all - seconds, "s"),
        ]),
        kind: words.kind,
        ..Recommendation::new("measure.change", target(group), "measure", gpus())
    }
}

/// What was seen before and after.
fn what(group: &[Change<'_>], window: &Window) -> String {
    let first = &group[0];
    let [before, after] = [first.point, first.gpu.utilization.len() - first.point]
        .map(|points| points as f64 * window.step_seconds);
    let level = |at: usize, of: fn(&Change<'_>) -> bool| {
        percent(mean(group.iter().filter(|it| of(it)), |it| it.levels[at]))
    };
    let sum = |at: usize| group.iter().map(|it| it.levels[at]).sum::<f64>();
    let (before, after) = (duration(before), duration(after));
    let memory = first.memory.map_or_else(String::new, |[a, b]| {
        [" (", &*gib(a), " before and ", &gib(b), " since)"].concat()
    });
    match first.kind {
        Kind::Unattended => format!(
            "From {} on, load was at {} all the time, with no more than {} between its levels",
            instant(
                window
                    .start
                    .saturating_add((first.point as f64 * window.step_seconds * 1e9) as u64)
            ),
            level(1, |_| true),
            percent(SIMILAR),
        ),
        Kind::Divided => format!(
            "{} at {} for {before}, and {} at {} for {after} since: together {} of what was done before",
            count(group.iter().filter(|it| !it.began()).count(), "GPU"),
            level(0, |it| !it.began()),
            group.len(),
            level(1, |_| true),
            percent(sum(1) / sum(0)),
        ),
        Kind::Sank => format!(
            "Load was {} in the first eighth of the time and {} in the last, and never rose in between, with the same memory in \
             use",
            level(0, |_| true),
            level(1, |_| true),
        ),
        Kind::Grew => format!(
            "Memory in use grew at once and has stayed for {after}{memory}, at the same load of {}",
            level(1, |_| true),
        ),
        _ => {
            let held = match first.has_same_memory() {
                Some(true) => ", with the same memory in use",
                Some(false) => ", with other memory in use",
                None => "",
            };
            format!(
                "Load was {} for {before}, and has been {} for {after} since{held}{memory}",
                level(0, |_| true),
                level(1, |_| true),
            )
        }
    }
}

/// The waste that it explains.
fn target(group: &[Change<'_>]) -> Target {
    let lost = |of: fn(&Gpu) -> f64| mean(group, |it| of(it.gpu));
    let is_idle = lost(Gpu::lost_idle) >= lost(Gpu::lost_underload);
    match (group[0].kind, group[0].gpu.is_bouncing(), is_idle) {
        (Kind::TakenOver | Kind::Grew, ..) => Target::Throughput,
        (Kind::Unattended, ..) => Target::Underload,
        (_, true, _) => Target::Starvation,
        (_, false, true) => Target::Idle,
        (_, false, false) => Target::Underload,
    }
}

fn words(first: &Change<'_>) -> Words {
    let is_same = first.has_same_memory();
    match first.kind {
        Kind::Fell => Words {
            title: "Find out what changed at ",
            action: "Look at what was started or set then, on the host too: a run, an image, a neighbor, a disk. Read the log of \
                     the process, and sample its stack (py-spy dump --pid PID): it may work on the CPU.",
            cause: match is_same {
                Some(true) => {
                    "The same process most likely goes on, and something outside of the GPU limits it"
                }
                Some(false) => {
                    "Another process most likely took its place, and does something else, or works on the CPU"
                }
                None => "Something outside of the GPU limits it, or other work took its place",
            },
            kind: RecommendationKind::Saving,
        },
        Kind::Sank => Words {
            title: "Find out why load sinks, from ",
            action: "Profile a late step and compare it with an early one: input that gets slower (a full page cache, a disk, \
                     workers that leak memory), or what the loop accumulates, such as a history, logs or a growing graph.",
            cause: "Something outside of the GPU most likely gets slower, or there is less to compute in later stages",
            kind: RecommendationKind::Saving,
        },
        Kind::Rose => Words {
            title: "Find out what it waited for until ",
            action: "Read its log of that time: compilation for each shape, tuning, downloads, the first pass over the data. Keep \
                     between runs what it prepares, or prepare it before the GPUs are taken.",
            cause: match is_same {
                Some(true) => {
                    "The same process most likely prepared, compiled or read from a cold disk at first"
                }
                _ => {
                    "It prepared, compiled or read from a cold disk at first, or other work came before"
                }
            },
            kind: RecommendationKind::Saving,
        },
        Kind::Withheld => Words {
            title: "Find out what has held this GPU back since ",
            action: "Compare its clock, its performance state and, in a virtual machine, the license of its driver with those of a \
                     GPU that works as before. If these are in order, its work moved to the CPU: read the log of the process. \
                     Before that is known, this load does not show what the work needs.",
            cause: "It is used as before, and gets hardly any load: the GPU is withheld, or no longer asked",
            kind: RecommendationKind::Risk,
        },
        Kind::TakenOver => Words {
            title: "Find out whose work has been running since ",
            action: "Name its owner and its process before anything else is done for it. A long job belongs in a queue, with a \
                     limit of its time. What nobody has started is a matter of security: keep its traces.",
            cause: "People pause; this does not: a long job, a loop that was left, or work of somebody else, such as mining",
            kind: RecommendationKind::Risk,
        },
        Kind::Unattended => Words {
            title: "Find out what works without a pause for ",
            action: "Name its process or cell, and ask its user. If it trains, leave it, and queue the next as a job. If a screen, a \
                     preview or a page is drawn for nobody, or a loop or a kernel hangs, its user ends it.",
            cause: "People pause; this does not: a cell that trains, a program that draws all the time, or one that hangs",
            kind: match first.gpu.lost_underload() >= MATTERS {
                true => RecommendationKind::Saving,
                false => RecommendationKind::Risk,
            },
        },
        Kind::Divided => Words {
            title: "Find out why more GPUs do hardly more since ",
            action: match first.gpu.workload {
                Workload::Training => {
                    "Compare samples per second before and after. If they hardly rose, start one process per GPU if one drives \
                     all, or look at the exchange and the loader; else return to fewer GPUs. If these are other jobs, nothing is \
                     wrong."
                }
                _ => {
                    "Compare requests per second and latency before and after. If both are as before, no more requests come, and \
                     what was added can go. If more wait, something before the GPUs limits them: one server process, its CPU, \
                     the network or the client. If only latency fell, that is what was bought."
                }
            },
            cause: "So the work is limited elsewhere, or there is hardly more of it",
            kind: RecommendationKind::Saving,
        },
        Kind::Grew => Words {
            title: "Find out what has filled more memory since ",
            action: "If the server keeps what its largest input needed (an arena or pool of its runtime), limit that input or the \
                     pool, and a restart helps only until the next one. If a model or a process was added, count with it. Before \
                     anything shares this GPU, find out how much is in use inside.",
            cause: "It jumped, and has not grown since, so it is not the usual leak",
            kind: RecommendationKind::Capacity,
        },
    }
}
