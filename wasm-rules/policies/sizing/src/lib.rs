//! Recommends larger batches or smaller GPUs for underloaded GPUs.
//!
//! Such a GPU is busy without interruption, but below full load: it gets too little work at a time,
//! or is too large. A drifting load follows demand, so its requests can be batched; other loads are
//! training, whose batch can grow until memory is full. Bouncing GPUs are skipped, because they wait
//! for input.

use phasemeter_policy::column::{drift, percentile};
use phasemeter_policy::format::{decimal, gib, percent, subject, usd};
use phasemeter_policy::log;
use phasemeter_policy::{
    Gpu, PatternKind, Policy, Recommendation, Recommender, Saving, Target, Window, groups,
};
use phasemeter_specs::{Architecture, MODELS, Model, Offer};

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to underload.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
    /// Utilization below which a smaller GPU is considered.
    smaller_below: number = 0.6 in 0.0..=1.0;
}

/// Utilization from which a GPU is productive and only headroom is left.
const PRODUCTIVE: f64 = 0.7;

/// Memory use above which the batch cannot grow.
const MEMORY_FULL: f64 = 0.85;

/// Ratio of the highest to the lowest sixth from which a load is serving: it follows demand.
const SERVING_DRIFT: f64 = 1.4;

/// Saving of gradient accumulation relative to a larger batch: each pass stays as small, only the
/// work between steps is spread. An assumption, not a measurement.
const ACCUMULATION_SHARE: f64 = 0.5;

/// Maximum 95th percentile of utilization on a smaller GPU.
const MAX_UTILIZATION: f64 = 0.85;

/// Maximum memory use on a smaller GPU, relative to the datasheet: drivers reserve a part.
const MAX_MEMORY: f64 = 0.9;

/// Share of the price difference that a smaller GPU saves: low, expected, high. Less if the code does
/// not scale with the peaks. An assumption.
const DIFFERENCE_SAVED: [f64; 3] = [0.5, 0.8, 1.0];

struct Sizing;

impl Policy for Sizing {
    const NAME: &'static str = "sizing";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds underloaded GPUs, and recommends larger batches or smaller GPUs.";
    type Settings = Settings;
}

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    /// Whether the pattern is steady.
    steady: bool,
    action: Action,
    level: f64,
    saving: Saving,
    confidence: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    /// Overlap copies with compute.
    Overlap,
    /// Use larger batches.
    Batch,
    /// Batch requests dynamically.
    Requests,
    /// Accumulate gradients.
    Accumulate,
    /// Use a smaller GPU, which would run at utilization `level`.
    Smaller { offer: &'static Offer, current: &'static Offer, level: f64 },
}

impl Recommender for Sizing {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let mut findings = Vec::new();
        for gpu in window.observed_gpus(settings.min_seconds) {
            let kind = gpu.pattern.map(|pattern| pattern.kind);
            let is_underloaded = matches!(kind, Some(PatternKind::Steady | PatternKind::Mixed));
            if is_underloaded && gpu.lost_underload() >= settings.min_lost {
                let steady = kind == Some(PatternKind::Steady);
                findings.push(raise_load(gpu, steady));
                findings.extend(smaller(gpu, steady, settings));
            }
        }
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            let same = match (a.action, b.action) {
                (Action::Smaller { offer, .. }, Action::Smaller { offer: other, .. }) => {
                    offer == other
                }
                (a, b) => a == b,
            };
            same && a.steady == b.steady && (a.level - b.level).abs() <= 0.1
        };
        groups(findings, similar).iter().filter_map(|group| recommend(group)).collect()
    }
}

/// Chooses how to raise a GPU's load, by its level, its drift and its free memory.
fn raise_load(gpu: &Gpu, steady: bool) -> Finding<'_> {
    let level = gpu.accounts.busy().level();
    let lost = gpu.lost_underload();
    let memory = gpu.memory_share();
    // A mixed pattern is less conclusive.
    let mut confidence = gpu.confidence() * if steady { 0.7 } else { 0.35 };
    if level >= PRODUCTIVE {
        return Finding {
            gpu,
            steady,
            action: Action::Overlap,
            level,
            saving: Saving::from_target_load(lost, level, 1.0),
            confidence: 0.5 * confidence,
        };
    }
    let Some(share) = memory.filter(|share| *share > 0.0) else {
        log::info(
            &[
                "memory of ",
                &gpu.name(),
                " was not recorded, so the maximum batch is unknown, and so is whether a smaller \
                 GPU suffices",
            ]
            .concat(),
        );
        confidence *= 0.6;
        let action = if is_serving(gpu) { Action::Requests } else { Action::Batch };
        return Finding {
            gpu,
            steady,
            action,
            level,
            saving: Saving::from_target_load(lost, level, 1.0),
            confidence,
        };
    };
    if share > MEMORY_FULL {
        let saving = Saving::from_target_load(ACCUMULATION_SHARE * lost, level, 1.0);
        let action = Action::Accumulate;
        return Finding { gpu, steady, action, level, saving, confidence };
    }
    // The level rises at most in proportion to the batch, which memory limits.
    let saving = Saving::from_target_load(lost, level, level / share);
    let action = if is_serving(gpu) { Action::Requests } else { Action::Batch };
    Finding { gpu, steady, action, level, saving, confidence }
}

