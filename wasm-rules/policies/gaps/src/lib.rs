//! Recommends shorter pauses between work.
//!
//! Pauses of equal length with the memory held are checkpoints or evaluation; irregular ones that
//! leave the memory empty are restarts, or gaps between jobs. Two groups of GPUs of which one works
//! while the other waits are two roles of one job.

use phasemeter_policy::column::mean;
use phasemeter_policy::format::{count, duration, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Policy, Recommendation, Recommender, Response, Saving, Target, Window, Workload,
    evidence, groups,
};

phasemeter_policy::settings! {
    /// Minimum share of the time in pauses.
    min_share: number = 0.05 in 0.0..=1.0;
    /// Minimum number of pauses.
    min_pauses: number = 3.0 in 1.0..=1000.0;
}

/// Share of the time of pauses in which a process holds the GPU, from which it does. An assumption.
const HELD: f64 = 0.8;

/// Readings in the shortest pause, so that it is seen. An assumption.
const READINGS_PER_PAUSE: f64 = 3.0;

/// Confidence in regular pauses of a job that holds its GPUs, and in other causes. Assumptions.
const SURE_REGULAR: f64 = 0.8;
const SURE: f64 = 0.5;

/// Difference of shares up to which GPUs get one recommendation. An assumption.
const SIMILAR: f64 = 0.2;

/// Minimum share of the time with work: below it, a GPU is idle with bursts.
const MIN_WORK: f64 = 0.6;

/// The longest of regular pauses, relative to the shortest.
const REGULAR: f64 = 1.5;

/// Share of the pauses that is saved: low, expected, high. An assumption.
const SHORTENED: [f64; 3] = [0.0, 0.5, 0.9];

/// The same for jobs that follow one another at once. An assumption.
const QUEUED: [f64; 3] = [0.0, 0.5, 1.0];

/// Correlation of the utilization of GPUs that work in turn.
const ALTERNATING: f64 = -0.7;

struct Gaps;

impl Policy for Gaps {
    const NAME: &'static str = "gaps";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds pauses between work, and recommends how to shorten or to use them.";
    type Settings = Settings;
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// Regular, with the memory held.
    Checkpoints,
    /// The job starts anew.
    Restarts,
    /// Between jobs.
    Queue,
    /// Other GPUs work in the meantime.
    Alternating,
    Unknown,
}

struct Finding<'a> {
    gpu: &'a Gpu,
    cause: Cause,
}

impl Recommender for Gaps {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let findings = window.gpus.iter().filter_map(|gpu| {
            let pauses = gpu.activity.pauses;
            let observed = gpu.accounts.observed().seconds;
            let enough = f64::from(pauses.count) >= settings.min_pauses
                && pauses.quiet.seconds >= settings.min_share * observed
                && gpu.sees_pauses();
            let cause = if enough && !gpu.is_bouncing() { cause(gpu, window) } else { None };
            cause.map(|cause| Finding { gpu, cause })
        });
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            a.cause == b.cause && (a.gpu.lost_idle() - b.gpu.lost_idle()).abs() <= SIMILAR
        };
        let groups = groups(findings, similar);
        groups.iter().filter_map(|group| recommend(group)).collect::<Vec<_>>().into()
    }
}

trait Pauses {
    /// Whether its readings are at least three times as frequent as its shortest pause is long.
    fn sees_pauses(&self) -> bool;
}

impl Pauses for Gpu {
    fn sees_pauses(&self) -> bool {
        let shortest = self.activity.pauses.shortest_seconds;
        self.activity
            .interval_seconds
            .is_some_and(|interval| READINGS_PER_PAUSE * interval <= shortest)
    }
}

fn cause(gpu: &Gpu, window: &Window) -> Option<Cause> {
    let pauses = gpu.activity.pauses;
    let alternates = |other: &Gpu| {
        other.is_alike(gpu)
            && correlation(&gpu.utilization, &other.utilization).is_some_and(|r| r <= ALTERNATING)
    };
    if gpu.workload == Workload::Training && window.gpus.iter().any(alternates) {
        return Some(Cause::Alternating);
    }
    if gpu.quiet_share() > 1.0 - MIN_WORK {
        return None;
    }
    let is_regular = pauses.longest_seconds <= REGULAR * pauses.shortest_seconds;
    let is_held = pauses.quiet.held_seconds >= HELD * pauses.quiet.seconds;
    match gpu.workload {
        Workload::Training if is_held && is_regular => Some(Cause::Checkpoints),
        Workload::Training if !is_held => Some(Cause::Restarts),
        Workload::Batch if !is_held => Some(Cause::Queue),
        Workload::Training | Workload::Batch | Workload::Unknown => Some(Cause::Unknown),
        Workload::Serving | Workload::Interactive => None,
    }
}

