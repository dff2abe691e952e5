//! Sizing: what to do where a GPU works but is not filled.
//!
//! It holds a level below what it can do, so it gets too little work at a time, or is too large
//! for it. A load that drifts follows demand, and is batched as requests come; one that does not
//! is training, whose batch can grow as far as memory goes. What waits for its input is not
//! judged here: more work at a time would only wait longer.

use phasemeter_facts::{Architecture, MODELS, Model, Offer};
use phasemeter_policy::column::{drift, percentile};
use phasemeter_policy::log;
use phasemeter_policy::words::{decimal, each, gib, percent, usd};
use phasemeter_policy::{
    Gpu, PatternKind, Policy, Recommendation, Recommender, Saving, Target, Window, groups,
};

phasemeter_policy::settings! {
    /// GPUs that lost less than this share of their bill so are left alone.
    least_lost: number = 0.05 in 0.0..=1.0;
    /// GPUs that were observed for less than this many seconds are not judged.
    least_seconds: number = 60.0 in 0.0..=86400.0;
    /// Busy below this, a GPU is compared with smaller ones.
    smaller_below: number = 0.6 in 0.0..=1.0;
}

/// From here on a GPU is productive, and only headroom is left.
const PRODUCTIVE: f64 = 0.7;

/// Memory in use above this leaves no room for a larger batch.
const FULL: f64 = 0.85;

/// A load whose highest sixth is this much above its lowest follows demand.
const DRIFTS: f64 = 1.4;

/// What accumulating gradients saves of what a larger batch would: only the work between steps is
/// spread, each pass stays as small as it is. An assumption; no measurement stands behind it.
const ACCUMULATED: f64 = 0.5;

/// A smaller GPU is taken to be filled up to here, by the 95th percentile of the time.
const MOST_BUSY: f64 = 0.85;

/// And its memory: some is the driver's, and a datasheet counts more than there is.
const MOST_MEMORY: f64 = 0.9;

/// What of the difference in price a smaller GPU saves: less where code does not come near the
/// peaks of either. An assumption.
const MOVED: [f64; 3] = [0.5, 0.8, 1.0];

struct Sizing;

impl Policy for Sizing {
    const NAME: &'static str = "sizing";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds GPUs that are not filled: more work at a time, or a smaller GPU.";
    type Settings = Settings;
}

/// What one means does for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    /// Whether it holds its level.
    steady: bool,
    means: Means,
    level: f64,
    saving: Saving,
    sure: f64,
}

#[derive(Clone, Copy, PartialEq)]
enum Means {
    /// Hide what is left between kernels.
    Overlap,
    /// Larger batches.
    Batch,
    /// Batches of requests.
    Requests,
    /// More passes a step.
    Accumulate,
    /// A smaller GPU, and how busy it would be.
    Smaller { offer: &'static Offer, now: &'static Offer, level: f64 },
}

impl Recommender for Sizing {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let mut findings = Vec::new();
        for gpu in window.seen(settings.least_seconds) {
            let kind = gpu.pattern.map(|pattern| pattern.kind);
            let judged = matches!(kind, Some(PatternKind::Steady | PatternKind::Mixed));
            if judged && gpu.lost_unfilled() >= settings.least_lost {
                let steady = kind == Some(PatternKind::Steady);
                findings.push(fill(gpu, steady));
                findings.extend(smaller(gpu, steady, settings));
            }
        }
        let alike = |a: &Finding<'_>, b: &Finding<'_>| {
            let same = match (a.means, b.means) {
                (Means::Smaller { offer, .. }, Means::Smaller { offer: other, .. }) => {
                    offer == other
                }
                (a, b) => a == b,
            };
            same && a.steady == b.steady && (a.level - b.level).abs() <= 0.1
        };
        groups(findings, alike).iter().filter_map(|group| advise(group)).collect()
    }
}

/// How a GPU can be filled, by its level, how that drifts, and the memory it has left.
fn fill(gpu: &Gpu, steady: bool) -> Finding<'_> {
    let level = gpu.accounts.busy().level();
    let lost = gpu.lost_unfilled();
    let memory = gpu.memory_share();
    // A pattern that is neither says less.
    let mut sure = gpu.certainty() * if steady { 0.7 } else { 0.35 };
    if level >= PRODUCTIVE {
        return Finding {
            gpu,
            steady,
            means: Means::Overlap,
            level,
            saving: Saving::by_filling(lost, level, 1.0),
            sure: 0.5 * sure,
        };
    }
    let Some(share) = memory.filter(|share| *share > 0.0) else {
        log::info(
            &[
                &gpu.id,
                ": its memory was not recorded, so how far a batch can grow, and which smaller \
                 GPU would do, cannot be told",
            ]
            .concat(),
        );
        sure *= 0.6;
        let means = if drifts(gpu) { Means::Requests } else { Means::Batch };
        return Finding {
            gpu,
            steady,
            means,
            level,
            saving: Saving::by_filling(lost, level, 1.0),
            sure,
        };
    };
    if share > FULL {
        let saving = Saving::by_filling(ACCUMULATED * lost, level, 1.0);
        return Finding { gpu, steady, means: Means::Accumulate, level, saving, sure };
    }
    // A batch grows as far as memory goes, and the level with it at most.
    let saving = Saving::by_filling(lost, level, level / share);
    let means = if drifts(gpu) { Means::Requests } else { Means::Batch };
    Finding { gpu, steady, means, level, saving, sure }
}

