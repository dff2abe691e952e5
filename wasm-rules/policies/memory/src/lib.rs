//! Recommends how to free memory for larger batches.
//!
//! Only for training at a steady part load whose memory is in use: a large block of constant size is
//! preallocated, and does not show what is in use.

use phasemeter_policy::format::{gib, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Memory, Recommendation, Response, Saving, Target, Window, Workload, evidence,
    groups, mean, target_loads,
};

use phasemeter_diagnoses::{DOUBLING, FREE_MEMORY, SIMILAR, confidence, share};

phasemeter_policy::settings! {
    /// Share of the memory from which it limits the batch. right-sizing: 80%. analytics and
    /// optimization: 85%.
    profile: text = "right-sizing" of ["right-sizing", "analytics", "optimization"];
    /// Minimum share of the bill lost to underload.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 1800.0 in 0.0..=86400.0;
}

/// Share of the memory from which it limits the batch, in the right-sizing guide: SM 60/85%, memory
/// 40/80/95%.
const RIGHT_SIZING: f64 = 0.8;

/// The same in the analytics and optimization guides.
const OTHER_PROFILES: f64 = 0.85;

/// Work per step with checkpointing, relative to without: the forward pass runs twice, and a backward
/// pass costs two forward passes.
const CHECKPOINTING_WORK: f64 = 4.0 / 3.0;

/// A GPU whose memory limits the batch, and the share in use.
struct Finding<'a> {
    gpu: &'a Gpu,
    share: f64,
    saving: Saving,
}

fn recommend(settings: &Settings, window: &Window) -> Response {
    let bounds = window.thresholds();
    let findings = window.observed_gpus(settings.min_seconds).into_iter().filter_map(|gpu| {
        let Memory::InUse(share) = gpu.memory_use(window.step_seconds) else { return None };
        let (level, lost) = (gpu.accounts.busy().level(), gpu.lost_underload());
        let limit = if settings.profile == "right-sizing" { RIGHT_SIZING } else { OTHER_PROFILES };
        let applies = gpu.workload == Workload::Training
            && gpu.is_steady()
            && level < bounds.productive
            && lost >= settings.min_lost
            && share >= limit;
        // The steps take more work, at a higher load: expected is one doubling.
        let saved = |to: f64| f64::min(1.0 - CHECKPOINTING_WORK * level / to, lost);
        let [_, expected, high] = target_loads(level, bounds);
        let expected = saved(expected.min(DOUBLING * level));
        let saving = Saving::part(1.0, [0.0, expected, saved(high).min(share::MOST)]);
        applies.then_some(Finding { gpu, share, saving })
    });
    let similar = |a: &Finding<'_>, b: &Finding<'_>| {
        (a.gpu.lost_underload() - b.gpu.lost_underload()).abs() <= SIMILAR
    };
    groups(findings, similar).iter().filter_map(|group| write(group)).collect()
}

/// Recommends checkpointing for GPUs with similar loads.
fn write(group: &[Finding<'_>]) -> Option<Recommendation> {
    let gpus = || group.iter().map(|finding| finding.gpu);
    let share = group.iter().map(|finding| finding.share).fold(0.0, f64::max);
    let peak = gpus().filter_map(Gpu::memory_peak).reduce(f64::max)?;
    let level = mean(gpus(), |gpu| gpu.accounts.busy().level());
    Some(Recommendation {
        title: "Free memory, then use a larger batch".to_owned(),
        action: format!(
            "Turn on activation checkpointing for the largest layers, then double the batch if {} of the memory stays \
             free, and compare samples per second.",
            percent(FREE_MEMORY),
        ),
        rationale: format!(
            "{} uses up to {} of memory ({}) and is {} busy: memory limits the batch while compute has \
             headroom. Checkpointing adds at most a third more arithmetic; the saving accounts for \
             that.",
            subject(group.len()),
            gib(peak),
            percent(share),
            percent(level),
        ),
        saving: Saving::combined(group.iter().map(|f| (f.gpu, f.saving))),
        confidence: confidence::EVEN * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("memory.peak", peak, "By"),
            ("memory.peak_share", share, "1"),
            ("busy.utilization", level, "1"),
            ("underload.share_of_bill", mean(gpus(), Gpu::lost_underload), "1"),
        ]),
        effort: Effort::Medium,
        ..Recommendation::new("memory.checkpoint", Target::Underload, "checkpointing", gpus())
    })
}

phasemeter_policy::recommender!(fn recommend);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, steady, window, with_memory, with_varying_memory};

    use super::*;

    /// A GPU at a steady level, with up to `gib` GiB in use.
    fn using(level: f64, gib: f64) -> Gpu {
        with_varying_memory(steady(3_600, level), gib)
    }

    fn levers(settings: &Settings, gpu: Gpu) -> Vec<String> {
        let found = recommend(settings, &window(vec![gpu]));
        found.recommendations.into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn profile_sets_threshold() {
        let (sizing, other) =
            (Settings::default(), Settings { profile: "analytics", ..Settings::default() });
        assert_eq!(levers(&sizing, using(0.5, 66.0)), ["checkpointing"]);
        assert!(levers(&other, using(0.5, 66.0)).is_empty());
        assert_eq!(levers(&other, using(0.5, 70.0)), ["checkpointing"]);
    }

    #[test]
    fn saving_accounts_for_extra_work() {
        let found = recommend(&Settings::default(), &window(vec![using(0.5, 70.0)]));
        // 4/3 × 0.5/0.7 of the time, so 1/21 is saved.
        assert!((found.recommendations[0].saving.expected - 1.0 / 21.0).abs() < 1e-9);
        assert_eq!(found.recommendations[0].saving.low, 0.0);
    }

    #[test]
    fn expected_saving_is_one_doubling() {
        let found = recommend(&Settings::default(), &window(vec![using(0.21, 70.0)]));
        let saving = found.recommendations[0].saving;
        assert!((saving.expected - 1.0 / 3.0).abs() < 1e-9 && saving.high <= 0.5, "{saving:?}");
    }

    #[test]
    fn pools_services_and_other_loads_are_skipped() {
        let settings = Settings::default();
        assert!(levers(&settings, with_memory(steady(3_600, 0.5), 70.0)).is_empty(), "a pool");
        let serving = Gpu { workload: Workload::Serving, ..using(0.5, 70.0) };
        assert!(levers(&settings, serving).is_empty());
        assert!(levers(&settings, with_memory(bouncing(3_600, 40, 0.5), 70.0)).is_empty());
        assert!(levers(&settings, using(0.97, 70.0)).is_empty());
        assert!(levers(&settings, steady(3_600, 0.5)).is_empty(), "memory was not recorded");
    }
}
