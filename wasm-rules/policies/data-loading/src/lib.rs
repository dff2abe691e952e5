//! Recommends faster data loading for GPUs that wait for input.
//!
//! The pattern identifies them: a mean of 50% that bounces between idle and full is a loader that
//! cannot keep up; a steady 50% is not. The length of the waits indicates which stage is slow, and
//! memory whether decoding fits on the GPU.

mod copies;
mod in_turn;

use phasemeter_diagnoses::{
    Model, has_defect, is_held_back, multiplies_matrices, nvlink, pcie, waits_for, with_conditions,
};
use phasemeter_policy::format::{count, decimal, duration, gib, percent, subject};
use phasemeter_policy::{
    Effort, Evidence, Gpu, Need, Policy, Recommendation, RecommendationKind, Recommender,
    Remediation, Response, Saving, Target, Vendor, Window, Workload, evidence, groups, mean,
};

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to waiting.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
}

/// Confidence that something is wrong with a single GPU that waits. An assumption.
const INSPECT: f64 = 0.7;

/// Difference of shares up to which GPUs get one recommendation. An assumption.
const SIMILAR: f64 = 0.1;

/// Readings in the shorter half of a cycle, so that it is seen. Two are the fewest that show both ends.
const READINGS_PER_HALF: f64 = 2.0;

/// A wait of this length empties a loader's queue, so that a deeper queue does not help. Loaders keep
/// two to four batches of up to a few seconds by default (PyTorch: two per worker).
const LONG_WAIT_SECONDS: f64 = 5.0;

/// Maximum memory use for decoding on the GPU, which needs a few GiB.
const MAX_MEMORY_TO_DECODE: f64 = 0.85;

/// Part of the waiting that ends: low, expected, high. It ends if the cause was found and not otherwise, and
/// then the next stage may be late. An assumption.
const ENDED: [f64; 3] = [0.0, 0.4, 0.6];

/// Confidence in more workers: their share of the causes of late input. An assumption. Two actions
/// are recommended since utilization does not show the cause.
const WORKERS: f64 = 0.6;

/// Confidence in decoding on the GPU. An assumption.
const DECODE: f64 = 0.5;

/// Confidence in faster storage. An assumption.
const STORAGE: f64 = 0.3;

/// Confidence in a longer queue. An assumption.
const PREFETCH: f64 = 0.2;

/// Part of that confidence if a slow exchange between the GPUs is as likely. An assumption.
const AS_LIKELY: f64 = 0.5;

/// Difference up to which the time below 10% and the cycles show the same waits. An assumption.
const SAME_SHARE: f64 = 0.15;

/// Compute-bound share of the time from which a GPU never waits.
const FULL_SHARE: f64 = 0.8;

/// Period below which several GPUs may pause to exchange data.
const EXCHANGE_SECONDS: f64 = 10.0;

struct DataLoading;

/// A GPU that waits for input.
struct Waiting<'a> {
    gpu: &'a Gpu,
    lost: f64,
    period: f64,
    /// Share of a cycle in which it works.
    busy: f64,
}

impl Policy for DataLoading {
    const NAME: &'static str = "data-loading";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds GPUs that wait for input, and recommends how to load data faster.";
    type Settings = Settings;
}

impl Recommender for DataLoading {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        with_conditions(window, |window| advise(settings, window))
    }
}

