//! More work for a GPU, or the same in less time: larger batches, batched requests, overlap and balance.
//!
//! Must not depend on other GPUs than those in use, or their prices.

use std::mem::discriminant;

use phasemeter_policy::column::percentile;
use phasemeter_policy::format::{gib, percent, subject};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, Memory, PatternKind, Recommendation, RecommendationKind,
    Saving, Target, Window, Workload, evidence, groups,
};
use phasemeter_specs::Unit;

use crate::{Settings, serves};

/// Share of the waste that a larger batch saves: expected, and at most, before each doubling halves it; and the
/// share of the time with work. Assumptions; the last is a doubling of the load.
const BATCH_EXPECTED: f64 = 0.4;
const BATCH_MOST: f64 = 0.9;
const DOUBLED: f64 = 0.5;

/// Share of the memory in use that grows with the batch. An assumption.
const GROWS: f64 = 0.5;

/// Share of the waste that balanced stages recover: low, expected, high. An assumption.
const BALANCED: [f64; 3] = [0.0, 0.25, 0.5];

/// Confidence in balance, overlap, batched requests, and larger batches with memory in use that is known and
/// unknown. Assumptions.
const SURE_BALANCE: f64 = 0.5;
const SURE_OVERLAP: f64 = 0.6;
const SURE_REQUESTS: f64 = 0.8;
const SURE_BATCH: f64 = 0.55;
const SURE_TRIAL: f64 = 0.25;

/// Share of the time without work from which a replica is a standby, which is given back as it is. An
/// assumption.
const STANDBY: f64 = 0.5;

/// Largest share of a service's replicas that is given back. An assumption.
const MAX_RETURNED: f64 = 0.5;

/// Share of the time without work up to which a service always works, and of that time in stretches of minutes
/// from which a job works in stages. Assumptions.
const ALWAYS_WORKS: f64 = 0.1;
const IN_STAGES: f64 = 0.9;

/// Longest interval between readings at which a quiet minute and a wait look different, in seconds. An
/// assumption.
const SEES_STEPS: f64 = 10.0;

/// Utilization from which a GPU works, as the phases define it.
const WORKS: f64 = 0.1;

/// Difference of levels up to which GPUs get one recommendation. An assumption.
const SIMILAR: f64 = 0.1;

/// Utilization from which a GPU is productive and only headroom is left.
const PRODUCTIVE: f64 = 0.7;

/// Utilization from which it is compute-bound and nothing is left.
const COMPUTE_BOUND: f64 = 0.9;

/// Utilization below which a service can take more requests at a time.
const SERVING_FULL: f64 = 0.65;

/// Memory use above which the batch cannot grow.
const MEMORY_FULL: f64 = 0.85;

/// Memory that a larger batch may use; the rest is fragmented.
const MAX_BATCH_MEMORY: f64 = 0.95;

/// GPU time of batched requests relative to now: expected, and at best. An assumption; it needs a trial.
const REQUESTS_BATCHED: [f64; 2] = [0.85, 0.6];

/// Difference between the 10th and the 90th percentile of a steady load, and the fewest points that show
/// it.
const STEADY: f64 = 0.3;
const MIN_POINTS: usize = 60;

/// Difference between the levels of one job's GPUs from which they are out of balance.
const IMBALANCE: f64 = 0.15;

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    action: Action,
    level: f64,
    saving: Saving,
    confidence: f64,
}

#[derive(Clone, Copy)]
enum Action {
    /// Overlap copies with compute.
    Overlap,
    /// Use larger batches.
    Batch,
    /// Batch requests.
    Requests,
    /// Move work between the GPUs of a job.
    Balance,
}

