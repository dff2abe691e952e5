//! What is written about pauses, and what shorter ones save. Must not depend on how causes are found.

use phasemeter_policy::format::{count, decimal, duration, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, RecommendationKind, Saving, Target, Workload, evidence,
};

use crate::cause::Cause;
use crate::{Finding, Returned};

/// Confidence in regular pauses of a job that holds its GPUs, and in other causes. Assumptions.
const SURE_REGULAR: f64 = 0.8;
const SURE: f64 = 0.5;

/// Share of the pauses that is saved: low, expected, high. An assumption.
const SHORTENED: [f64; 3] = [0.0, 0.5, 0.9];

/// Share of the pauses that other jobs use, and of the instances that are then not needed which is given back: low,
/// expected, high. Assumptions.
const QUEUED: [f64; 3] = [0.0, 0.5, 1.0];
const RETURNED: [f64; 3] = [0.0, 0.5, 1.0];

/// Time from the end of a job to the start of the next in a queue, at least, in seconds. An assumption.
const NEXT_SECONDS: f64 = 20.0;

/// Difference of the pauses times their period from the observed time, relative to it, up to which points do not merge
/// pauses. An assumption.
const MERGED: f64 = 0.5;

/// What differs between causes.
struct Words {
    code: &'static str,
    lever: &'static str,
    title: &'static str,
    action: &'static str,
    why: &'static str,
}

pub(crate) fn recommendation(
    group: &[Finding<'_>],
    returned: Option<&Returned>,
) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().map(|finding| finding.gpu);
    let mean = |value: &dyn Fn(&Finding<'_>) -> f64| {
        group.iter().map(value).sum::<f64>() / group.len() as f64
    };
    let lost = mean(&|it| it.gpu.lost_idle());
    let (pauses, each) = (mean(&|it| it.holes.count), mean(&|it| it.holes.mean()));
    let share = mean(&|it| it.holes.seconds / it.gpu.accounts.observed().seconds.max(1.0));
    let period = mean(&|it| it.holes.period);
    // Points of a long column merge pauses.
    let observed = mean(&|it| it.gpu.accounts.observed().seconds);
    let is_seen = (period * pauses - observed).abs() <= MERGED * observed;
    let every =
        if is_seen { [", about every ", &duration(period)].concat() } else { String::new() };
    let Words { code, lever, title, action, why } = words(first);
    let follows = matches!(first.cause, Cause::Queue | Cause::Tasks | Cause::Free);
    let packed = match returned.filter(|_| follows) {
        Some(Returned { instances, needed, work }) => format!(
            " The work of {} GPUs fits {needed} of {instances} instances, if jobs wait for one another.",
            decimal(*work, 1),
        ),
        None if follows => " This frees capacity; it saves money only if an instance is returned \
                            sooner."
            .to_owned(),
        None => String::new(),
    };
    let rationale = format!(
        "{} paused {}, for {} on average{every}: {} of the time. {why}{packed}",
        subject(group.len()),
        count((pauses + 0.5) as usize, "time"),
        duration(each),
        percent(share),
    );
    let kind = match first.cause {
        Cause::CrashLoop => RecommendationKind::Risk,
        _ if follows && returned.is_none() => RecommendationKind::Capacity,
        _ => RecommendationKind::Saving,
    };
    let saving = |gpu: &Gpu| match (first.cause, returned) {
        (Cause::Unknown | Cause::CrashLoop, _) => Saving::NONE,
        (_, Some(returned)) if follows => {
            Saving::part(returned.share().min(gpu.lost_idle()), RETURNED)
        }
        (_, None) if follows => {
            let filled = 1.0 - NEXT_SECONDS / each.max(NEXT_SECONDS);
            Saving::part(gpu.lost_idle() * filled, QUEUED)
        }
        _ => Saving::part(gpu.lost_idle(), SHORTENED),
    };
    let sure = if first.cause == Cause::Checkpoints { SURE_REGULAR } else { SURE };
    let confidence = gpus().map(Gpu::confidence).sum::<f64>() / group.len() as f64;
    let title = match returned.filter(|_| follows) {
        Some(Returned { instances, needed, .. }) => {
            format!("Queue jobs, and return {} of {instances} instances", instances - needed)
        }
        None => title.to_owned(),
    };
    Some(Recommendation {
        title,
        action: action.to_owned(),
        rationale,
        saving: Saving::combined(gpus().map(|gpu| (gpu, saving(gpu)))),
        confidence: sure * confidence,
        evidence: evidence([
            ("pauses", pauses, "{pause}"),
            ("pauses.mean", each, "s"),
            ("pauses.held", mean(&|it| it.holes.held), "1"),
            ("idle.share_of_bill", lost, "1"),
        ]),
        kind,
        effort: Effort::Medium,
        ..Recommendation::new(code, Target::Idle, lever, gpus())
    })
}

