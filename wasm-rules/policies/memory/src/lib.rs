//! Memory: what to do where it decides.
//!
//! Too full, it keeps batches small and a job close to failing; nearly empty, it has room for
//! another job. The pattern still comes first: a GPU that waits for its input, or is busy
//! throughout, is not judged by its memory, unless it is about to run out of it. Without a column
//! of memory there is nothing to say.

use phasemeter_policy::column::drift;
use phasemeter_policy::words::{count, each, gib, percent};
use phasemeter_policy::{
    Gpu, PatternKind, Policy, Recommendation, Recommender, Saving, Target, Window, groups, targets,
};

phasemeter_policy::settings! {
    /// Whose thresholds hold: right-sizing packs below 40 % of memory, calls it pressed from 80 %
    /// and about to run out from 95 %; analytics and optimization call it pressed from 85 %.
    profile: text = "right-sizing" of ["right-sizing", "analytics", "optimization"];
    /// GPUs that lost less than this share of their bill unfilled are left alone.
    least_lost: number = 0.05 in 0.0..=1.0;
    /// GPUs that were observed for less than this many seconds are not judged.
    least_seconds: number = 60.0 in 0.0..=86400.0;
}

/// A GPU busy below this is not filled.
const PRODUCTIVE: f64 = 0.7;

/// Checkpointing computes the forward pass twice; a backward pass costs two forward ones, so the
/// work of a step grows by a third at most.
const RECOMPUTED: f64 = 4.0 / 3.0;

/// What weights of half the width give back to activations and caches is taken to fill the GPU
/// half as far as unbounded memory would. An assumption; no measurement stands behind it.
const NARROWED: f64 = 0.5;

/// Jobs that share a GPU keep it this busy, and this full, at most.
const MOST_BUSY: f64 = 0.8;
const MOST_MEMORY: f64 = 0.95;

/// What of the room others come to use: a quarter, half, nearly all. An assumption.
const FILLED: [f64; 3] = [0.25, 0.5, 0.9];

/// A load whose highest sixth is this much above its lowest follows demand: it is served.
const DRIFTS: f64 = 1.4;

struct Memory;

impl Policy for Memory {
    const NAME: &'static str = "memory";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds GPUs whose memory is too full to batch more, or has room for more jobs.";
    type Settings = Settings;
}

/// The shares of memory from which on something is said.
struct Profile {
    pack_below: f64,
    pressed: f64,
    full: f64,
}

impl Profile {
    fn of(settings: &Settings) -> Self {
        match settings.profile {
            "right-sizing" => Self { pack_below: 0.4, pressed: 0.8, full: 0.95 },
            _ => Self { pack_below: 0.0, pressed: 0.85, full: 1.0 },
        }
    }
}

/// What one means does for one GPU.
struct Finding<'a> {
    gpu: &'a Gpu,
    share: f64,
    means: Means,
    saving: Saving,
}

#[derive(Clone, Copy, PartialEq)]
enum Means {
    /// Keep it from failing.
    Spare,
    /// Free memory by computing more.
    Checkpoint,
    /// Free memory by narrower weights.
    Quantize,
    /// Let so many jobs share it.
    Pack(usize),
}

impl Recommender for Memory {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let profile = Profile::of(settings);
        let findings = window.seen(settings.least_seconds).into_iter().filter_map(|gpu| {
            let share = gpu.memory_share()?;
            let (means, saving) = judge(gpu, share, &profile, settings)?;
            Some(Finding { gpu, share, means, saving })
        });
        let alike = |a: &Finding<'_>, b: &Finding<'_>| {
            a.means == b.means && (a.gpu.lost_unfilled() - b.gpu.lost_unfilled()).abs() <= 0.1
        };
        groups(findings, alike).iter().filter_map(|group| advise(group)).collect()
    }
}

fn judge(gpu: &Gpu, share: f64, profile: &Profile, settings: &Settings) -> Option<(Means, Saving)> {
    let (level, lost) = (gpu.accounts.busy().level(), gpu.lost_unfilled());
    let steady = gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Steady);
    if steady && level < PRODUCTIVE && lost >= settings.least_lost {
        if share >= profile.pressed {
            let served = drift(&gpu.utilization, 6).is_some_and(|(low, high)| high > DRIFTS * low);
            return Some(if served {
                (Means::Quantize, Saving::by_filling(NARROWED * lost, level, 1.0))
            } else {
                // Of each dollar, what the same steps take less, done busier but longer.
                let saved = targets(level).map(|to| f64::min(1.0 - RECOMPUTED * level / to, lost));
                (Means::Checkpoint, Saving::part(1.0, saved))
            });
        }
        let jobs = f64::min(MOST_MEMORY / share, MOST_BUSY / level).clamp(0.0, 16.0) as usize;
        if share < profile.pack_below && jobs >= 2 {
            let room = f64::min(lost, 1.0 - 1.0 / jobs as f64);
            return Some((Means::Pack(jobs), Saving::part(room, FILLED)));
        }
    }
    (share >= profile.full).then_some((Means::Spare, Saving::NOTHING))
}

