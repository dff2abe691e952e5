//! What is written about pauses, and what shorter ones save.

use phasemeter_diagnoses::{SHORTENED, confidence, saved};
use std::borrow::Cow;

use phasemeter_policy::format::{count, decimal, duration, gib, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Plan, Recommendation, RecommendationKind, Saving, Target, Thresholds, Workload,
    evidence, mean,
};

use crate::cause::Cause;
use crate::{Finding, Returned};

/// Time from the end of a job to the start of the next in a queue, at least, in seconds. An assumption.
const NEXT_SECONDS: f64 = 20.0;

/// Lengths from which means are rounded, and to how many seconds.
const ROUNDED: [(f64, f64); 2] = [(600.0, 60.0), (60.0, 5.0)];

/// Why pauses are checkpoints.
const CHECKPOINTS: &str =
    "Regular or short pauses with the memory held are checkpoints or evaluation.";

/// What differs between causes.
struct Words {
    code: &'static str,
    lever: &'static str,
    title: &'static str,
    action: Cow<'static, str>,
    why: Cow<'static, str>,
}

/// A mean that is known to some seconds: `50 min`, `2 min 10 s`.
pub(crate) fn about(seconds: f64) -> String {
    let place = ROUNDED.into_iter().find(|(least, _)| seconds >= *least).map_or(1.0, |it| it.1);
    duration((seconds / place).round() * place)
}

pub(crate) fn recommendation(
    group: &[Finding<'_>],
    returned: Option<&Returned>,
    bounds: Thresholds,
) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().map(|finding| finding.gpu);
    let lost = mean(group, |it| it.gpu.lost_idle());
    let (pauses, each) = (mean(group, |it| it.holes.count), mean(group, |it| it.holes.mean()));
    let share = mean(group, |it| it.holes.seconds / it.gpu.accounts.observed().seconds.max(1.0));
    let period = mean(group, |it| it.holes.period);
    let every = match period {
        period if period.is_finite() => [", about every ", &about(period)].concat(),
        _ => String::new(),
    };
    let Words { code, lever, title, action, why } = words(first, bounds);
    let follows = matches!(first.cause, Cause::Queue | Cause::Tasks);
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
    let (each_gpu, times) = (subject(group.len()), count((pauses + 0.5) as usize, "time"));
    let (length, share) = (duration(each), percent(share));
    let paused = if first.cause == Cause::Starts {
        format!(
            "{each_gpu} started {times} after time without readings, and first worked {length} later: {share} of the \
             observed time"
        )
    } else {
        format!("{each_gpu} paused {times}, for {length} on average{every}: {share} of the time")
    };
    let rationale = [&*paused, ". ", &why, &packed].concat();
    let kind = match first.cause {
        Cause::CrashLoop => RecommendationKind::Risk,
        _ if follows && returned.is_none() => RecommendationKind::Capacity,
        _ => RecommendationKind::Saving,
    };
    let saving = |gpu: &Gpu| match (first.cause, returned) {
        (Cause::Unknown | Cause::CrashLoop, _) => Saving::NONE,
        (_, Some(returned)) if follows => {
            Saving::part(returned.share().min(gpu.lost_idle()), saved::HALF)
        }
        (_, None) if follows => {
            let filled = 1.0 - NEXT_SECONDS / each.max(NEXT_SECONDS);
            Saving::part(gpu.lost_idle() * filled, saved::HALF)
        }
        _ => Saving::part(gpu.lost_idle(), SHORTENED),
    };
    let sure = match first.cause {
        Cause::Checkpoints => confidence::VERY_LIKELY,
        Cause::Restarts => confidence::DOUBTFUL,
        _ => confidence::EVEN,
    };
    let title = match returned.filter(|_| follows) {
        Some(Returned { instances, needed, .. }) => {
            format!("Queue jobs, and return {} of {instances} instances", instances - needed)
        }
        None => title.to_owned(),
    };
    Some(Recommendation {
        title,
        action: action.into_owned(),
        rationale,
        saving: Saving::combined(gpus().map(|gpu| (gpu, saving(gpu)))),
        confidence: sure * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("pauses", pauses, "{pause}"),
            ("pauses.mean", each, "s"),
            ("pauses.held", mean(group, |it| it.holes.held), "1"),
            ("idle.share_of_bill", lost, "1"),
        ]),
        kind,
        effort: Effort::Medium,
        ..Recommendation::new(code, Target::Idle, lever, gpus())
    })
}

