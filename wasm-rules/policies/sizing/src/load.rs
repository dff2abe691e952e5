//! More work for a GPU of a training job, or the same in less time: larger batches and overlap.

use phasemeter_policy::format::{decimal, gib, percent, subject};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, Memory, Recommendation, Saving, Target, Thresholds, Window,
    Workload, evidence, groups, mean,
};

use phasemeter_diagnoses::{DOUBLING, FEW_SMS, FREE_MEMORY, SIMILAR, SMALLEST, confidence, share};

use crate::balance::{are_of_one_job, waits_for_others};
use crate::{Settings, is_steady};

/// Share of the waste that a larger batch saves, expected, before each doubling halves it. An
/// assumption.
const BATCH_EXPECTED: f64 = 0.4;

/// Share of the memory in use that grows with the batch. An assumption.
const GROWS: f64 = 0.5;

/// Memory use above which the batch cannot grow.
const MEMORY_FULL: f64 = 0.85;

/// Up to three doublings, of which the last adds little. An assumption.
const DOUBLINGS: [f64; 3] = [8.0, 4.0, DOUBLING];

/// Growth of a batch below which it is not worth a trial. An assumption.
const LEAST_GROWTH: f64 = 1.1;

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    action: Action,
    level: f64,
    saving: Saving,
    confidence: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    /// Overlap copies with compute, or use a larger batch if the memory of all its GPUs `has_room`.
    Overlap { has_room: bool },
    /// Use batches larger by this factor.
    Batch(f64),
}

/// Recommends how to raise the load.
pub(crate) fn recommend(
    observed: &[&Gpu],
    window: &Window,
    settings: &Settings,
) -> Vec<Recommendation> {
    let bounds = window.thresholds();
    let full: Vec<_> = observed.iter().copied().filter(|gpu| has_full_memory(gpu)).collect();
    let findings = observed.iter().copied().filter_map(|gpu| {
        let applies = gpu.lost_underload() >= settings.min_lost && is_steady(gpu, window);
        let memory = applies.then(|| gpu.memory_use(window.step_seconds))?;
        if memory.is_rising() || waits_for_others(gpu, observed, window) {
            return None;
        }
        // The batch of a job is limited by the fullest of its GPUs.
        let is_limited = full.iter().any(|other| are_of_one_job(gpu, other, window));
        raise_load(gpu, memory, is_limited, bounds)
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        let is_same = match (a.action, b.action) {
            (Action::Batch(a), Action::Batch(b)) => (a < DOUBLING) == (b < DOUBLING),
            (a, b) => a == b,
        };
        is_same && (a.level - b.level).abs() <= SIMILAR
    };
    groups(findings, similar).iter().filter_map(|group| recommend_for(group)).collect()
}

/// Shares of the bill that a batch larger by this factor saves: expected, and at most. Each doubling halves the
/// overhead of a step, at the cost of some more samples, and at most doubles the load.
pub(crate) fn saved_by_batch(gpu: &Gpu, growth: f64) -> (f64, f64) {
    let lost = gpu.lost_underload();
    let less = 1.0 - 1.0 / growth;
    let most = f64::min(share::NEARLY_ALL * lost * less, gpu.share(Accounts::busy) / DOUBLING);
    (f64::min(BATCH_EXPECTED * lost * (DOUBLING * less).min(1.0), most), most)
}

/// The factor by which a batch can grow, in doublings if it can: about half of the memory in use grows with it.
pub(crate) fn growth(memory: Memory) -> Option<f64> {
    match memory {
        Memory::InUse(share) | Memory::Pool(share) if share > MEMORY_FULL => None,
        Memory::InUse(share) => {
            let most = (1.0 - FREE_MEMORY - (1.0 - GROWS) * share) / (GROWS * share).max(SMALLEST);
            let doubled = DOUBLINGS.into_iter().find(|growth| most >= *growth);
            Some(doubled.unwrap_or(most)).filter(|growth| *growth >= LEAST_GROWTH)
        }
        // A trial shows whether it fits.
        _ => Some(DOUBLING),
    }
}

fn has_full_memory(gpu: &Gpu) -> bool {
    gpu.memory_share().is_some_and(|share| share > MEMORY_FULL)
}

/// Chooses how to raise the load of a training GPU, by its level and its free memory.
fn raise_load(
    gpu: &Gpu,
    memory: Memory,
    is_limited: bool,
    bounds: Thresholds,
) -> Option<Finding<'_>> {
    let level = gpu.accounts.busy().level();
    let lost = gpu.lost_underload();
    if gpu.workload != Workload::Training || level >= bounds.compute_bound {
        return None;
    }
    let confidence = gpu.confidence();
    if level >= bounds.productive {
        // If most SMs are idle, kernels are too small, or the GPU is too large.
        if gpu.sensors.sm_activity.is_some_and(|activity| activity < FEW_SMS) {
            return None;
        }
        let saving =
            Saving::from_target_load(lost, level, bounds.compute_bound, bounds).uncertain();
        let confidence = confidence::PROBABLE * confidence;
        let action = Action::Overlap { has_room: !is_limited };
        return Some(Finding { gpu, action, level, saving, confidence });
    }
    let growth = growth(memory).filter(|_| !is_limited)?;
    let (expected, most) = saved_by_batch(gpu, growth);
    let saving = Saving::part(1.0, [0.0, expected, most]);
    let confidence =
        if memory.in_use().is_some() { confidence::EVEN } else { confidence::UNLIKELY }
            * confidence;
    Some(Finding { gpu, action: Action::Batch(growth), level, saving, confidence })
}