/// What to do for GPUs whose memory is alike.
fn advise(group: &[Finding<'_>]) -> Option<Recommendation> {
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
        ("occupancy.share_of_bill".to_owned(), mean(|f| f.gpu.lost_unfilled())),
    ];
    let why = format!(
        "{} has {} of memory in use, {}, and is {} busy. ",
        each(group.len()),
        gib(peak),
        percent(share),
        percent(level),
    );
    let (code, lever, title, action, also, sure) = match first.means {
        Means::Spare => (
            "memory.spare",
            "checkpointing",
            "It is about to run out of memory",
            "Recompute activations (checkpointing), or take a slightly smaller batch, before a \
             longer sequence ends the run."
                .to_owned(),
            "That saves nothing by itself; what runs out of memory loses all since its last \
             checkpoint."
                .to_owned(),
            0.6,
        ),
        Means::Checkpoint => (
            "memory.checkpoint",
            "checkpointing",
            "Trade computing for memory, and batch more",
            "Turn activation checkpointing on for the largest layers, double the batch, and \
             compare samples a second."
                .to_owned(),
            "Memory keeps its batch small while the GPU has time. Recomputing costs a third more \
             arithmetic at most, which is in the saving."
                .to_owned(),
            0.5,
        ),
        Means::Quantize => (
            "memory.quantize",
            "quantization",
            "Quantize the weights, and serve more at a time",
            "Serve in INT8 or FP8, or quantize the cache, and let batches grow into what that \
             frees; compare quality before it is used."
                .to_owned(),
            "Its load drifts as demand does, and memory bounds how many requests it holds at once."
                .to_owned(),
            0.5,
        ),
        Means::Pack(jobs) => {
            evidence.push(("jobs".to_owned(), jobs as f64));
            (
                "memory.pack",
                "mps",
                "Let several jobs share it",
                format!(
                    "Run {} of this size on it under MPS, with a limit of memory for each.",
                    count(jobs, "job")
                ),
                format!(
                    "By memory and by time {jobs} such jobs fit. The saving is what others come \
                     to use."
                ),
                0.5,
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
        saving: Saving::together(group.iter().map(|f| (f.gpu, f.saving))),
        confidence: sure * mean(|f| f.gpu.certainty()),
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
        found.into_iter().map(|advice| advice.lever).collect()
    }

    #[test]
    fn the_profile_says_what_is_full() {
        let held = |gib| with_memory(steady(3_600, 0.5), gib);
        let (sizing, other) =
            (Settings::default(), Settings { profile: "analytics", ..Settings::default() });
        assert_eq!(levers(&sizing, held(66.0)), ["checkpointing"]);
        assert!(levers(&other, held(66.0)).is_empty());
        assert_eq!(levers(&other, held(70.0)), ["checkpointing"]);
        let few = with_memory(steady(3_600, 0.3), 20.0);
        assert_eq!(levers(&sizing, few.clone()), ["mps"]);
        assert!(levers(&other, few).is_empty());
    }

    #[test]
    fn recomputing_is_paid_for_before_anything_is_saved() {
        let found = Memory::recommend(
            &Settings::default(),
            &window(vec![with_memory(steady(3_600, 0.5), 70.0)]),
        );
        // 4/3 × 0.5/0.7 of the time, and of a dollar 20/21.
        assert!((found[0].saving.expected - 1.0 / 21.0).abs() < 1e-9);
        let busy = Memory::recommend(
            &Settings::default(),
            &window(vec![with_memory(steady(3_600, 0.65), 70.0)]),
        );
        assert_eq!(busy[0].saving.low, 0.0);
    }

    #[test]
    fn the_pattern_comes_first() {
        let settings = Settings::default();
        assert!(levers(&settings, with_memory(bouncing(3_600, 40, 0.5), 10.0)).is_empty());
        assert!(levers(&settings, with_memory(steady(3_600, 0.97), 72.0)).is_empty());
        // But what is about to fail is told.
        let full =
            Memory::recommend(&settings, &window(vec![with_memory(steady(3_600, 0.97), 78.0)]));
        assert_eq!((full[0].lever.as_str(), full[0].saving.high), ("checkpointing", 0.0));
    }

    #[test]
    fn a_load_that_follows_demand_is_served() {
        let wave =
            gpu(PatternKind::Steady, 7_200, |second| 0.25 + 0.15 * ((second / 1_200) as f64 / 5.0));
        assert_eq!(levers(&Settings::default(), with_memory(wave, 70.0)), ["quantization"]);
    }

    #[test]
    fn without_a_column_of_memory_there_is_nothing_to_say() {
        assert!(levers(&Settings::default(), steady(3_600, 0.5)).is_empty());
    }
}
