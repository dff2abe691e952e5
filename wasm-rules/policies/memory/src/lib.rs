//! Recommends actions for GPUs whose memory is nearly full or nearly empty.
//!
//! Full memory keeps batches small and risks out-of-memory failures; empty memory fits another job.
//! Applies to steady, underloaded GPUs only, except for the risk of running out. Needs a memory
//! column.

use phasemeter_policy::column::drift;
use phasemeter_policy::format::{count, gib, percent, subject};
use phasemeter_policy::{
    Gpu, PatternKind, Policy, Recommendation, Recommender, Saving, Target, Window, groups,
    target_loads,
};

phasemeter_policy::settings! {
    /// Memory thresholds. right-sizing: share below 40%, pressure from 80%, critical from 95%.
    /// analytics and optimization: pressure from 85%.
    profile: text = "right-sizing" of ["right-sizing", "analytics", "optimization"];
    /// Minimum share of the bill lost to underload.
    min_lost: number = 0.05 in 0.0..=1.0;
    /// Minimum observed time, in seconds.
    min_seconds: number = 60.0 in 0.0..=86400.0;
}

/// Utilization below which a GPU is underloaded.
const PRODUCTIVE: f64 = 0.7;

/// Work per step with checkpointing, relative to without: the forward pass runs twice, and a backward
/// pass costs two forward passes.
const CHECKPOINTING_WORK: f64 = 4.0 / 3.0;

/// Saving from weights of half the width, relative to unlimited memory. An assumption, not a
/// measurement.
const QUANTIZATION_SHARE: f64 = 0.5;

/// Maximum utilization and memory use of a shared GPU.
const MAX_UTILIZATION: f64 = 0.8;
const MAX_MEMORY: f64 = 0.95;

/// Share of the free capacity that other jobs use: low, expected, high. An assumption.
const REUSED: [f64; 3] = [0.25, 0.5, 0.9];

/// Ratio of the highest to the lowest sixth from which a load is serving: it follows demand.
const SERVING_DRIFT: f64 = 1.4;

struct Memory;

impl Policy for Memory {
    const NAME: &'static str = "memory";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds GPUs whose memory is too full to batch more, or free for more jobs.";
    type Settings = Settings;
}

/// Memory thresholds, as shares of total memory.
struct Profile {
    share_below: f64,
    pressure: f64,
    critical: f64,
}

impl Profile {
    fn new(settings: &Settings) -> Self {
        match settings.profile {
            "right-sizing" => Self { share_below: 0.4, pressure: 0.8, critical: 0.95 },
            _ => Self { share_below: 0.0, pressure: 0.85, critical: 1.0 },
        }
    }
}

/// An action for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    /// Peak share of memory.
    share: f64,
    action: Action,
    saving: Saving,
}

#[derive(Clone, Copy, PartialEq)]
enum Action {
    /// Prevent running out of memory.
    Spare,
    /// Free memory by recomputing activations.
    Checkpoint,
    /// Free memory with narrower weights.
    Quantize,
    /// Share the GPU between this many jobs.
    Share(usize),
}

impl Recommender for Memory {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let profile = Profile::new(settings);
        let findings = window.observed_gpus(settings.min_seconds).into_iter().filter_map(|gpu| {
            let share = gpu.memory_share()?;
            let (action, saving) = choose(gpu, share, &profile, settings)?;
            Some(Finding { gpu, share, action, saving })
        });
        let similar = |a: &Finding<'_>, b: &Finding<'_>| {
            a.action == b.action && (a.gpu.lost_underload() - b.gpu.lost_underload()).abs() <= 0.1
        };
        groups(findings, similar).iter().filter_map(|group| recommend(group)).collect()
    }
}

fn choose(
    gpu: &Gpu,
    share: f64,
    profile: &Profile,
    settings: &Settings,
) -> Option<(Action, Saving)> {
    let (level, lost) = (gpu.accounts.busy().level(), gpu.lost_underload());
    let steady = gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Steady);
    if steady && level < PRODUCTIVE && lost >= settings.min_lost {
        if share >= profile.pressure {
            let is_serving =
                drift(&gpu.utilization, 6).is_some_and(|(low, high)| high > SERVING_DRIFT * low);
            return Some(if is_serving {
                (Action::Quantize, Saving::from_target_load(QUANTIZATION_SHARE * lost, level, 1.0))
            } else {
                // The steps take more work, at a higher load.
                let saved = target_loads(level)
                    .map(|to| f64::min(1.0 - CHECKPOINTING_WORK * level / to, lost));
                (Action::Checkpoint, Saving::part(1.0, saved))
            });
        }
        let jobs = f64::min(MAX_MEMORY / share, MAX_UTILIZATION / level).clamp(0.0, 16.0) as usize;
        if share < profile.share_below && jobs >= 2 {
            let free = f64::min(lost, 1.0 - 1.0 / jobs as f64);
            return Some((Action::Share(jobs), Saving::part(free, REUSED)));
        }
    }
    (share >= profile.critical).then_some((Action::Spare, Saving::NONE))
}

