//! What is written about pauses, and what shorter ones save.

use phasemeter_diagnoses::{SHORTENED, confidence, saved, share};
use phasemeter_policy::format::{count, decimal, duration, gib, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Plan, Recommendation, RecommendationKind, Saving, Target, Thresholds, evidence,
    mean,
};

use crate::cause::{Cause, memory};
use crate::{Finding, Returned};

/// Time from the end of a job to the start of the next in a queue, at least, in seconds. An assumption.
const NEXT_SECONDS: f64 = 20.0;

/// Lengths from which means are rounded, and to how many seconds.
const ROUNDED: [(f64, f64); 2] = [(600.0, 60.0), (60.0, 5.0)];

/// What differs between causes.
struct Words {
    code: &'static str,
    lever: &'static str,
    title: &'static str,
    action: String,
    why: String,
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
) -> Recommendation {
    let first = &group[0];
    let gpus = || group.iter().map(|finding| finding.gpu);
    let lost = mean(group, |it| it.gpu.lost_idle());
    let pauses = mean(group, |it| f64::from(it.pauses().count));
    let each = mean(group, |it| it.pauses().mean_seconds());
    let of_time =
        |it: &Finding<'_>| it.pauses().quiet.seconds / it.gpu.accounts.observed().seconds.max(1.0);
    let share = mean(group, of_time);
    let periods: Vec<_> = group.iter().filter_map(|it| it.pauses().period_seconds).collect();
    let every = if periods.is_empty() {
        String::new()
    } else {
        [", about every ", &about(mean(&periods, |period| *period))].concat()
    };
    let Words { code, lever, title, action, why } = words(first, bounds);
    let follows = matches!(first.cause, Cause::Queue | Cause::Tasks);
    let returned = returned.filter(|_| follows);
    let (title, packed) = match returned {
        Some(Returned { instances, needed, work }) => (
            format!("Queue jobs, and return {} of {instances} instances", instances - needed),
            format!(
                " The work of {} GPUs fits {needed} of {instances} instances, if jobs wait for one another.",
                decimal(*work, 1),
            ),
        ),
        None if follows => (
            title.to_owned(),
            " This frees capacity; it saves money only if an instance is returned sooner."
                .to_owned(),
        ),
        None => (title.to_owned(), String::new()),
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
    let kind = match first.cause {
        Cause::CrashLoop | Cause::Odd => RecommendationKind::Risk,
        Cause::Unloaded => RecommendationKind::Capacity,
        _ if follows && returned.is_none() => RecommendationKind::Capacity,
        _ => RecommendationKind::Saving,
    };
    let saving = |gpu: &Gpu| match (first.cause, returned) {
        (Cause::Unknown | Cause::CrashLoop | Cause::Odd | Cause::Unloaded, _) => Saving::NONE,
        (_, Some(returned)) => Saving::part(returned.share().min(gpu.lost_idle()), saved::HALF),
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
    Recommendation {
        title,
        action,
        rationale: [&*paused, ". ", &why, &packed].concat(),
        saving: Saving::combined(gpus().map(|gpu| (gpu, saving(gpu)))),
        confidence: sure * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("pauses", pauses, "{pause}"),
            ("pauses.mean", each, "s"),
            ("pauses.held", mean(group, |it| it.pauses().held_share()), "1"),
            ("idle.share_of_bill", lost, "1"),
        ]),
        kind,
        effort: Effort::Medium,
        ..Recommendation::new(code, Target::Idle, lever, gpus())
    }
}

