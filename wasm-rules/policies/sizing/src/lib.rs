//! Recommends more work per GPU, or fewer or other GPUs, for underloaded and overloaded ones.
//!
//! The kind of workload decides: training gets larger batches, a service larger batches of requests or
//! fewer replicas. Of several GPUs of one training job at different levels, the slower ones wait for
//! the others. Filling is at most one doubling. Must be tried, so the low saving is 0.

mod bandwidth;
mod services;

use std::mem::discriminant;

use phasemeter_policy::column::percentile;
use phasemeter_policy::format::{decimal, gib, percent, subject, usd};
use phasemeter_policy::{
    Accounts, Effort, Evidence, Gpu, Memory, Offer, PatternKind, Plan, Policy, Recommendation,
    RecommendationKind, Recommender, Response, Saving, Target, Window, Workload, evidence, groups,
};
use phasemeter_specs::{Architecture, Model, Unit, units};

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to underload.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 900.0 in 0.0..=86400.0;
    /// Minimum observed time for another GPU or number of replicas, in seconds.
    min_size_seconds: number = 3600.0 in 0.0..=604800.0;
    /// Utilization below which a smaller GPU is considered.
    smaller_below: number = 0.6 in 0.0..=1.0;
    /// Utilization that a replica of a service should have.
    serving_target: number = 0.6 in 0.1..=0.9;
}

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

/// Maximum 95th percentile of utilization on a smaller GPU.
const MAX_UTILIZATION: f64 = 0.85;

/// Maximum memory use on a smaller GPU, relative to the datasheet: drivers reserve a part.
const MAX_MEMORY: f64 = 0.9;

/// Share of the price difference that a smaller GPU saves: low, expected, high. Less if the code does
/// not scale with the peaks. An assumption.
const DIFFERENCE_SAVED: [f64; 3] = [0.0, 0.8, 1.0];

struct Sizing;

impl Policy for Sizing {
    const NAME: &'static str = "sizing";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds GPUs with too little or too much work, and recommends how to change that.";
    type Settings = Settings;
}

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    action: Action<'a>,
    level: f64,
    saving: Saving,
    confidence: f64,
}

#[derive(Clone, Copy)]
enum Action<'a> {
    /// Overlap copies with compute.
    Overlap,
    /// Use larger batches.
    Batch,
    /// Batch requests.
    Requests,
    /// Move work between the GPUs of a job.
    Balance,
    /// Use a smaller GPU, which would run at utilization `level`.
    Smaller { offer: &'a Offer, paid: u64, level: f64 },
}

impl Recommender for Sizing {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let observed = window.observed_gpus(settings.min_seconds);
        let all = units(window);
        let alone = |gpu: &Gpu| {
            let same = |unit: &&Unit<'_>| unit.gpus.iter().any(|other| other.id == gpu.id);
            all.iter().find(same).is_some_and(|unit| unit.is_whole && unit.gpus.len() == 1)
        };
        let mut findings = Vec::new();
        for gpu in observed.iter().copied() {
            let memory = gpu.memory_use(window.step_seconds);
            let is_steady =
                gpu.pattern.is_some_and(|it| it.kind == PatternKind::Steady) || works_steadily(gpu);
            // Of a service, demand changes the load.
            let applies = is_steady || (serves(gpu) && gpu.quiet_share() < 0.1);
            if applies && !memory.is_rising() && gpu.lost_underload() >= settings.min_lost {
                let balance = unbalanced(gpu, &observed);
                let is_balanced = balance.is_none();
                findings.extend(balance.or_else(|| match gpu.workload {
                    Workload::Serving => batch_requests(gpu, &all),
                    _ => raise_load(gpu, memory),
                }));
                if is_balanced && is_steady && alone(gpu) {
                    findings.extend(smaller(gpu, memory, window, settings));
                }
            }
        }
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            let same = match (a.action, b.action) {
                (Action::Smaller { offer, .. }, Action::Smaller { offer: other, .. }) => {
                    std::ptr::eq(offer, other)
                }
                (a, b) => discriminant(&a) == discriminant(&b),
            };
            let kinds_agree = (a.saving.high > 0.0) == (b.saving.high > 0.0);
            same && kinds_agree && (a.level - b.level).abs() <= 0.1
        };
        let groups = groups(findings, similar);
        let mut found: Vec<_> = groups.iter().filter_map(|group| recommend(group)).collect();
        found.extend(services::fewer(&all, window, settings));
        found.extend(services::overloaded(&observed, settings));
        found.extend(bandwidth::recommend(&observed));
        found.into()
    }
}