/// Recommends an action for GPUs with similar memory use.
fn recommend(group: &[Finding<'_>]) -> Option<Recommendation> {
    let first = group.first()?;
    let mean =
        |value: fn(&Finding<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let share = group.iter().map(|f| f.share).fold(0.0, f64::max);
    let peak = group.iter().filter_map(|f| f.gpu.memory_peak()).reduce(f64::max)?;
    let level = mean(|f| f.gpu.accounts.busy().level());
    let mut evidence = vec![
        ("memory.peak_bytes".to_owned(), peak),
        ("memory.peak_share".to_owned(), share),
        ("busy.utilization".to_owned(), level),
        ("underload.share_of_bill".to_owned(), mean(|f| f.gpu.lost_underload())),
    ];
    let usage = format!(
        "{} uses up to {} of memory ({}) and is {} busy. ",
        subject(group.len()),
        gib(peak),
        percent(share),
        percent(level),
    );
    let (code, lever, title, action, detail, confidence) = match first.action {
        Action::Spare => (
            "memory.spare",
            "checkpointing",
            "Avoid running out of memory",
            "Turn on activation checkpointing, or use a slightly smaller batch, before a longer \
             sequence fails the run."
                .to_owned(),
            "This saves nothing by itself. A run that fails loses all work since its last saved \
             state."
                .to_owned(),
            0.6,
        ),
        Action::Checkpoint => (
            "memory.checkpoint",
            "checkpointing",
            "Use checkpointing and a larger batch",
            "Turn on activation checkpointing for the largest layers, double the batch, and compare \
             samples per second."
                .to_owned(),
            "Memory limits the batch while compute has headroom. Checkpointing adds at most a third \
             more arithmetic; the saving accounts for that."
                .to_owned(),
            0.5,
        ),
        Action::Quantize => (
            "memory.quantize",
            "quantization",
            "Quantize the weights and serve larger batches",
            "Serve in INT8 or FP8, or quantize the KV cache, and use the freed memory for larger \
             batches. Compare quality before deployment."
                .to_owned(),
            "The load follows demand, and memory limits the number of concurrent requests."
                .to_owned(),
            0.5,
        ),
        Action::Share(jobs) => {
            evidence.push(("jobs".to_owned(), jobs as f64));
            (
                "memory.pack",
                "mps",
                "Share this GPU between several jobs",
                format!(
                    "Run {} of this size on it with MPS, each with a memory limit.",
                    count(jobs, "job")
                ),
                format!(
                    "Memory and compute fit {jobs} such jobs. The saving is the capacity that other \
                     jobs use."
                ),
                0.5,
            )
        }
    };
    Some(Recommendation {
        code: code.to_owned(),
        target: Target::Underload,
        lever: lever.to_owned(),
        title: title.to_owned(),
        action,
        rationale: usage + &detail,
        saving: Saving::combined(group.iter().map(|f| (f.gpu, f.saving))),
        confidence: confidence * mean(|f| f.gpu.confidence()),
        evidence,
        gpus: group.iter().map(|f| f.gpu.id.clone()).collect(),
    })
}

phasemeter_policy::recommender!(Memory);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};

    use super::*;

    fn levers(settings: &Settings, gpu: Gpu) -> Vec<String> {
        let found = Memory::recommend(settings, &window(vec![gpu]));
        found.into_iter().map(|one| one.lever).collect()
    }

    #[test]
    fn profile_sets_thresholds() {
        let using = |gib| with_memory(steady(3_600, 0.5), gib);
        let (sizing, other) =
            (Settings::default(), Settings { profile: "analytics", ..Settings::default() });
        assert_eq!(levers(&sizing, using(66.0)), ["checkpointing"]);
        assert!(levers(&other, using(66.0)).is_empty());
        assert_eq!(levers(&other, using(70.0)), ["checkpointing"]);
        let few = with_memory(steady(3_600, 0.3), 20.0);
        assert_eq!(levers(&sizing, few.clone()), ["mps"]);
        assert!(levers(&other, few).is_empty());
    }

    #[test]
    fn checkpointing_saving_accounts_for_extra_work() {
        let found = Memory::recommend(
            &Settings::default(),
            &window(vec![with_memory(steady(3_600, 0.5), 70.0)]),
        );
        // 4/3 × 0.5/0.7 of the time, so 1/21 is saved.
        assert!((found[0].saving.expected - 1.0 / 21.0).abs() < 1e-9);
        let busy = Memory::recommend(
            &Settings::default(),
            &window(vec![with_memory(steady(3_600, 0.65), 70.0)]),
        );
        assert_eq!(busy[0].saving.low, 0.0);
    }

    #[test]
    fn only_steady_underload_is_considered_unless_critical() {
        let settings = Settings::default();
        assert!(levers(&settings, with_memory(bouncing(3_600, 40, 0.5), 10.0)).is_empty());
        assert!(levers(&settings, with_memory(steady(3_600, 0.97), 72.0)).is_empty());
        // Except for the risk of running out of memory.
        let full =
            Memory::recommend(&settings, &window(vec![with_memory(steady(3_600, 0.97), 78.0)]));
        assert_eq!((full[0].lever.as_str(), full[0].saving.high), ("checkpointing", 0.0));
    }

    #[test]
    fn drifting_load_is_treated_as_serving() {
        let wave =
            gpu(PatternKind::Steady, 7_200, |second| 0.25 + 0.15 * ((second / 1_200) as f64 / 5.0));
        assert_eq!(levers(&Settings::default(), with_memory(wave, 70.0)), ["quantization"]);
    }

    #[test]
    fn missing_memory_column_gives_no_recommendation() {
        assert!(levers(&Settings::default(), steady(3_600, 0.5)).is_empty());
    }
}