fn words(first: &Finding<'_>, bounds: Thresholds) -> Words {
    let (code, lever, title, action, why) = match first.cause {
        Cause::Checkpoints => (
            "gaps.checkpoints",
            "checkpoint_interval",
            "Save or evaluate in the background",
            if is_interrupted(first.gpu) {
                "Save state asynchronously or to faster storage, but not less often: each interruption repeats what \
                 was not saved."
            } else {
                "Save state and results asynchronously, to faster storage or less often. If the pauses are evaluation, \
                 run it on another GPU or on fewer samples."
            },
            "Regular or short pauses with the memory held are checkpoints, results that are written, or evaluation.",
        ),
        Cause::Tasks => (
            "gaps.tasks",
            "overlap",
            "Fetch the next task while one computes",
            "See what the host does in the pauses (py-spy dump), and do it for the next task while the GPU computes: fetch, \
             decode, write. If no task waits in the queue, run fewer of these workers, or two on one GPU.",
            "A process held the memory, so it waited for its next task or its data.",
        ),
        Cause::Starts => {
            return Words {
                code: "gaps.starts",
                lever: "storage",
                title: "Start faster after each interruption",
                action: "Keep the image, the data and compiled kernels on a disk or in a cache near the node, and load \
                         the last checkpoint from there. Interruptions themselves are not the waste."
                    .to_owned(),
                why: held(first)
                    + "This is most likely start-up and no checkpoint: the image, data, compilation and loading.",
            };
        }
        Cause::Restarts => return restarts(first, bounds),
        Cause::CrashLoop => (
            "gaps.crash-loop",
            "restart",
            "Find out why the process ends after each start",
            "Read the log of the pod or job before each pause. Stop it until the cause is found: its GPU is paid for in \
             the meantime.",
            "Each time it filled memory, hardly worked and left the memory empty, as a process does that crashes and is \
             restarted.",
        ),
        Cause::Odd => (
            "gaps.inspect",
            "other",
            "Inspect this GPU: its work ends again and again",
            "Compare the logs of its last jobs with those of its neighbors. If they failed, take the GPU out of the \
             scheduler, read its errors (XID, ECC, remapped rows), and run a diagnosis. If they only are short, queue them.",
            "Others like it beside it never paused: it may be faulty, or get other jobs.",
        ),
        Cause::Queue => (
            "gaps.queue",
            "bin_pack",
            "Keep the next job in a queue",
            "Queue jobs, so that the next one starts when one ends. Prepare its data on a CPU node in the meantime.",
            "The memory was free in most of them.",
        ),
        Cause::Unloaded => {
            return Words {
                code: "gaps.unloaded",
                lever: "other",
                title: "Keep the model loaded between requests",
                action: "If the server unloads it when no request comes, raise that time (OLLAMA_KEEP_ALIVE, model TTL): \
                         the GPU is paid for anyway; if pods end then, keep one; else load it from a disk of the node."
                    .to_owned(),
                why: held(first) + "So the model was loaded anew for the next request, which waited for that.",
            };
        }
        Cause::Unknown => (
            "gaps.profile",
            "measure",
            "Find out what happens in the pauses",
            "Sample the stack of the process during a pause, for example with py-spy dump: if it reads, read ahead or from \
             a local copy; if it computes on the CPU, use more cores, or do that while the GPU works; if it saves or \
             evaluates, do that in the background; if it waits for other GPUs, balance their work.",
            "A process held the memory: reading, preparation, saving and waiting look alike here.",
        ),
    };
    Words { code, lever, title, action: action.to_owned(), why: why.to_owned() }
}

/// Whether it may be interrupted, so that saved state counts.
fn is_interrupted(gpu: &Gpu) -> bool {
    gpu.interruptible || gpu.price.as_ref().is_some_and(|price| price.plan == Some(Plan::Spot))
}

/// What it holds in pauses, if it was recorded.
fn held(first: &Finding<'_>) -> String {
    memory(first.pauses()).map_or_else(String::new, |(pause, work)| {
        format!("It held {} then and {} at work. ", gib(pause), gib(work))
    })
}

/// A job that starts anew, or separate runs.
fn restarts(first: &Finding<'_>, bounds: Thresholds) -> Words {
    let level = first.gpu.accounts.busy().level();
    // Light enough for two runs at a time.
    let (title, action) = if level < bounds.productive {
        let action = format!(
            "If these are separate runs, such as trials, start the next one at once, or two at a time if memory fits: \
             each keeps the GPU {} busy. If it is one job, read its log before each pause.",
            percent(level),
        );
        ("Find out why it restarts, or start runs at once", action)
    } else {
        let action = "Compare the pauses with interruptions of spot capacity, and read the log before each. Save state \
                      more often, so that less is repeated, and keep images, data and compiled kernels on the node for \
                      a warm start. If these are separate runs, queue them.";
        ("Find out why the job restarts", action.to_owned())
    };
    let held = match memory(first.pauses()) {
        Some((pause, work)) if first.pauses().held_share() > share::MOST => {
            format!("It held {} in them and {} at work", gib(pause), gib(work))
        }
        _ => "In these pauses the memory was empty".to_owned(),
    };
    let why = held
        + ", so the process ended: one job that starts anew, or separate runs. What it repeated is not visible here.";
    Words { code: "gaps.restarts", lever: "restart", title, action, why }
}