/// Whether its load follows demand.
fn drifts(gpu: &Gpu) -> bool {
    drift(&gpu.utilization, 6).is_some_and(|(low, high)| high > DRIFTS * low)
}

/// The GPU that is listed lowest of those that could do the same, with the same provider.
fn smaller<'a>(gpu: &'a Gpu, steady: bool, settings: &Settings) -> Option<Finding<'a>> {
    let level = gpu.accounts.busy().level();
    let price = gpu.price.as_ref().filter(|_| level < settings.smaller_below)?;
    let memory = gpu.memory_peak()?;
    let model = Model::of(&gpu.model)?;
    let now = model.lowest(price.provider.as_deref())?;
    let high = percentile(&gpu.utilization, 95)?;
    let (tflops, bandwidth) = (model.tflops()?, model.bandwidth_gb_s?);
    let offers = MODELS.iter().filter_map(|other| {
        // Busy is taken for all that the GPU can do, in arithmetic and in memory.
        let slower = (tflops / other.tflops()?).max(bandwidth / other.bandwidth_gb_s?);
        let fits = high * slower <= MOST_BUSY
            && memory <= MOST_MEMORY * other.memory_gib? * f64::from(1 << 30)
            && other.architecture >= model.architecture.min(Architecture::Ampere);
        if !fits {
            return None;
        }
        let offer = other.lowest(Some(now.provider))?;
        let cheaper = offer.nano_usd_per_gpu_hour < now.nano_usd_per_gpu_hour;
        cheaper.then_some((offer, level * slower))
    });
    let (offer, busy) = offers.min_by_key(|(offer, _)| offer.nano_usd_per_gpu_hour)?;
    let off = 1.0 - offer.nano_usd_per_gpu_hour as f64 / now.nano_usd_per_gpu_hour as f64;
    let saving = Saving::part(off.min(gpu.lost_unfilled()), MOVED);
    let means = Means::Smaller { offer, now, level: busy };
    Some(Finding { gpu, steady, means, level, saving, sure: 0.5 * gpu.certainty() })
}

/// What to do for GPUs that are filled alike.
fn advise(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let mean =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let (level, lost) = (mean(|f| f.level), mean(|f| f.gpu.lost_unfilled()));
    let mut evidence =
        vec![("busy.utilization".to_owned(), level), ("occupancy.share_of_bill".to_owned(), lost)];
    let moves = if first.steady {
        "holds that without bouncing: it lacks work, not data"
    } else {
        "neither holds that nor bounces regularly, so look at a profile first"
    };
    let mut why = format!(
        "{} is {} busy where it works, and {moves}. {} of the bill bought nothing so. ",
        each(group.len()),
        percent(level),
        percent(lost),
    );
    let peaks = group.iter().filter_map(|finding| finding.gpu.memory_peak());
    if let Some((peak, share)) = peaks.reduce(f64::max).zip(first.gpu.memory_share()) {
        evidence.push(("memory.peak_share".to_owned(), share));
        why +=
            &["At most ", &gib(peak), " of memory, ", &percent(share), ", were in use. "].concat();
    }
    let (code, lever, title, action, also) = match first.means {
        Means::Overlap => (
            "sizing.headroom",
            "overlap",
            "Some headroom is left",
            "Overlap copies to the GPU with computing, or try a slightly larger batch.".to_owned(),
            "That is productive; what is left is headroom, a tenth of the bill at most.".to_owned(),
        ),
        Means::Batch => (
            "sizing.batch",
            "batch",
            "Give it more work at a time",
            "Double the batch and compare samples a second, then again, while memory allows; \
             adjust the learning rate with it."
                .to_owned(),
            if first.gpu.memory.is_empty() {
                "Whether memory has room for more was not recorded.".to_owned()
            } else {
                "Memory has room for a larger batch.".to_owned()
            },
        ),
        Means::Requests => {
            let (low, high) = drift(&first.gpu.utilization, 6)?;
            evidence.push(("drift.low".to_owned(), low));
            evidence.push(("drift.high".to_owned(), high));
            (
                "sizing.batch-requests",
                "dynamic_batching",
                "Batch requests as they come",
                "Let the server wait a few milliseconds to batch requests, or use continuous \
                 batching, and serve with fewer GPUs."
                    .to_owned(),
                format!(
                    "Its level drifts between {} and {}, as a load that follows demand does.",
                    percent(low),
                    percent(high)
                ),
            )
        }
        Means::Accumulate => (
            "sizing.accumulate",
            "grad_accumulation",
            "Accumulate gradients over several passes",
            "Step the optimizer every two to four passes, so that less time goes between them."
                .to_owned(),
            "Memory has no room for a larger batch.".to_owned(),
        ),
        Means::Smaller { offer, now, level: busy } => {
            evidence.push(("smaller.utilization".to_owned(), busy));
            evidence.push((
                "smaller.usd_per_hour".to_owned(),
                offer.nano_usd_per_gpu_hour as f64 / 1e9,
            ));
            evidence.push(("now.usd_per_hour".to_owned(), now.nano_usd_per_gpu_hour as f64 / 1e9));
            (
                "sizing.smaller",
                "smaller_gpu",
                "A smaller GPU would do",
                format!(
                    "Try it on {} ({} in {} of {}), and compare what a unit of work costs.",
                    offer.model, offer.instance_type, offer.region, offer.provider
                ),
                format!(
                    "By its peaks, {} would be {} busy with it. It is listed at {} a GPU-hour, \
                     where this one is listed at {} ({}, lowest regions, {}): {} times less.",
                    offer.model,
                    percent(busy),
                    usd(offer.nano_usd_per_gpu_hour),
                    usd(now.nano_usd_per_gpu_hour),
                    offer.provider,
                    offer.day,
                    decimal(
                        now.nano_usd_per_gpu_hour as f64 / offer.nano_usd_per_gpu_hour as f64,
                        1
                    ),
                ),
            )
        }
    };
    Some(Recommendation {
        code: code.to_owned(),
        target: Target::Occupancy,
        lever: lever.to_owned(),
        title: title.to_owned(),
        action,
        rationale: why + &also,
        saving: Saving::together(group.iter().map(|finding| (finding.gpu, finding.saving))),
        confidence: mean(|f| f.sure),
        evidence,
        gpus: group.iter().map(|finding| finding.gpu.id.clone()).collect(),
    })
}