fn words(first: &Finding<'_>) -> Words {
    match (first.cause, first.gpu.workload) {
        (Cause::Checkpoints, Workload::Batch) => Words {
            code: "gaps.checkpoints",
            lever: "checkpoint_interval",
            title: "Write results in the background, or less often",
            action: "Write state and results asynchronously, to faster storage or less often.",
            why: "Short regular pauses with the memory held are writes of state or results.",
        },
        (Cause::Checkpoints, _) => Words {
            code: "gaps.checkpoints",
            lever: "checkpoint_interval",
            title: "Save or evaluate less often, or in the background",
            action: "Save checkpoints asynchronously, to faster storage or less often. If the pauses are \
                     evaluation, run it on another GPU or on fewer samples.",
            why: "Regular or short pauses with the memory held are checkpoints or evaluation.",
        },
        (Cause::Tasks, _) => Words {
            code: "gaps.tasks",
            lever: "overlap",
            title: "Fetch the next task while one computes",
            action: "Fetch and prepare the next task during the current one. If no task waits in the queue, run \
                     fewer of these workers, or two on one GPU.",
            why: "A process held the memory, so it waited for its next task or its data.",
        },
        (Cause::Restarts, _) => Words {
            code: "gaps.restarts",
            lever: "restart",
            title: "Find out why the job restarts",
            action: "Read its log before each pause. Save state more often, so that less is repeated, and keep \
                     images, data and compiled kernels on the node for a warm start.",
            why: "In these pauses the memory was empty, so the job ended and started anew. What it repeated is \
                  not visible here.",
        },
        (Cause::CrashLoop, _) => Words {
            code: "gaps.crash-loop",
            lever: "restart",
            title: "Find out why the process ends after each start",
            action: "Read the log of the pod or job before each pause. Stop it until the cause is found: its GPU \
                     is paid for in the meantime.",
            why: "Each time it filled memory, hardly worked and left the memory empty, as a process does that \
                  crashes and is restarted.",
        },
        (Cause::Queue, _) => Words {
            code: "gaps.queue",
            lever: "bin_pack",
            title: "Keep the next job in a queue",
            action: "Queue jobs, so that the next one starts when one ends. Prepare its data on a CPU node in \
                     the meantime.",
            why: "The memory was free in most of them.",
        },
        (Cause::Free, _) => Words {
            code: "gaps.free",
            lever: "bin_pack",
            title: "Place other jobs in the pauses",
            action: "Queue jobs, so that the next one starts when one ends, or prepare data on a CPU node.",
            why: "No process held the GPU in between.",
        },
        (Cause::Alternating, _) => Words {
            code: "gaps.roles",
            lever: "overlap",
            title: "Let both roles work at once",
            action: "Overlap the two roles, for example by working on the next batch while the last one is \
                     learned, or run both on the same GPUs if their memory fits.",
            why: "Other GPUs of the same job work exactly while these wait.",
        },
        (Cause::Unknown, _) => Words {
            code: "gaps.profile",
            lever: "measure",
            title: "Find out what happens in the pauses",
            action: "Sample the stack of the process during a pause, for example with py-spy dump.",
            why: "A process held the memory: saving, evaluation and waiting look alike here.",
        },
    }
}