fn hourly(offer: &Offer) -> u64 {
    offer.price.nano_usd_per_gpu_hour
}

fn serves(gpu: &Gpu) -> bool {
    gpu.workload == Workload::Serving
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
        saving: Saving::part(gpu.lost_underload(), [0.0, 0.25, 0.5]),
        confidence: 0.5 * gpu.confidence(),
    })
}

/// Whether a training job has a steady load while it works, with idle time before or after it.
fn works_steadily(gpu: &Gpu) -> bool {
    let activity = &gpu.activity;
    let is_quiet_for_minutes = activity.minutes_seconds >= 0.9 * activity.quiet.seconds;
    if gpu.workload != Workload::Training || gpu.is_bouncing() || !is_quiet_for_minutes {
        return false;
    }
    let busy: Vec<_> = gpu.utilization.iter().copied().filter(|level| *level >= 0.1).collect();
    let spread = percentile(&busy, 90).zip(percentile(&busy, 10)).map(|(high, low)| high - low);
    busy.len() >= MIN_POINTS && spread.is_some_and(|spread| spread <= STEADY)
}

/// How often a batch can be doubled: about half of the memory in use grows with it.
fn doublings(memory: Memory) -> Option<i32> {
    match memory {
        Memory::InUse(share) if share > MEMORY_FULL => None,
        Memory::InUse(share) => {
            let batches = (MAX_BATCH_MEMORY - 0.5 * share) / (0.5 * share).max(0.01);
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
        let confidence = 0.6 * confidence;
        return Some(Finding { gpu, action: Action::Overlap, level, saving, confidence });
    }
    // Each doubling halves the overhead of a step, at the cost of some more samples, and at most doubles
    // the load.
    let left = 0.5_f64.powi(doublings(memory)?);
    let most = f64::min(0.9 * lost * (1.0 - left), 0.5 * gpu.share(Accounts::busy));
    let saving = Saving::part(1.0, [0.0, f64::min(0.4 * lost, most), most]);
    let confidence = if memory.in_use().is_some() { 0.55 } else { 0.25 } * confidence;
    Some(Finding { gpu, action: Action::Batch, level, saving, confidence })
}

/// Batches the requests of a service with capacity left. That saves what replicas on instances of their
/// own are then not needed; otherwise it is capacity for more requests.
fn batch_requests<'a>(gpu: &'a Gpu, units: &[Unit<'a>]) -> Option<Finding<'a>> {
    let level = gpu.accounts.busy().level();
    if level >= SERVING_FULL {
        return None;
    }
    let single = units.iter().filter(|unit| unit.is_returnable() && unit.gpus.len() == 1);
    let replicas = single.flat_map(|unit| &unit.gpus).filter(|other| other.is_alike(gpu));
    let loads: Vec<_> = replicas.filter_map(|other| percentile(&other.utilization, 95)).collect();
    let [expected, high] = REQUESTS_BATCHED.map(|time| {
        let kept = (time * loads.iter().sum::<f64>() / PRODUCTIVE).ceil().max(1.0);
        let share = 1.0 - kept / loads.len() as f64;
        if loads.len() > 1 { share.clamp(0.0, 0.5) } else { 0.0 }
    });
    Some(Finding {
        gpu,
        action: Action::Requests,
        level,
        saving: Saving::part(1.0, [0.0, expected, high]),
        confidence: 0.8 * gpu.confidence(),
    })
}

/// Finds the cheapest sufficient GPU of the same provider and region, at what it costs there.
fn smaller<'a>(
    gpu: &'a Gpu,
    memory: Memory,
    window: &'a Window,
    settings: &Settings,
) -> Option<Finding<'a>> {
    let level = gpu.accounts.busy().level();
    let long = gpu.accounts.observed().seconds >= settings.min_size_seconds;
    let price = gpu.price.as_ref().filter(|price| {
        let hourly = matches!(price.plan, None | Some(Plan::OnDemand));
        hourly && !price.estimated && long && level < settings.smaller_below
    })?;
    let fits_kind =
        matches!(gpu.workload, Workload::Training | Workload::Serving | Workload::Unknown);
    let peak = gpu.memory_peak()?;
    let (Some(_), true) = (memory.in_use(), fits_kind) else { return None };
    let model = Model::of(&gpu.model)?;
    let high = percentile(&gpu.utilization, 95)?;
    let (tflops, bandwidth) = (model.tflops()?, model.bandwidth_gb_s?);
    let offers = window.offers_beside(price).filter_map(|offer| {
        let other = Model::of(&offer.model)?;
        // Assumes that utilization scales with both compute and bandwidth.
        let slower = (tflops / other.tflops()?).max(bandwidth / other.bandwidth_gb_s?);
        let fits = high * slower <= MAX_UTILIZATION
            && peak <= MAX_MEMORY * offer.memory_bytes? as f64
            && other.architecture >= model.architecture.min(Architecture::Ampere);
        let cheaper = hourly(offer) < price.nano_usd_per_gpu_hour;
        (fits && cheaper && offer.gpus == 1).then_some((offer, level * slower))
    });
    let (offer, busy) = offers.min_by_key(|(offer, _)| hourly(offer))?;
    let paid = price.nano_usd_per_gpu_hour;
    let discount = 1.0 - hourly(offer) as f64 / paid as f64;
    let saving = Saving::part(discount.min(gpu.lost_underload()), DIFFERENCE_SAVED);
    let action = Action::Smaller { offer, paid, level: busy };
    Some(Finding { gpu, action, level, saving, confidence: 0.75 * gpu.confidence() })
}