fn words(first: &Finding<'_>, bounds: Thresholds) -> Words {
    match (first.cause, first.gpu.workload) {
        (Cause::Checkpoints, workload) if is_interrupted(first.gpu) => Words {
            code: "gaps.checkpoints",
            lever: "checkpoint_interval",
            title: match workload {
                Workload::Batch => "Write state and results in the background",
                _ => "Save or evaluate in the background",
            },
            action: "Save state asynchronously or to faster storage, but not less often: each interruption repeats \
                     what was not saved."
                .into(),
            why: CHECKPOINTS.into(),
        },
        (Cause::Checkpoints, Workload::Batch) => Words {
            code: "gaps.checkpoints",
            lever: "checkpoint_interval",
            title: "Write results in the background, or less often",
            action: "Write state and results asynchronously, to faster storage or less often.".into(),
            why: "Short regular pauses with the memory held are writes of state or results.".into(),
        },
        (Cause::Checkpoints, _) => Words {
            code: "gaps.checkpoints",
            lever: "checkpoint_interval",
            title: "Save or evaluate less often, or in the background",
            action: "Save checkpoints asynchronously, to faster storage or less often. If the pauses are \
                     evaluation, run it on another GPU or on fewer samples.".into(),
            why: CHECKPOINTS.into(),
        },
        (Cause::Tasks, _) => Words {
            code: "gaps.tasks",
            lever: "overlap",
            title: "Fetch the next task while one computes",
            action: "Fetch and prepare the next task during the current one. If no task waits in the queue, run \
                     fewer of these workers, or two on one GPU.".into(),
            why: "A process held the memory, so it waited for its next task or its data.".into(),
        },
        (Cause::Starts, _) => Words {
            code: "gaps.starts",
            lever: "storage",
            title: "Start faster after each interruption",
            action: "Keep the image, the data and compiled kernels on a disk or in a cache near the node, and load the \
                     last checkpoint from there. Interruptions themselves are not the waste."
                .into(),
            why: held(first).into(),
        },
        (Cause::Restarts, _) => restarts(first, bounds),
        (Cause::CrashLoop, _) => Words {
            code: "gaps.crash-loop",
            lever: "restart",
            title: "Find out why the process ends after each start",
            action: "Read the log of the pod or job before each pause. Stop it until the cause is found: its GPU \
                     is paid for in the meantime.".into(),
            why: "Each time it filled memory, hardly worked and left the memory empty, as a process does that \
                  crashes and is restarted.".into(),
        },
        (Cause::Queue, _) => Words {
            code: "gaps.queue",
            lever: "bin_pack",
            title: "Keep the next job in a queue",
            action: "Queue jobs, so that the next one starts when one ends. Prepare its data on a CPU node in \
                     the meantime.".into(),
            why: "The memory was free in most of them.".into(),
        },
        (Cause::Unknown, _) => Words {
            code: "gaps.profile",
            lever: "measure",
            title: "Find out what happens in the pauses",
            action: "Sample the stack of the process during a pause, for example with py-spy dump.".into(),
            why: "A process held the memory: saving, evaluation and waiting look alike here.".into(),
        },
    }
}

/// Whether it may be interrupted, so that saved state counts.
fn is_interrupted(gpu: &Gpu) -> bool {
    gpu.interruptible || gpu.price.as_ref().is_some_and(|price| price.plan == Some(Plan::Spot))
}

/// What start-up holds, if it was recorded.
fn held(first: &Finding<'_>) -> String {
    let Some((pause, work)) = first.memory else {
        return "This is most likely start-up: the image, data, compilation and the last checkpoint.".to_owned();
    };
    format!(
        "It held {} then and {} at work, so this is start-up and no checkpoint: the image, data, compilation and \
         loading.",
        gib(pause),
        gib(work),
    )
}

/// A job that starts anew, or separate runs.
fn restarts(first: &Finding<'_>, bounds: Thresholds) -> Words {
    let level = first.gpu.accounts.busy().level();
    // Light enough for two runs at a time.
    let is_light = level < bounds.productive;
    let action = if is_light {
        format!(
            "If these are separate runs, such as trials, start the next one at once, or two at a time if memory fits: \
             each keeps the GPU {} busy. If it is one job, read its log before each pause.",
            percent(level),
        )
    } else {
        let price = first.gpu.price.as_ref();
        let cause = if price.is_some_and(|price| price.plan == Some(Plan::Spot)) {
            "Compare the pauses with interruptions of spot capacity. For the rest, read the log before each."
        } else {
            "Read its log before each pause."
        };
        format!(
            "{cause} Save state more often, so that less is repeated, and keep images, data and compiled kernels on \
             the node for a warm start. If these are separate runs, queue them."
        )
    };
    let why = match first.memory {
        Some((pause, work)) if first.holes.held > 0.5 => format!(
            "It held {} in them and {} at work, so the process most likely started anew. What it repeated is not \
             visible here.",
            gib(pause),
            gib(work),
        )
        .into(),
        _ => "In these pauses the memory was empty, so the process ended: one job that starts anew, or separate runs. \
              What it repeated is not visible here."
            .into(),
    };
    Words {
        code: "gaps.restarts",
        lever: "restart",
        title: if is_light {
            "Find out why it restarts, or start runs at once"
        } else {
            "Find out why the job restarts"
        },
        action: action.into(),
        why,
    }
}