fn advise(settings: &Settings, window: &Window) -> Response {
    let observed = window.observed_gpus(settings.min_seconds);
    let waiting = observed.iter().copied().filter_map(|gpu| {
        let pattern = gpu.pattern.filter(|_| gpu.workload.is_job() && gpu.is_bouncing())?;
        let waiting = Waiting {
            gpu,
            lost: gpu.lost_starvation(),
            period: pattern.period_seconds?,
            busy: 1.0 - waiting_share(gpu, 1.0 - pattern.duty_cycle?),
        };
        (waiting.lost >= settings.min_lost && waiting.is_seen()).then_some(waiting)
    });
    // A loader feeds all GPUs of a job alike. Several that wait may be another job.
    let (alone, together): (Vec<_>, Vec<_>) =
        groups(waiting, |a, b| a.gpu.is_alike(b.gpu)).into_iter().partition(|alike| {
            let is_full = |gpu: &&Gpu| gpu.is_alike(alike[0].gpu) && is_full(gpu);
            alike.len() == 1 && observed.iter().any(is_full)
        });
    let similar = |a: &Waiting<'_>, b: &Waiting<'_>| {
        (a.busy - b.busy).abs() <= SIMILAR
            && (a.lost - b.lost).abs() <= SIMILAR
            && a.waits_long() == b.waits_long()
            && a.can_decode() == b.can_decode()
            && a.gpu.is_alike(b.gpu)
    };
    // A defect that `health` reports explains the wait.
    let unexplained =
        |it: &&Waiting<'_>| !has_defect(it.gpu, window) && !is_held_back(it.gpu, window);
    let alone = alone.iter().flatten().filter(unexplained);
    let mut recommendations: Vec<_> = alone.map(inspect).collect();
    let mut needs = Vec::new();
    let same_period = groups(together.into_iter().flatten(), in_turn::have_same_period);
    let (in_turn, late): (Vec<_>, Vec<_>) = same_period
        .into_iter()
        .partition(|group| in_turn::wait_in_turn(group, window.step_seconds));
    needs.extend(in_turn.iter().map(|group| in_turn::need(group)));
    for group in groups(late.into_iter().flatten(), similar) {
        let exchange = exchange(&group);
        let others =
            observed.iter().filter(|other| group.iter().any(|it| waits_for(other, it.gpu)));
        let has_loader = |it: &Waiting<'_>| {
            it.gpu.workload == Workload::Training || multiplies_matrices(it.gpu, window)
        };
        let input = Input {
            may_exchange: exchange.is_some(),
            others: others.count(),
            has_loader: group.iter().all(has_loader),
        };
        recommendations.extend(recommend(&group, input));
        needs.extend(exchange);
    }
    recommendations.extend(copies::recommend(&observed, window));
    Response { recommendations, needs }
}

/// Share of a cycle in which a GPU waits. `by_cycles` counts all that is not at high load, of the median cycle; the
/// time below 10% is exact, unless the GPU also works without waits.
fn waiting_share(gpu: &Gpu, by_cycles: f64) -> f64 {
    let accounts = &gpu.accounts;
    let all = accounts.observed().seconds + accounts.unobserved.seconds;
    let elsewhere = gpu.lost_idle() * all;
    let waits = f64::max(accounts.idle().seconds - elsewhere, 0.0);
    let share = waits / (waits + accounts.busy().seconds).max(1.0);
    if (share - by_cycles).abs() <= SAME_SHARE { share } else { by_cycles }
}

/// Whether a GPU never waits.
fn is_full(gpu: &Gpu) -> bool {
    !gpu.is_bouncing() && gpu.full_share() >= FULL_SHARE
}

/// What tells late input from a slow exchange between GPUs: both make all GPUs pause at once.
fn exchange(group: &[Waiting<'_>]) -> Option<Need> {
    let short = group.len() > 1 && group.iter().all(|waiting| waiting.period < EXCHANGE_SECONDS);
    let gpus = || group.iter().map(|waiting| waiting.gpu);
    let is_measured = gpus().all(|gpu| nvlink(gpu).or(pcie(gpu)).is_some());
    let has_no_nvlink = |gpu: &Gpu| {
        let is_without = Model::of(&gpu.model).is_some_and(|model| !model.has_nvlink);
        is_without || gpu.vendor() != Vendor::Nvidia
    };
    let missing = if gpus().all(has_no_nvlink) { "pcie.activity" } else { "nvlink.activity" };
    let reasons = [
        "traffic between the GPUs in the pauses (NVLink, PCIe) tells late input from a slow exchange",
        "traffic between the GPUs in the pauses tells late input from a slow exchange",
    ];
    Need::by_vendor(missing, reasons, gpus().filter(|_| short && !is_measured))
}

/// A single GPU that waits while others of its job are full.
fn inspect(waiting: &Waiting<'_>) -> Recommendation {
    Recommendation {
        title: "Inspect this GPU: it waits, and the others do not".to_owned(),
        action: waiting
            .gpu
            .vendor()
            .choose(
                "Compare its PCIe link (nvidia-smi --query-gpu=pcie.link.width.current) and its NUMA node with those \
                 of the others, and profile a few steps of this rank.",
                "Compare its PCIe link (amd-smi metric --pcie) and its NUMA node with those of the others, and \
                 profile a few steps of this rank.",
                "Compare its PCIe link and its NUMA node with those of the others, and profile a few steps of this \
                 rank.",
            )
            .to_owned(),
        rationale: format!(
            "The GPU waits {} in every {}, while others of this kind are always busy: in one job they have the same \
             loader, so the cause is this GPU, its PCIe link or its share of the work. It may also be a job of its \
             own, with late input.",
            duration(waiting.wait()),
            duration(waiting.period),
        ),
        confidence: INSPECT * waiting.gpu.confidence(),
        evidence: evidence([
            ("pattern.period", waiting.period, "s"),
            ("wait", waiting.wait(), "s"),
        ]),
        kind: RecommendationKind::Risk,
        ..Recommendation::new("data-loading.inspect", Target::Starvation, "measure", [waiting.gpu])
    }
}

impl Waiting<'_> {
    /// Seconds per wait.
    fn wait(&self) -> f64 {
        self.period * (1.0 - self.busy)
    }

    /// Whether readings are frequent enough to see each wait and each burst of work.
    fn is_seen(&self) -> bool {
        let shortest = f64::min(self.wait(), self.period * self.busy);
        self.gpu
            .activity
            .interval_seconds
            .is_some_and(|interval| READINGS_PER_HALF * interval <= shortest)
    }

    fn waits_long(&self) -> bool {
        self.wait() >= LONG_WAIT_SECONDS
    }

    /// Whether decoding fits into memory; `None` if memory was not recorded.
    fn can_decode(&self) -> Option<bool> {
        self.gpu.memory_share().map(|share| share <= MAX_MEMORY_TO_DECODE)
    }
}