/// Recommends an action for GPUs with similar loads.
fn recommend_for(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let gpus = || group.iter().map(|finding| finding.gpu);
    let (level, lost) = (mean(group, |finding| finding.level), mean(gpus(), Gpu::lost_underload));
    let mut values =
        evidence([("busy.utilization", level, "1"), ("underload.share_of_bill", lost, "1")]);
    let mut rationale = format!(
        "{} runs at {} while working. This wastes {} of its bill. ",
        subject(group.len()),
        percent(level),
        percent(lost),
    );
    let peaks = gpus().filter_map(Gpu::memory_peak);
    if let Some((peak, share)) = peaks.reduce(f64::max).zip(first.gpu.memory_share()) {
        values.push(Evidence::new("memory.peak_share", share, "1"));
        rationale += &["Peak memory is ", &gib(peak), " (", &percent(share), "). "].concat();
    }
    let (code, lever, title, action, detail) = match first.action {
        Action::Overlap { has_room } => (
            "sizing.headroom",
            "overlap",
            "Use the remaining headroom",
            match has_room {
                true => "Overlap copies to the GPU with compute, or try a slightly larger batch.",
                false => "Overlap copies to the GPU with compute.",
            }
            .to_owned(),
            "The GPU is productive: the headroom is at most 10% of its bill.".to_owned(),
        ),
        Action::Batch(growth) => (
            "sizing.batch",
            "batch",
            "Increase the batch size",
            if growth < DOUBLING {
                format!(
                    "Use a batch about {} times as large, which memory allows, compare samples per second, and adjust \
                     the learning rate.",
                    decimal(growth, 1),
                )
            } else {
                format!(
                    "Double the batch size; if samples per second do not rise, the steps wait: see whether the loader has \
                     too few workers, with a profile of some steps. Else repeat while {} of the memory stays free, and adjust \
                     the learning rate.",
                    percent(FREE_MEMORY),
                )
            },
            "A steady part load most likely means small steps: a trial shows whether a larger batch fits and helps."
                .to_owned(),
        ),
    };
    Some(Recommendation {
        title: title.to_owned(),
        action,
        rationale: rationale + &detail,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(group, |f| f.confidence),
        evidence: values,
        effort: match first.action {
            Action::Batch(_) => Effort::Low,
            Action::Overlap { .. } => Effort::Medium,
        },
        ..Recommendation::new(code, Target::Underload, lever, gpus())
    })
}