/// Returns whether the load follows demand.
fn is_serving(gpu: &Gpu) -> bool {
    drift(&gpu.utilization, 6).is_some_and(|(low, high)| high > SERVING_DRIFT * low)
}

/// Finds the cheapest sufficient GPU of the same provider.
fn smaller<'a>(gpu: &'a Gpu, steady: bool, settings: &Settings) -> Option<Finding<'a>> {
    let level = gpu.accounts.busy().level();
    let price = gpu.price.as_ref().filter(|_| level < settings.smaller_below)?;
    let memory = gpu.memory_peak()?;
    let model = Model::of(&gpu.model)?;
    let current = model.lowest(price.provider.as_deref())?;
    let high = percentile(&gpu.utilization, 95)?;
    let (tflops, bandwidth) = (model.tflops()?, model.bandwidth_gb_s?);
    let offers = MODELS.iter().filter_map(|other| {
        // Assumes that utilization scales with both compute and bandwidth.
        let slower = (tflops / other.tflops()?).max(bandwidth / other.bandwidth_gb_s?);
        let fits = high * slower <= MAX_UTILIZATION
            && memory <= MAX_MEMORY * other.memory_gib? * f64::from(1 << 30)
            && other.architecture >= model.architecture.min(Architecture::Ampere);
        if !fits {
            return None;
        }
        let offer = other.lowest(Some(current.provider))?;
        let cheaper = offer.nano_usd_per_gpu_hour < current.nano_usd_per_gpu_hour;
        cheaper.then_some((offer, level * slower))
    });
    let (offer, busy) = offers.min_by_key(|(offer, _)| offer.nano_usd_per_gpu_hour)?;
    let discount = 1.0 - offer.nano_usd_per_gpu_hour as f64 / current.nano_usd_per_gpu_hour as f64;
    let saving = Saving::part(discount.min(gpu.lost_underload()), DIFFERENCE_SAVED);
    let action = Action::Smaller { offer, current, level: busy };
    Some(Finding { gpu, steady, action, level, saving, confidence: 0.5 * gpu.confidence() })
}