/// What waits may be for.
#[derive(Clone, Copy)]
struct Input {
    /// Also for an exchange between GPUs.
    may_exchange: bool,
    /// How many full GPUs wait in a collective for these.
    others: usize,
    /// For the loader of a model: a simulation or a renderer has none.
    has_loader: bool,
}

/// Recommends two actions for GPUs with similar waits, or one if nothing shows a loader.
fn recommend(group: &[Waiting<'_>], input: Input) -> Vec<Recommendation> {
    let Input { may_exchange, others, has_loader } = input;
    let [first, ..] = group else { return Vec::new() };
    let gpus = || group.iter().map(|waiting| waiting.gpu);
    let (period, busy) = (mean(group, |it| it.period), mean(group, |it| it.busy));
    let (wait, lost) = (mean(group, Waiting::wait), mean(group, |it| it.lost));
    let speedup = if busy > 0.0 { 1.0 / busy } else { f64::INFINITY };
    let saving = Saving::combined(group.iter().map(|it| (it.gpu, Saving::part(it.lost, ENDED))));
    let what = if may_exchange { "input or exchange" } else { "input" };
    let likely = if may_exchange { "" } else { "most likely " };
    let collective = match others {
        0 => String::new(),
        _ => format!(
            " {} of this kind {} busy all the time, but the power falls whenever these wait: most likely a \
             collective that waits for them, so late input costs all.",
            count(others, "other GPU"),
            if others == 1 { "is" } else { "are" },
        ),
    };
    let rationale = format!(
        "{} {likely}waits for {what} {} in every {}: it works {} of each cycle. This wastes {} of the bill. A bouncing \
         GPU lacks data, not work: to stay busy, it needs {} {}× as fast.{collective}",
        subject(group.len()),
        duration(wait),
        duration(period),
        percent(busy),
        percent(lost),
        if may_exchange { "that" } else { "input" },
        decimal(speedup, 1),
    );
    let mut evidence = evidence([
        ("pattern.period", period, "s"),
        ("pattern.busy", busy, "1"),
        ("wait", wait, "s"),
        ("starvation.share_of_bill", lost, "1"),
    ]);
    let peak = gpus().filter_map(Gpu::memory_peak).reduce(f64::max);
    let memory = peak.zip(first.gpu.memory_share());
    if let Some((_, share)) = memory {
        evidence.push(Evidence::new("memory.peak_share", share, "1"));
    }
    let cause = if may_exchange { AS_LIKELY } else { 1.0 };
    let confidence = cause * mean(gpus(), Gpu::confidence);
    let make = |code: &str, lever: &str, title: &str, action: String, detail: String, sure: f64| {
        Recommendation {
            title: title.to_owned(),
            action,
            rationale: rationale.clone() + &detail,
            saving,
            confidence: sure * confidence,
            evidence: evidence.clone(),
            effort: if lever == "num_workers" { Effort::Low } else { Effort::Medium },
            ..Recommendation::new(code, Target::Starvation, lever, gpus())
        }
    };
    if !has_loader {
        let ahead = make(
            "data-loading.ahead",
            "prefetch",
            "Read the next item while one is computed",
            "Read, prepare and copy ahead: threads that read, pinned buffers with asynchronous copies, and what items \
             share kept in memory. Or let two tasks share the GPU, so that one reads while the other computes."
                .to_owned(),
            String::new(),
            WORKERS,
        );
        return vec![ahead];
    }
    let mut workers = make(
        "data-loading.workers",
        "num_workers",
        "Use more loader workers",
        format!(
            "Raise num_workers about {}×{}, up to the number of CPU cores. Then check whether CPU or storage is the \
             bottleneck.",
            decimal(speedup, 1),
            match others {
                0 => String::new(),
                1 => " (1 full GPU most likely waits too)".to_owned(),
                _ => format!(" ({others} full GPUs most likely wait too)"),
            },
        ),
        String::new(),
        WORKERS,
    );
    let factor = ("factor", decimal(speedup, 1).replace(',', ""));
    workers.remediation = Some(
        Remediation::new("job.parameter", [("name", "num_workers".to_owned()), factor])
            .unless("all CPU cores or the memory of the host are in use"),
    );
    let second = if first.can_decode() == Some(true) {
        let peak =
            memory.map_or_else(String::new, |(peak, _)| format!(": its peak is {}", gib(peak)));
        make(
            "data-loading.decode",
            "dali",
            "Decode on the GPU",
            Vendor::of(gpus())
                .choose(
                    "Move decoding and preprocessing from the workers to DALI. If the CPU is the bottleneck, more \
                     workers do not help.",
                    "Move decoding and preprocessing from the workers to rocAL. If the CPU is the bottleneck, more \
                     workers do not help.",
                    "Move decoding and preprocessing from the workers to the GPU. If the CPU is the bottleneck, more \
                     workers do not help.",
                )
                .to_owned(),
            [" GPU memory suffices", &peak, "."].concat(),
            DECODE,
        )
    } else if first.waits_long() {
        make(
            "data-loading.storage",
            "storage",
            "Move the data closer",
            "Stage the data set on local NVMe, or pack it into large shards, and compare throughput."
                .to_owned(),
            " Waits this long exceed any queue of batches.".to_owned(),
            STORAGE,
        )
    } else {
        make(
            "data-loading.prefetch",
            "prefetch",
            "Prefetch more batches",
            "Raise prefetch_factor, pin memory, and copy with non_blocking so that copies overlap \
             with compute."
                .to_owned(),
            " A deeper queue may bridge waits this short.".to_owned(),
            PREFETCH,
        )
    };
    vec![workers, second]
}

phasemeter_policy::recommender!(DataLoading);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};
    use phasemeter_policy::{Pattern, PatternKind, Percentiles, Workload};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        DataLoading::recommend(&Settings::default(), &window(gpus)).recommendations
    }

    #[test]
    fn only_bouncing_load_is_starvation() {
        assert!(recommendations(vec![steady(3_600, 0.5)]).is_empty());
        let found = recommendations(vec![bouncing(3_600, 40, 0.5)]);
        assert_eq!(found[0].lever, "num_workers");
        assert!((found[0].saving.expected - 0.2).abs() < 1e-9);
        assert!(found.iter().all(|one| one.saving.high <= 0.5 && one.saving.low == 0.0));
    }

    #[test]
    fn full_gpus_that_wait_in_a_collective_are_named() {
        let starved = bouncing(3_600, 23, 0.6);
        let mut full = steady(3_600, 0.99);
        full.power = starved.utilization.iter().map(|it| 200.0 + 400.0 * it).collect();
        full.sensors.busy_power =
            Some(Percentiles { p5: 200.0, p50: 600.0, p95: 600.0, max: 600.0 });
        let of = |full: &Gpu| {
            recommendations(vec![starved.clone(), starved.clone(), full.clone(), full.clone()])
        };
        let found = &of(&full)[0];
        assert!(found.action.contains("2 full GPUs most likely wait too"), "{}", found.action);
        assert!(found.rationale.contains("2 other GPUs of this kind are"), "{}", found.rationale);
        full.power.fill(600.0);
        assert!(!of(&full)[0].action.contains("full GPU"));
    }

    #[test]
    fn second_action_depends_on_wait_and_memory() {
        let second = |gpu| recommendations(vec![gpu])[1].lever.clone();
        assert_eq!(second(bouncing(3_600, 40, 0.6)), "storage");
        assert_eq!(second(with_memory(bouncing(3_600, 40, 0.6), 60.0)), "dali");
        assert_eq!(second(with_memory(bouncing(3_600, 40, 0.6), 75.0)), "storage");
        assert_eq!(second(with_memory(bouncing(3_600, 4, 0.5), 60.0)), "dali");
        assert_eq!(second(bouncing(3_600, 4, 0.5)), "prefetch");
    }

    #[test]
    fn similar_gpus_share_a_recommendation() {
        let found = recommendations(vec![
            bouncing(3_600, 40, 0.6),
            bouncing(3_600, 42, 0.6),
            bouncing(3_600, 40, 0.3),
        ]);
        let sizes: Vec<_> = found.iter().map(|one| one.gpus.len()).collect();
        assert_eq!(sizes, [2, 2, 1, 1]);
    }

    #[test]
    fn single_waiting_gpu_of_a_job_is_inspected() {
        let found = recommendations(vec![bouncing(3_600, 6, 0.5), steady(3_600, 0.95)]);
        assert_eq!((found[0].lever.as_str(), found.len()), ("measure", 1));
        assert_eq!(found[0].kind, RecommendationKind::Risk);
        let waiting = || bouncing(3_600, 6, 0.5);
        let half = recommendations(vec![waiting(), waiting(), steady(3_600, 0.95)]);
        assert_eq!((half[0].lever.as_str(), half[0].gpus.len()), ("num_workers", 2));
    }

    #[test]
    fn exchange_is_as_likely_as_late_input() {
        let sure = |period: usize, metrics: &[(&str, f64)]| {
            let metrics = metrics.iter().map(|(name, value)| ((*name).to_owned(), *value));
            let gpu = Gpu { metrics: metrics.collect(), ..bouncing(3_600, period, 0.5) };
            let one = recommendations(vec![gpu; 2]).remove(0);
            (one.confidence, one.rationale.contains("input or exchange"))
        };
        assert_eq!(sure(6, &[]), (AS_LIKELY * WORKERS, true));
        assert_eq!(sure(6, &[("nvlink.activity", 0.1)]), (WORKERS, false));
        assert_eq!(sure(40, &[]), (WORKERS, false), "no exchange takes as long");
        let narrow = [("pcie.link.width", 4.0), ("pcie.link.max_width", 16.0)];
        let metrics = narrow.map(|(name, value)| (name.to_owned(), value)).to_vec();
        let narrow = Gpu { metrics, ..bouncing(3_600, 6, 0.5) };
        assert!(recommendations(vec![narrow, steady(3_600, 0.95)]).is_empty(), "health reports it");
    }

    #[test]
    fn link_that_a_gpu_has_is_missing() {
        let missing = |model: &str, activity: Option<f64>| {
            let metrics = activity.map(|share| ("nvlink.activity".to_owned(), share));
            let metrics: Vec<_> = metrics.into_iter().collect();
            let gpu = Gpu { model: model.to_owned(), metrics, ..bouncing(3_600, 6, 0.5) };
            let found = DataLoading::recommend(&Settings::default(), &window(vec![gpu; 2]));
            found.needs.into_iter().map(|need| need.missing).collect::<Vec<_>>()
        };
        assert_eq!(missing("NVIDIA H100 80GB HBM3", None), ["nvlink.activity"]);
        assert_eq!(missing("NVIDIA L40S", None), ["pcie.activity"]);
        assert!(missing("NVIDIA H100 80GB HBM3", Some(0.1)).is_empty());
    }

    #[test]
    fn time_below_ten_percent_shows_the_wait() {
        let mut gpu = bouncing(3_600, 40, 0.5);
        gpu.pattern = gpu.pattern.map(|it| Pattern { duty_cycle: Some(0.42), ..it });
        assert!((waiting_share(&gpu, 0.58) - 0.5).abs() < 0.02);
        // Half of the time it works without waits: cycles show the wait.
        assert_eq!(waiting_share(&gpu, 0.9), 0.9);
    }

    #[test]
    fn cycles_that_the_sampling_cannot_see_are_skipped() {
        let mut gpu = bouncing(3_600, 100, 0.5);
        assert!(!recommendations(vec![gpu.clone()]).is_empty());
        gpu.activity.interval_seconds = Some(60.0);
        assert!(recommendations(vec![gpu]).is_empty());
    }

    #[test]
    fn services_have_no_loader_and_unknown_work_may_have_one() {
        let of = |workload| recommendations(vec![Gpu { workload, ..bouncing(3_600, 40, 0.5) }]);
        assert!(of(Workload::Serving).is_empty() && of(Workload::Interactive).is_empty());
        let found = of(Workload::Unknown);
        assert!(found[0].title.starts_with("If this is training: "), "{}", found[0].title);
        assert!(found.len() == 1 && found[0].saving.high <= 0.0);
    }

    #[test]
    fn short_or_unobserved_gpus_are_skipped() {
        assert!(recommendations(vec![bouncing(50, 4, 0.5)]).is_empty());
        assert!(recommendations(vec![gpu(PatternKind::Bouncing, 3_600, |_| f64::NAN)]).is_empty());
        assert!(recommendations(vec![]).is_empty());
    }
}