/// The correlation of two columns.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let (mean_a, mean_b) = (mean(a)?, mean(b)?);
    let pairs = a.iter().zip(b).filter(|(a, b)| !a.is_nan() && !b.is_nan());
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in pairs {
        let (a, b) = (a - mean_a, b - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

fn recommend(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = group.iter().map(|finding| finding.gpu);
    let average = |value: fn(&Gpu) -> f64| {
        group.iter().map(|it| value(it.gpu)).sum::<f64>() / group.len() as f64
    };
    let lost = average(Gpu::lost_idle);
    let pauses = first.gpu.activity.pauses;
    let each = pauses.quiet.seconds / f64::from(pauses.count.max(1));
    let mut rationale = format!(
        "{} paused {}, for {} on average ({} to {}). This wastes {} of its bill. ",
        subject(group.len()),
        count(pauses.count as usize, "time"),
        duration(each),
        duration(pauses.shortest_seconds),
        duration(pauses.longest_seconds),
        percent(lost),
    );
    let (code, lever, title, action, detail) = match first.cause {
        Cause::Checkpoints => (
            "gaps.checkpoints",
            "checkpoint_interval",
            "Save or evaluate less often, or in the background",
            "Save checkpoints asynchronously, to faster storage or less often. If the pauses are \
             evaluation, run it on another GPU or on fewer samples.",
            "Regular pauses with the memory held are checkpoints or evaluation.",
        ),
        Cause::Restarts => (
            "gaps.restarts",
            "restart",
            "Find out why the job restarts",
            "Read its log before each pause. Save state more often, so that less is repeated, and keep \
             images, data and compiled kernels on the node for a warm start.",
            "In irregular pauses the memory was empty, so the job ended and started anew. What it \
             repeated is not visible here.",
        ),
        Cause::Queue => (
            "gaps.queue",
            "bin_pack",
            "Keep the next job in a queue",
            "Queue jobs, so that the next one starts when one ends, and load its data in the meantime.",
            "No process held the GPU in between.",
        ),
        Cause::Alternating => (
            "gaps.roles",
            "overlap",
            "Let both roles work at once",
            "Overlap the two roles, for example by working on the next batch while the last one is \
             learned, or run both on the same GPUs if their memory fits.",
            "Other GPUs of the same job work exactly while these wait.",
        ),
        Cause::Unknown => (
            "gaps.profile",
            "measure",
            "Find out what happens in the pauses",
            "Sample the stack of the process during a pause, for example with py-spy dump.",
            "Saving, evaluation and waiting look alike here.",
        ),
    };
    rationale += detail;
    let parts = match first.cause {
        _ if lever == "measure" => [0.0; 3],
        Cause::Queue => QUEUED,
        _ => SHORTENED,
    };
    let sure = if first.cause == Cause::Checkpoints { SURE_REGULAR } else { SURE };
    Some(Recommendation {
        title: title.to_owned(),
        action: action.to_owned(),
        rationale,
        saving: Saving::combined(
            group.iter().map(|it| (it.gpu, Saving::part(it.gpu.lost_idle(), parts))),
        ),
        confidence: sure * average(Gpu::confidence),
        evidence: evidence([
            ("pauses", f64::from(pauses.count), "{pause}"),
            ("pauses.mean", each, "s"),
            ("pauses.longest", pauses.longest_seconds, "s"),
            ("idle.share_of_bill", lost, "1"),
        ]),
        effort: Effort::Medium,
        ..Recommendation::new(code, Target::Idle, lever, gpus)
    })
}

phasemeter_policy::recommender!(Gaps);

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, steady, window};

    use super::*;

    /// Works for `work` seconds, then pauses for `pause`.
    fn pausing(work: usize, pause: usize) -> Gpu {
        gpu(PatternKind::Mixed, 7_200, move |second| {
            f64::from(u8::from(second % (work + pause) < work)) * 0.97
        })
    }

    fn levers(gpus: Vec<Gpu>) -> Vec<String> {
        let found = Gaps::recommend(&Settings::default(), &window(gpus)).recommendations;
        found.into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn cause_follows_from_memory_and_workload() {
        let held = pausing(1_200, 180);
        let mut empty = held.clone();
        empty.activity.pauses.quiet.held_seconds = 0.0;
        let batch = Gpu { workload: Workload::Batch, ..empty.clone() };
        let unknown = Gpu { workload: Workload::Unknown, ..held.clone() };
        let serving = Gpu { workload: Workload::Serving, ..held.clone() };
        assert_eq!(levers(vec![held]), ["checkpoint_interval"]);
        assert_eq!(levers(vec![empty]), ["restart"]);
        assert_eq!(levers(vec![batch]), ["bin_pack"]);
        assert_eq!(levers(vec![unknown]), ["measure"]);
        assert!(levers(vec![serving]).is_empty());
    }

    #[test]
    fn gpus_that_work_in_turn_are_roles() {
        let first =
            gpu(PatternKind::Mixed, 7_200, |second| f64::from(u8::from(second % 280 < 150)));
        let other =
            gpu(PatternKind::Mixed, 7_200, |second| f64::from(u8::from(second % 280 >= 150)));
        let found =
            Gaps::recommend(&Settings::default(), &window(vec![first, other])).recommendations;
        assert_eq!((found[0].lever.as_str(), found[0].gpus.len()), ("overlap", 2));
        assert!(found[0].saving.expected < 0.3 && found[0].saving.low == 0.0);
    }

    #[test]
    fn bursts_and_rare_pauses_are_no_gaps() {
        assert!(levers(vec![pausing(30, 270)]).is_empty(), "idle with bursts");
        assert!(levers(vec![pausing(3_000, 180)]).is_empty(), "two pauses");
        assert!(levers(vec![steady(7_200, 0.97), steady(7_200, 0.0)]).is_empty());
        let mut slow = pausing(1_200, 180);
        slow.activity.interval_seconds = Some(120.0);
        assert!(levers(vec![slow]).is_empty(), "a pause needs several readings");
    }
}