/// Recommends an action for GPUs with similar loads.
fn recommend(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let mean =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let (level, lost) = (mean(|f| f.level), mean(|f| f.gpu.lost_underload()));
    let mut evidence =
        vec![("busy.utilization".to_owned(), level), ("underload.share_of_bill".to_owned(), lost)];
    let pattern = if first.steady {
        "The load is steady: the GPU lacks work, not data"
    } else {
        "The load is neither steady nor bouncing: profile it first"
    };
    let mut rationale = format!(
        "{} runs at {} utilization while working. This wastes {} of the bill. {pattern}. ",
        subject(group.len()),
        percent(level),
        percent(lost),
    );
    let peaks = group.iter().filter_map(|finding| finding.gpu.memory_peak());
    if let Some((peak, share)) = peaks.reduce(f64::max).zip(first.gpu.memory_share()) {
        evidence.push(("memory.peak_share".to_owned(), share));
        rationale += &["Peak memory is ", &gib(peak), " (", &percent(share), "). "].concat();
    }
    let (code, lever, title, action, detail) = match first.action {
        Action::Overlap => (
            "sizing.headroom",
            "overlap",
            "Use the remaining headroom",
            "Overlap copies to the GPU with compute, or try a slightly larger batch.".to_owned(),
            "The GPU is productive: the headroom is at most 10% of the bill.".to_owned(),
        ),
        Action::Batch => (
            "sizing.batch",
            "batch",
            "Increase the batch size",
            "Double the batch size and compare samples per second. Repeat while memory allows, and \
             adjust the learning rate."
                .to_owned(),
            if first.gpu.memory.is_empty() {
                "Memory was not recorded, so the maximum batch is unknown.".to_owned()
            } else {
                "Memory allows a larger batch.".to_owned()
            },
        ),
        Action::Requests => {
            let (low, high) = drift(&first.gpu.utilization, 6)?;
            evidence.push(("drift.low".to_owned(), low));
            evidence.push(("drift.high".to_owned(), high));
            (
                "sizing.batch-requests",
                "dynamic_batching",
                "Batch requests dynamically",
                "Let the server wait a few milliseconds to batch requests, or use continuous \
                 batching. Then serve with fewer GPUs."
                    .to_owned(),
                format!(
                    "The load drifts between {} and {}, so it follows demand.",
                    percent(low),
                    percent(high)
                ),
            )
        }
        Action::Accumulate => (
            "sizing.accumulate",
            "grad_accumulation",
            "Accumulate gradients over several passes",
            "Step the optimizer every two to four passes, so that less time is spent between them."
                .to_owned(),
            "Memory does not allow a larger batch.".to_owned(),
        ),
        Action::Smaller { offer, current, level: busy } => {
            evidence.push(("smaller.utilization".to_owned(), busy));
            evidence.push((
                "smaller.usd_per_hour".to_owned(),
                offer.nano_usd_per_gpu_hour as f64 / 1e9,
            ));
            evidence.push((
                "current.usd_per_hour".to_owned(),
                current.nano_usd_per_gpu_hour as f64 / 1e9,
            ));
            (
                "sizing.smaller",
                "smaller_gpu",
                "Use a smaller GPU",
                format!(
                    "Try {} ({}, {} {}) and compare the cost per unit of work.",
                    offer.model, offer.instance_type, offer.provider, offer.region
                ),
                format!(
                    "By its peaks, {} would run this load at {}. It is listed at {} per GPU-hour and \
                     this model at {}, {}× as much ({}, lowest regions, {}).",
                    offer.model,
                    percent(busy),
                    usd(offer.nano_usd_per_gpu_hour),
                    usd(current.nano_usd_per_gpu_hour),
                    decimal(
                        current.nano_usd_per_gpu_hour as f64 / offer.nano_usd_per_gpu_hour as f64,
                        1
                    ),
                    offer.provider,
                    offer.as_of,
                ),
            )
        }
    };
    Some(Recommendation {
        code: code.to_owned(),
        target: Target::Underload,
        lever: lever.to_owned(),
        title: title.to_owned(),
        action,
        rationale: rationale + &detail,
        saving: Saving::combined(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(|f| f.confidence),
        evidence,
        gpus: group.iter().map(|finding| finding.gpu.id.clone()).collect(),
    })
}

phasemeter_policy::recommender!(Sizing);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Sizing::recommend(&Settings::default(), &window(gpus))
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    #[test]
    fn only_steady_load_is_underload() {
        assert!(recommendations(vec![bouncing(3_600, 40, 0.5)]).is_empty());
        let found = recommendations(vec![with_memory(steady(3_600, 0.5), 33.0)]);
        assert_eq!(levers(&found), ["batch"]);
        assert!((found[0].saving.expected - 2.0 / 7.0).abs() < 1e-3, "{:?}", found[0].saving);
    }

    #[test]
    fn memory_selects_the_action_and_bounds_the_saving() {
        let roomy = recommendations(vec![with_memory(steady(3_600, 0.5), 33.0)]);
        let tight = recommendations(vec![with_memory(steady(3_600, 0.5), 60.0)]);
        let full = recommendations(vec![with_memory(steady(3_600, 0.5), 75.0)]);
        assert_eq!((levers(&tight), levers(&full)), (vec!["batch"], vec!["grad_accumulation"]));
        assert!(tight[0].saving.high < roomy[0].saving.high);
        let unknown = recommendations(vec![steady(3_600, 0.5)]);
        assert!(unknown[0].rationale.contains("not recorded"));
        assert!(unknown[0].confidence < roomy[0].confidence);
    }

    #[test]
    fn drifting_load_gets_dynamic_batching() {
        let wave =
            gpu(PatternKind::Steady, 7_200, |second| 0.25 + 0.15 * ((second / 1_200) as f64 / 5.0));
        assert_eq!(levers(&recommendations(vec![with_memory(wave, 44.0)])), ["dynamic_batching"]);
    }

    #[test]
    fn productive_load_has_headroom_only() {
        let found = recommendations(vec![with_memory(steady(3_600, 0.8), 60.0)]);
        assert_eq!(levers(&found), ["overlap"]);
        assert!(found[0].saving.high <= 0.1 && found[0].confidence < 0.5);
        assert!(recommendations(vec![steady(3_600, 0.97)]).is_empty());
    }

    #[test]
    fn smaller_gpu_must_fit_and_cost_less() {
        let mut oversized = with_memory(steady(3_600, 0.15), 12.0);
        oversized.model = "NVIDIA A100-SXM4-80GB".to_owned();
        let found = recommendations(vec![oversized.clone()]);
        assert_eq!(levers(&found), ["batch", "smaller_gpu"]);
        assert!(found[1].rationale.contains("listed at"), "{}", found[1].rationale);
        let large = Gpu { memory: vec![70e9; oversized.memory.len()], ..oversized.clone() };
        assert!(!levers(&recommendations(vec![large])).contains(&"smaller_gpu"));
        let unrecorded = Gpu { memory: Vec::new(), ..oversized };
        assert!(!levers(&recommendations(vec![unrecorded])).contains(&"smaller_gpu"));
    }

    #[test]
    fn short_windows_are_skipped() {
        assert!(recommendations(vec![steady(50, 0.5)]).is_empty());
    }
}