/// Recommends how to raise the load.
pub(crate) fn recommend(
    observed: &[&Gpu],
    units: &[Unit<'_>],
    window: &Window,
    settings: &Settings,
) -> Vec<Recommendation> {
    let findings = observed.iter().copied().filter_map(|gpu| {
        // Of a service, demand changes the load.
        let applies = gpu.lost_underload() >= settings.min_lost
            && (is_steady(gpu) || (serves(gpu) && gpu.quiet_share() < ALWAYS_WORKS));
        let memory = applies.then(|| gpu.memory_use(window.step_seconds))?;
        if memory.is_rising() {
            return None;
        }
        unbalanced(gpu, observed).or_else(|| match gpu.workload {
            Workload::Serving => batch_requests(gpu, observed, units),
            _ => raise_load(gpu, memory),
        })
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        discriminant(&a.action) == discriminant(&b.action)
            && (a.saving.high > 0.0) == (b.saving.high > 0.0)
            && (a.level - b.level).abs() <= SIMILAR
    };
    groups(findings, similar).iter().filter_map(|group| recommend_for(group)).collect()
}

/// Whether the load is steady, as far as it works.
pub(crate) fn is_steady(gpu: &Gpu) -> bool {
    gpu.pattern.is_some_and(|it| it.kind == PatternKind::Steady) || works_steadily(gpu)
}

/// Whether a GPU of a training job waits for the slowest of its GPUs.
pub(crate) fn is_unbalanced(gpu: &Gpu, observed: &[&Gpu]) -> bool {
    unbalanced(gpu, observed).is_some()
}

/// Shares of the bill that a batch doubled so often saves: expected, and at most. Each doubling halves the
/// overhead of a step, at the cost of some more samples, and at most doubles the load.
pub(crate) fn saved_by_batch(gpu: &Gpu, doublings: i32) -> (f64, f64) {
    let lost = gpu.lost_underload();
    let left = 0.5_f64.powi(doublings);
    let most = f64::min(BATCH_MOST * lost * (1.0 - left), DOUBLED * gpu.share(Accounts::busy));
    (f64::min(BATCH_EXPECTED * lost, most), most)
}

/// A GPU of a training job that waits for the slowest of its GPUs.
fn unbalanced<'a>(gpu: &'a Gpu, observed: &[&'a Gpu]) -> Option<Finding<'a>> {
    let level = gpu.accounts.busy().level();
    let alike = observed.iter().filter(|other| {
        let steady = other.pattern.is_some_and(|it| it.kind == PatternKind::Steady);
        steady && other.is_alike(gpu) && other.node() == gpu.node()
    });
    let highest = alike.map(|other| other.accounts.busy().level()).fold(level, f64::max);
    let applies = gpu.workload == Workload::Training && highest - level >= IMBALANCE;
    applies.then(|| Finding {
        gpu,
        action: Action::Balance,
        level,
        // Balanced stages are all at the mean, at most.
        saving: Saving::part(gpu.lost_underload(), BALANCED),
        confidence: SURE_BALANCE * gpu.confidence(),
    })
}

/// Whether a training job has a steady load while it works, with idle time before or after it.
fn works_steadily(gpu: &Gpu) -> bool {
    let activity = &gpu.activity;
    let is_quiet_for_minutes = activity.minutes_seconds >= IN_STAGES * activity.quiet.seconds;
    let sees_steps = activity.interval_seconds.is_some_and(|interval| interval <= SEES_STEPS);
    let trains = gpu.workload == Workload::Training && !gpu.is_bouncing();
    if !trains || !is_quiet_for_minutes || !sees_steps {
        return false;
    }
    let busy: Vec<_> = gpu.utilization.iter().copied().filter(|level| *level >= WORKS).collect();
    let spread = percentile(&busy, 90).zip(percentile(&busy, 10)).map(|(high, low)| high - low);
    busy.len() >= MIN_POINTS && spread.is_some_and(|spread| spread <= STEADY)
}

/// How often a batch can be doubled: about half of the memory in use grows with it.
pub(crate) fn doublings(memory: Memory) -> Option<i32> {
    match memory {
        Memory::InUse(share) | Memory::Pool(share) if share > MEMORY_FULL => None,
        Memory::InUse(share) => {
            let batches = (MAX_BATCH_MEMORY - (1.0 - GROWS) * share) / (GROWS * share).max(0.01);
            Some((batches.log2() as i32).clamp(1, 3))
        }
        // A trial shows whether it fits.
        _ => Some(1),
    }
}

/// Chooses how to raise the load of a training GPU, by its level and its free memory.
fn raise_load(gpu: &Gpu, memory: Memory) -> Option<Finding<'_>> {
    let level = gpu.accounts.busy().level();
    let lost = gpu.lost_underload();
    if gpu.workload != Workload::Training || level >= COMPUTE_BOUND {
        return None;
    }
    let confidence = gpu.confidence();
    if level >= PRODUCTIVE {
        let saving = Saving::from_target_load(lost, level, COMPUTE_BOUND).uncertain();
        let confidence = SURE_OVERLAP * confidence;
        return Some(Finding { gpu, action: Action::Overlap, level, saving, confidence });
    }
    let (expected, most) = saved_by_batch(gpu, doublings(memory)?);
    let saving = Saving::part(1.0, [0.0, expected, most]);
    let confidence = if memory.in_use().is_some() { SURE_BATCH } else { SURE_TRIAL } * confidence;
    Some(Finding { gpu, action: Action::Batch, level, saving, confidence })
}

/// Batches the requests of a service with capacity left. That saves what replicas on instances of their
/// own are then not needed; otherwise it is capacity for more requests.
fn batch_requests<'a>(gpu: &'a Gpu, observed: &[&Gpu], units: &[Unit<'a>]) -> Option<Finding<'a>> {
    let level = gpu.accounts.busy().level();
    // Replicas with about the same load are judged together.
    let replicas = observed.iter().filter(|it| serves(it) && it.is_alike(gpu));
    let levels = replicas.map(|it| it.accounts.busy().level());
    let levels: Vec<_> = levels.filter(|other| (other - level).abs() <= SIMILAR).collect();
    if levels.iter().sum::<f64>() / levels.len() as f64 >= SERVING_FULL {
        return None;
    }
    let single = units.iter().filter(|unit| unit.is_returnable() && unit.gpus.len() == 1);
    let replicas = single.flat_map(|unit| &unit.gpus).filter(|other| other.is_alike(gpu));
    let replicas = replicas.filter(|other| other.quiet_share() < STANDBY);
    let loads: Vec<_> = replicas.filter_map(|other| percentile(&other.utilization, 95)).collect();
    let [expected, high] = REQUESTS_BATCHED.map(|time| {
        let kept = (time * loads.iter().sum::<f64>() / PRODUCTIVE).ceil().max(1.0);
        let share = 1.0 - kept / loads.len() as f64;
        if loads.len() > 1 { share.clamp(0.0, MAX_RETURNED) } else { 0.0 }
    });
    Some(Finding {
        gpu,
        action: Action::Requests,
        level,
        saving: Saving::part(1.0, [0.0, expected, high]),
        confidence: SURE_REQUESTS * gpu.confidence(),
    })
}

/// Recommends an action for GPUs with similar loads.
fn recommend_for(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let mean =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let (level, lost) = (mean(|f| f.level), mean(|f| f.gpu.lost_underload()));
    let mut values =
        evidence([("busy.utilization", level, "1"), ("underload.share_of_bill", lost, "1")]);
    let mut rationale = format!(
        "{} runs at {} while working. This wastes {} of its bill. ",
        subject(group.len()),
        percent(level),
        percent(lost),
    );
    let peaks = group.iter().filter_map(|finding| finding.gpu.memory_peak());
    if let Some((peak, share)) = peaks.reduce(f64::max).zip(first.gpu.memory_share()) {
        values.push(Evidence::new("memory.peak_share", share, "1"));
        rationale += &["Peak memory is ", &gib(peak), " (", &percent(share), "). "].concat();
    }
    let (code, lever, title, action, detail) = match first.action {
        Action::Overlap => (
            "sizing.headroom",
            "overlap",
            "Use the remaining headroom",
            "Overlap copies to the GPU with compute, or try a slightly larger batch.".to_owned(),
            "The GPU is productive: the headroom is at most 10% of its bill.".to_owned(),
        ),
        Action::Batch => (
            "sizing.batch",
            "batch",
            "Increase the batch size",
            "Double the batch size and compare samples per second. Repeat while memory allows, and \
             adjust the learning rate."
                .to_owned(),
            match first.gpu.memory_share() {
                None => "The load is steady: each step is too small. Memory was not recorded, so a trial \
                         shows whether a larger batch fits.",
                Some(_) if first.gpu.memory_pool().is_some() => {
                    "The load is steady: each step is too small. A trial shows whether a larger batch \
                     fits."
                }
                Some(_) => "The load is steady: each step is too small, and memory allows a larger batch.",
            }
            .to_owned(),
        ),
        Action::Requests => (
            "sizing.batch-requests",
            "dynamic_batching",
            "Serve more requests at a time",
            "Let the server wait a few milliseconds to batch requests, use continuous batching, or raise \
             its limit of concurrent requests. Then serve with fewer GPUs."
                .to_owned(),
            if first.saving.high > 0.0 {
                "The service has capacity left, if its latency allows more load.".to_owned()
            } else {
                "The service has capacity for more requests, if its latency allows more load. Without a \
                 replica that can be given back, this saves no money by itself."
                    .to_owned()
            },
        ),
        Action::Balance => (
            "sizing.balance",
            "other",
            "Balance the load of these GPUs",
            "If they are stages of a pipeline, move layers to the GPUs that wait, or use more and smaller \
             micro-batches."
                .to_owned(),
            "Other GPUs of the node are busier: if all have one job, these wait for the slowest.".to_owned(),
        ),
    };
    // Of a service, demand decides how much of the waste is idle.
    let target = match first.action {
        Action::Requests if mean(|f| f.gpu.lost_idle()) > lost => Target::Idle,
        _ => Target::Underload,
    };
    Some(Recommendation {
        title: title.to_owned(),
        action,
        rationale: rationale + &detail,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(|f| f.confidence),
        evidence: values,
        kind: match first.action {
            Action::Requests if first.saving.high <= 0.0 => RecommendationKind::Capacity,
            _ => RecommendationKind::Saving,
        },
        effort: match first.action {
            Action::Batch => Effort::Low,
            Action::Balance => Effort::High,
            _ => Effort::Medium,
        },
        ..Recommendation::new(code, target, lever, group.iter().map(|f| f.gpu))
    })
}
