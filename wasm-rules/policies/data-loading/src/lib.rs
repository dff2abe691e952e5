//! Recommends faster data loading for GPUs that wait for input.
//!
//! The pattern identifies them: a mean of 50% that bounces between idle and full is a loader that
//! cannot keep up; a steady 50% is not. The length of the waits indicates which stage is slow, and
//! memory whether decoding fits on the GPU.

mod copies;
mod in_turn;
mod input;
mod waiting;

use phasemeter_diagnoses::{
    MOSTLY_FULL, Model, SEES_BURSTS, SIMILAR, confidence, has_defect, is_held_back,
    multiplies_matrices, nvlink, pcie, waits_for,
};
use phasemeter_policy::format::{duration, subject};
use phasemeter_policy::{
    Gpu, Need, Recommendation, RecommendationKind, Response, Target, Vendor, Window, Workload,
    evidence, groups, mean,
};

use crate::input::Input;
use crate::waiting::{Waiting, waiting_share};

phasemeter_policy::settings! {
    /// Minimum share of the bill lost to waiting.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
}

/// Period below which several GPUs may pause to exchange data.
const EXCHANGE_SECONDS: f64 = 10.0;

fn recommend(settings: &Settings, window: &Window) -> Response {
    let observed = window.observed_gpus(settings.min_seconds);
    let (waiting, unseen): (Vec<_>, Vec<_>) = observed
        .iter()
        .copied()
        .filter_map(|gpu| {
            let pattern = gpu.pattern.filter(|_| gpu.workload.is_job() && gpu.is_bouncing())?;
            let waiting = Waiting {
                gpu,
                lost: gpu.lost_starvation(),
                period: pattern.period_seconds?,
                busy: 1.0 - waiting_share(gpu, 1.0 - pattern.duty_cycle?),
            };
            (waiting.lost >= settings.min_lost).then_some(waiting)
        })
        .partition(Waiting::is_seen);
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
    // Readings that are farther apart may show cycles that there are not.
    let is_frequent = |gpu: &&Gpu| gpu.activity.interval_seconds <= Some(SEES_BURSTS);
    let unseen = unseen.iter().filter(unexplained).map(|it| it.gpu).filter(is_frequent);
    let unseen: Vec<_> = unseen.collect();
    recommendations.extend(profile(&unseen));
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
        recommendations.extend(input::recommend(&group, input));
        needs.extend(exchange);
    }
    recommendations.extend(copies::recommend(&observed, window));
    Response::of(recommendations, needs)
}

/// Whether a GPU never waits.
fn is_full(gpu: &Gpu) -> bool {
    !gpu.is_bouncing() && gpu.full_share() >= MOSTLY_FULL
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
    Need::by_vendor(
        missing,
        "traffic between the GPUs in the pauses tells late input from a slow exchange",
        " (NVLink, PCIe)",
        gpus().filter(|_| short && !is_measured),
    )
}

/// Waits that are too short for the interval between readings: that there are waits is known, and not for what.
fn profile(gpus: &[&Gpu]) -> Option<Recommendation> {
    let interval = mean(gpus, |gpu| gpu.activity.interval_seconds.unwrap_or(0.0));
    (!gpus.is_empty()).then(|| Recommendation {
        title: "Profile a few steps: the GPU waits in each".to_owned(),
        action: format!(
            "{} over ten steps: waits in the loader mean more workers and reading ahead; kernels that exchange, overlap; \
             gaps between short kernels, larger batches.",
            Vendor::of(gpus.iter().copied()).choose(
                "Run nsys profile or torch.profiler",
                "Run rocprofv3 or torch.profiler",
                "Run a profiler",
            ),
        ),
        rationale: format!(
            "{} changes between idle and busy again and again, faster than readings each {} show the length of.",
            subject(gpus.len()),
            duration(interval),
        ),
        confidence: confidence::EVEN * mean(gpus, |gpu| gpu.confidence()),
        ..Recommendation::new("data-loading.profile", Target::Starvation, "measure", gpus.iter().copied())
    })
}

/// A single GPU that waits while others of its job are full.
fn inspect(waiting: &Waiting<'_>) -> Recommendation {
    Recommendation {
        title: "Inspect this GPU: it waits, and the others do not".to_owned(),
        action: format!(
            "Compare its PCIe link{} and its NUMA node with those of the others, and profile a few steps of this rank.",
            waiting.gpu.vendor().tool(
                " (nvidia-smi --query-gpu=pcie.link.width.current)",
                " (amd-smi metric --pcie)",
            ),
        ),
        rationale: format!(
            "The GPU waits {} in every {}, while others of this kind are always busy: in one job they have the same \
             loader, so the cause is this GPU, its PCIe link or its share of the work. It may also be a job of its \
             own, with late input.",
            duration(waiting.wait()),
            duration(waiting.period),
        ),
        confidence: confidence::LIKELY * waiting.gpu.confidence(),
        evidence: evidence([
            ("pattern.period", waiting.period, "s"),
            ("wait", waiting.wait(), "s"),
        ]),
        kind: RecommendationKind::Risk,
        ..Recommendation::new("data-loading.inspect", Target::Starvation, "measure", [waiting.gpu])
    }
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};
    use phasemeter_policy::{Pattern, PatternKind, Percentiles, Workload};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus)).recommendations
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
        let short = recommendations(vec![bouncing(3_600, 4, 0.5)]);
        assert_eq!(short.len(), 1, "storage is not what waits this short are for");
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
        assert_eq!(sure(6, &[]), (confidence::EVEN * confidence::PROBABLE, true));
        assert_eq!(sure(6, &[("nvlink.activity", 0.1)]), (confidence::PROBABLE, false));
        assert_eq!(sure(40, &[]), (confidence::PROBABLE, false), "no exchange takes as long");
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
            let found = recommend(&Settings::default(), &window(vec![gpu; 2]));
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
        let mut short = bouncing(3_600, 6, 0.5);
        short.activity.interval_seconds = Some(2.0);
        assert_eq!(recommendations(vec![short])[0].code, "data-loading.profile");
    }

    #[test]
    fn only_jobs_have_a_loader() {
        let of = |workload| recommendations(vec![Gpu { workload, ..bouncing(3_600, 40, 0.5) }]);
        for other in [Workload::Serving, Workload::Interactive, Workload::Unknown] {
            assert!(of(other).is_empty(), "{other:?}");
        }
    }

    #[test]
    fn short_or_unobserved_gpus_are_skipped() {
        assert!(recommendations(vec![bouncing(50, 4, 0.5)]).is_empty());
        assert!(recommendations(vec![gpu(PatternKind::Bouncing, 3_600, |_| f64::NAN)]).is_empty());
        assert!(recommendations(vec![]).is_empty());
    }
}