phasemeter_policy::recommender!(Sizing);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};

    use super::*;

    fn advice(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Sizing::recommend(&Settings::default(), &window(gpus))
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|advice| advice.lever.as_str()).collect()
    }

    #[test]
    fn half_busy_is_advised_only_where_it_is_steady() {
        assert!(advice(vec![bouncing(3_600, 40, 0.5)]).is_empty());
        let found = advice(vec![with_memory(steady(3_600, 0.5), 33.0)]);
        assert_eq!(levers(&found), ["batch"]);
        assert!((found[0].saving.expected - 2.0 / 7.0).abs() < 1e-3, "{:?}", found[0].saving);
    }

    #[test]
    fn memory_ranks_the_means_and_bounds_the_promise() {
        let roomy = advice(vec![with_memory(steady(3_600, 0.5), 33.0)]);
        let tight = advice(vec![with_memory(steady(3_600, 0.5), 60.0)]);
        let full = advice(vec![with_memory(steady(3_600, 0.5), 75.0)]);
        assert_eq!((levers(&tight), levers(&full)), (vec!["batch"], vec!["grad_accumulation"]));
        assert!(tight[0].saving.high < roomy[0].saving.high);
        // Without the column it is not said to have room.
        let unknown = advice(vec![steady(3_600, 0.5)]);
        assert!(unknown[0].rationale.contains("not recorded"));
        assert!(unknown[0].confidence < roomy[0].confidence);
    }

    #[test]
    fn a_load_that_follows_demand_is_batched_as_it_comes() {
        let wave =
            gpu(PatternKind::Steady, 7_200, |second| 0.25 + 0.15 * ((second / 1_200) as f64 / 5.0));
        assert_eq!(levers(&advice(vec![with_memory(wave, 44.0)])), ["dynamic_batching"]);
    }

    #[test]
    fn eighty_per_cent_has_headroom_and_no_more() {
        let found = advice(vec![with_memory(steady(3_600, 0.8), 60.0)]);
        assert_eq!(levers(&found), ["overlap"]);
        assert!(found[0].saving.high <= 0.1 && found[0].confidence < 0.5);
        assert!(advice(vec![steady(3_600, 0.97)]).is_empty());
    }

    #[test]
    fn a_smaller_gpu_must_fit_and_be_listed_lower() {
        let mut over = with_memory(steady(3_600, 0.15), 12.0);
        over.model = "NVIDIA A100-SXM4-80GB".to_owned();
        let found = advice(vec![over.clone()]);
        assert_eq!(levers(&found), ["batch", "smaller_gpu"]);
        assert!(found[1].rationale.contains("listed at"), "{}", found[1].rationale);
        let large = Gpu { memory: vec![70e9; over.memory.len()], ..over.clone() };
        assert!(!levers(&advice(vec![large])).contains(&"smaller_gpu"));
        let silent = Gpu { memory: Vec::new(), ..over };
        assert!(!levers(&advice(vec![silent])).contains(&"smaller_gpu"));
    }

    #[test]
    fn what_was_hardly_seen_is_not_judged() {
        assert!(advice(vec![steady(50, 0.5)]).is_empty());
    }
}