/// Recommends an action for GPUs with similar loads.
fn recommend(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let mean =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let (level, lost) = (mean(|f| f.level), mean(|f| f.gpu.lost_underload()));
    let mut values =
        evidence([("busy.utilization", level, "1"), ("underload.share_of_bill", lost, "1")]);
    let mut rationale = format!(
        "{} runs at {} while working. This wastes {} of the bill. ",
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
            "The GPU is productive: the headroom is at most 10% of the bill.".to_owned(),
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
                Some(share) if share >= phasemeter_policy::POOL_SHARE => {
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
            "Balance the stages of this job",
            "Move layers to the GPUs that wait, or use more and smaller micro-batches.".to_owned(),
            "Other GPUs of the job are busier: these wait for the slowest stage.".to_owned(),
        ),
        Action::Smaller { offer, paid, level: busy } => {
            values.extend(evidence([
                ("smaller.utilization", busy, "1"),
                ("smaller.price", hourly(offer) as f64 / 1e9, "{USD}/h"),
                ("current.price", paid as f64 / 1e9, "{USD}/h"),
            ]));
            (
                "sizing.smaller",
                "smaller_gpu",
                "Use a smaller GPU",
                format!(
                    "Try {} ({}, {} {}) and compare the cost per unit of work.",
                    offer.model,
                    offer.price.instance_type.as_deref().unwrap_or_default(),
                    offer.price.provider.as_deref().unwrap_or_default(),
                    offer.price.region.as_deref().unwrap_or_default(),
                ),
                format!(
                    "By its peaks, {} would run this load at {}. It costs {} per hour there ({}), and this \
                     one {}, {}× as much.",
                    offer.model,
                    percent(busy),
                    usd(hourly(offer)),
                    offer.price.source,
                    usd(paid),
                    decimal(paid as f64 / hourly(offer) as f64, 1),
                ),
            )
        }
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

phasemeter_policy::recommender!(Sizing);

#[cfg(test)]
mod tests {
    use phasemeter_policy::Price;
    use phasemeter_policy::testing::{
        bouncing, gpu, price, steady, window, with_memory, with_offers,
    };

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let window = with_offers(window(gpus));
        Sizing::recommend(&Settings::default(), &window).recommendations
    }

    fn levers(found: &[Recommendation]) -> Vec<&str> {
        found.iter().map(|one| one.lever.as_str()).collect()
    }

    /// On an instance with one GPU.
    fn alone(gpu: Gpu) -> Gpu {
        let price = Price {
            instance_type: Some("p5.4xlarge".to_owned()),
            nano_usd_per_gpu_hour: 6_880_000_000,
            ..price()
        };
        Gpu { price: Some(price), ..gpu }
    }

    fn serving(gpu: Gpu) -> Gpu {
        Gpu { workload: Workload::Serving, ..gpu }
    }

    #[test]
    fn only_steady_load_is_underload() {
        assert!(recommendations(vec![bouncing(3_600, 40, 0.5)]).is_empty());
        let found = recommendations(vec![with_memory(steady(3_600, 0.5), 33.0)]);
        assert_eq!(levers(&found), ["batch"]);
        // A doubling halves the overhead of each step.
        assert!((found[0].saving.expected - 0.2).abs() < 1e-3, "{:?}", found[0].saving);
        assert_eq!(found[0].saving.low, 0.0);
    }

    #[test]
    fn filling_is_at_most_one_doubling() {
        let found = recommendations(vec![with_memory(steady(3_600, 0.18), 6.0)]);
        assert!(found[0].saving.high <= 0.5 + 1e-9, "{:?}", found[0].saving);
    }

    #[test]
    fn workload_and_memory_select_the_action() {
        let lever = |gpu| levers(&recommendations(vec![gpu])).join(" ");
        let mut full = with_memory(steady(3_600, 0.5), 75.0);
        full.memory.iter_mut().step_by(7).for_each(|bytes| *bytes *= 0.95);
        assert_eq!(lever(full), "", "left to the policy memory");
        assert_eq!(lever(with_memory(steady(3_600, 0.5), 60.0)), "batch", "a pool: a trial");
        assert_eq!(lever(steady(3_600, 0.5)), "batch");
        assert_eq!(lever(serving(with_memory(steady(3_600, 0.3), 44.0))), "dynamic_batching");
        assert_eq!(lever(serving(with_memory(steady(3_600, 0.68), 44.0))), "");
        let unknown = Gpu { workload: Workload::Unknown, ..with_memory(steady(3_600, 0.5), 33.0) };
        assert_eq!(lever(unknown), "");
    }

    #[test]
    fn productive_load_has_headroom_only() {
        let found = recommendations(vec![with_memory(steady(3_600, 0.8), 60.0)]);
        assert_eq!(levers(&found), ["overlap"]);
        assert!(found[0].saving.high <= 0.1 && found[0].saving.low == 0.0);
        assert!(recommendations(vec![steady(3_600, 0.97)]).is_empty());
    }

    #[test]
    fn unequal_stages_of_a_job_are_balanced() {
        let stages = [0.95, 0.62, 0.31].map(|level| with_memory(steady(3_600, level), 50.0));
        let found = recommendations(stages.to_vec());
        assert_eq!(levers(&found), ["other", "other"]);
        let service = |gpu: Gpu, name: &str| Gpu {
            attributes: vec![("service.name".to_owned(), name.to_owned())],
            ..gpu
        };
        let [first, second, _] = stages;
        let found = recommendations(vec![service(first, "a"), service(second, "b")]);
        assert_eq!(levers(&found), ["batch"], "two jobs");
    }

    #[test]
    fn replicas_follow_from_the_load_of_all() {
        let replica = |level| {
            let gpu = alone(serving(with_memory(steady(7_200, level), 60.0)));
            Gpu { model: "NVIDIA L4".to_owned(), ..gpu }
        };
        let found = recommendations(vec![replica(0.15); 4]);
        let fewer = found.iter().find(|one| one.lever == "replicas").unwrap();
        assert!(fewer.title.contains("2 replicas instead of 4"), "{}", fewer.title);
        assert!(fewer.saving.expected <= 0.5 && fewer.saving.low == 0.0);
        assert!(!levers(&recommendations(vec![replica(0.5); 4])).contains(&"replicas"));
        assert!(!levers(&recommendations(vec![replica(0.15); 2])).contains(&"replicas"));
        let full = recommendations(vec![replica(0.97); 2]);
        assert_eq!((levers(&full), full[0].kind), (vec!["replicas"], RecommendationKind::Risk));
    }

    #[test]
    fn replicas_follow_a_load_that_follows_the_day() {
        let day = |second: usize| (8..20).contains(&(second / 3_600 % 24));
        let replica = |days: usize| {
            let gpu = gpu(
                PatternKind::Mixed,
                days * 86_400,
                move |second| {
                    if day(second) { 0.55 } else { 0.05 }
                },
            );
            alone(serving(gpu))
        };
        let found = recommendations(vec![replica(2); 4]);
        let follow = found.iter().find(|one| one.lever == "autoscale").unwrap();
        // Two of four replicas for half of the time.
        assert!((follow.saving.expected - 0.25).abs() < 0.02, "{:?}", follow.saving);
        assert_eq!(follow.saving.low, 0.0);
        assert!(follow.action.contains("between 2 and 4 replicas"), "{}", follow.action);
        let has = |gpus| levers(&recommendations(gpus)).contains(&"autoscale");
        assert!(!has(vec![replica(2)]), "one replica");
        assert!(!has(vec![serving(with_memory(steady(2 * 86_400, 0.5), 20.0)); 4]), "one node");
        assert!(!has(vec![alone(serving(steady(2 * 86_400, 0.5))); 4]), "constant load");
    }

    #[test]
    fn batched_requests_save_only_replicas_that_can_be_given_back() {
        let replica = || alone(serving(with_memory(steady(7_200, 0.3), 44.0)));
        let found = |gpus| {
            let found = recommendations(gpus);
            let one = found.iter().find(|one| one.lever == "dynamic_batching").unwrap();
            (one.kind, one.saving.high > 0.0)
        };
        assert_eq!(found(vec![replica(); 4]), (RecommendationKind::Saving, true));
        assert_eq!(found(vec![replica()]), (RecommendationKind::Capacity, false));
    }

    #[test]
    fn load_is_steady_while_a_job_works() {
        let job = |level: fn(usize) -> f64| {
            let gpu = gpu(PatternKind::Mixed, 7_200, move |second| {
                if (600..5_400).contains(&second) { level(second) } else { 0.0 }
            });
            with_memory(gpu, 30.0)
        };
        assert_eq!(levers(&recommendations(vec![job(|_| 0.4)])), ["batch"]);
        let varying = job(|second| if second % 600 < 300 { 0.2 } else { 0.9 });
        assert!(recommendations(vec![varying]).is_empty());
    }

    #[test]
    fn smaller_gpu_must_fit_and_cost_less() {
        let mut oversized = alone(with_memory(steady(3_600, 0.15), 12.0));
        let found = recommendations(vec![oversized.clone()]);
        assert_eq!(levers(&found), ["batch", "smaller_gpu"]);
        assert!(found[1].rationale.contains("per hour there"), "{}", found[1].rationale);
        assert_eq!(found[1].saving.low, 0.0);
        let has = |gpu: Gpu| levers(&recommendations(vec![gpu])).contains(&"smaller_gpu");
        assert!(!has(Gpu { memory: vec![70e9; oversized.memory.len()], ..oversized.clone() }));
        assert!(!has(Gpu { memory: Vec::new(), ..oversized.clone() }));
        assert!(!has(with_memory(steady(3_600, 0.15), 12.0)), "one of eight");
        let estimated = oversized.price.clone().map(|price| Price { estimated: true, ..price });
        oversized.price = estimated;
        assert!(!has(oversized));
    }

    #[test]
    fn smaller_gpu_is_one_that_is_offered_there() {
        let oversized = alone(with_memory(steady(3_600, 0.15), 12.0));
        let found = |change: fn(&mut Offer)| {
            let mut window = with_offers(window(vec![oversized.clone()]));
            window.offers.iter_mut().for_each(change);
            let found = Sizing::recommend(&Settings::default(), &window).recommendations;
            levers(&found).contains(&"smaller_gpu")
        };
        assert!(found(|_| {}));
        assert!(!found(|offer| offer.price.region = Some("eu-west-1".to_owned())));
        assert!(!found(|offer| offer.price.provider = Some("gcp".to_owned())));
        assert!(!found(|offer| offer.price.plan = Some(Plan::Spot)));
        assert!(!found(|offer| offer.price.nano_usd_per_gpu_hour = 7_000_000_000));
        assert!(!found(|offer| offer.gpus = 8), "an instance of eight GPUs");
    }

    #[test]
    fn short_windows_are_skipped() {
        assert!(recommendations(vec![steady(50, 0.5), steady(600, 0.5)]).is_empty());
    }
}
