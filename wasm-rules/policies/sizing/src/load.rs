//! More work for a GPU of a training job, or the same in less time: larger batches and overlap.
//!
//! Must not depend on other GPUs than those in use, or their prices.

use std::mem::discriminant;

use phasemeter_policy::format::{gib, percent, subject};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, Memory, Recommendation, Saving, Target, Window, Workload,
    evidence, groups,
};

use crate::Settings;
use crate::balance::waits_for_others;
use crate::pattern::is_steady;

/// Share of the waste that a larger batch saves: expected, and at most, before each doubling halves it; and the
/// share of the time with work. Assumptions; the last is a doubling of the load.
const BATCH_EXPECTED: f64 = 0.4;
const BATCH_MOST: f64 = 0.9;
const DOUBLED: f64 = 0.5;

/// Share of the memory in use that grows with the batch. An assumption.
const GROWS: f64 = 0.5;

/// Confidence in overlap, and in larger batches with memory in use that is known and unknown.
/// Assumptions.
const SURE_OVERLAP: f64 = 0.6;
const SURE_BATCH: f64 = 0.55;
const SURE_TRIAL: f64 = 0.25;

/// Difference of levels up to which GPUs get one recommendation. An assumption.
const SIMILAR: f64 = 0.1;

/// Utilization from which a GPU is productive and only headroom is left.
const PRODUCTIVE: f64 = 0.7;

/// Utilization from which it is compute-bound and nothing is left.
const COMPUTE_BOUND: f64 = 0.9;

/// Memory use above which the batch cannot grow.
const MEMORY_FULL: f64 = 0.85;

/// Memory that a larger batch may use; the rest is fragmented.
const MAX_BATCH_MEMORY: f64 = 0.95;

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
}

/// Recommends how to raise the load.
pub(crate) fn recommend(
    observed: &[&Gpu],
    window: &Window,
    settings: &Settings,
) -> Vec<Recommendation> {
    let findings = observed.iter().copied().filter_map(|gpu| {
        let applies = gpu.lost_underload() >= settings.min_lost && is_steady(gpu);
        let memory = applies.then(|| gpu.memory_use(window.step_seconds))?;
        if memory.is_rising() {
            return None;
        }
        if waits_for_others(gpu, observed, window) {
            return None;
        }
        raise_load(gpu, memory)
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        discriminant(&a.action) == discriminant(&b.action) && (a.level - b.level).abs() <= SIMILAR
    };
    groups(findings, similar).iter().filter_map(|group| recommend_for(group)).collect()
}

/// Shares of the bill that a batch doubled so often saves: expected, and at most. Each doubling halves the
/// overhead of a step, at the cost of some more samples, and at most doubles the load.
pub(crate) fn saved_by_batch(gpu: &Gpu, doublings: i32) -> (f64, f64) {
    let lost = gpu.lost_underload();
    let left = 0.5_f64.powi(doublings);
    let most = f64::min(BATCH_MOST * lost * (1.0 - left), DOUBLED * gpu.share(Accounts::busy));
    (f64::min(BATCH_EXPECTED * lost, most), most)
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
                None => "A steady part load most likely means small steps. Memory was not recorded, so a trial \
                         shows whether a larger batch fits.",
                Some(_) if first.gpu.memory_pool().is_some() => {
                    "A steady part load most likely means small steps; a trial shows that, and whether a larger \
                     batch fits."
                }
                Some(_) => "A steady part load most likely means small steps, and memory allows a larger batch: a \
                            trial shows whether it helps.",
            }
            .to_owned(),
        ),
    };
    Some(Recommendation {
        title: title.to_owned(),
        action,
        rationale: rationale + &detail,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(|f| f.confidence),
        evidence: values,
        effort: match first.action {
            Action::Batch => Effort::Low,
            _ => Effort::Medium,
        },
        ..Recommendation::new(code, Target::Underload, lever, group.iter().map(|f| f.gpu))
    })
}
