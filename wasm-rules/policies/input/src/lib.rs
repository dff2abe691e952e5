//! Input: what to do where a GPU waits for its data.
//!
//! Only the pattern tells that: a mean of 50 % that bounces between idle and full is a loader that
//! cannot keep up, and the same mean held steadily is not. How long the GPU waits each time says
//! which part of the way is slow; memory only says whether decoding may move onto the GPU.

use phasemeter_policy::words::{decimal, duration, each, gib, percent};
use phasemeter_policy::{Gpu, Policy, Recommendation, Recommender, Saving, Target, Window, groups};

phasemeter_policy::settings! {
    /// GPUs that lost less than this share of their bill waiting are left alone.
    least_lost: number = 0.05 in 0.0..=1.0;
    /// GPUs that were observed for less than this many seconds are not judged.
    least_seconds: number = 60.0 in 0.0..=86400.0;
}

/// From this long a wait on, a loader's queues of a few batches are empty: what is behind them is
/// too slow on average, and no deeper queue helps. Two to four batches of up to a few seconds are
/// what loaders keep ready by default (PyTorch: two a worker).
const LONG_WAIT_SECONDS: f64 = 5.0;

/// Decoding on the GPU takes some GiB of its memory: above this share in use there is no room.
const ROOM_TO_DECODE: f64 = 0.85;

/// What the second means saves of what the first does: it moves one part of the way only. An
/// assumption, for the order of the advice; no measurement stands behind it.
const SECOND_MEANS: f64 = 0.75;

struct Input;

/// A GPU that waits.
struct Waiting<'a> {
    gpu: &'a Gpu,
    lost: f64,
    period: f64,
    duty: f64,
}

impl Policy for Input {
    const NAME: &'static str = "input";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Finds GPUs that wait for their input, and says where it is slow.";
    type Settings = Settings;
}

impl Recommender for Input {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        let waiting = window.seen(settings.least_seconds).into_iter().filter_map(|gpu| {
            let pattern = gpu.pattern.filter(|_| gpu.bounces())?;
            let waiting = Waiting {
                gpu,
                lost: gpu.lost_starving(),
                period: pattern.period_seconds?,
                duty: pattern.duty?,
            };
            (waiting.lost >= settings.least_lost).then_some(waiting)
        });
        let alike = |a: &Waiting<'_>, b: &Waiting<'_>| {
            (a.duty - b.duty).abs() <= 0.1
                && (a.lost - b.lost).abs() <= 0.1
                && a.waits_long() == b.waits_long()
                && a.may_decode() == b.may_decode()
        };
        groups(waiting, alike).iter().flat_map(|group| advise(group)).collect()
    }
}

impl Waiting<'_> {
    /// How long it waits each time.
    fn wait(&self) -> f64 {
        self.period * (1.0 - self.duty)
    }

    fn waits_long(&self) -> bool {
        self.wait() >= LONG_WAIT_SECONDS
    }

    /// Whether its memory has room to decode in; `None` where there was no such column.
    fn may_decode(&self) -> Option<bool> {
        self.gpu.memory_share().map(|share| share <= ROOM_TO_DECODE)
    }
}

/// What to do for GPUs that wait in the same way: the first means, and the second.
fn advise(group: &[Waiting<'_>]) -> Vec<Recommendation> {
    let [first, ..] = group else { return Vec::new() };
    let mean =
        |value: fn(&Waiting<'_>) -> f64| group.iter().map(value).sum::<f64>() / group.len() as f64;
    let (period, duty) = (mean(|w| w.period), mean(|w| w.duty));
    let wait = group.iter().map(Waiting::wait).sum::<f64>() / group.len() as f64;
    let lost = mean(|w| w.lost);
    let faster = if duty > 0.0 { 1.0 / duty } else { f64::INFINITY };
    let all = Saving::together(
        group
            .iter()
            .map(|waiting| (waiting.gpu, Saving::by_filling(waiting.lost, waiting.duty, 1.0))),
    );
    let why = format!(
        "{} is fed for {} of every {} and then waits for {}: {} of the bill went into such \
         stretches. What bounces so is not short of work but of data. To be busy throughout, it \
         would need its input {} times as fast.",
        each(group.len()),
        percent(duty),
        duration(period),
        duration(wait),
        percent(lost),
        decimal(faster, 1),
    );
    let mut evidence = vec![
        ("pattern.period_seconds".to_owned(), period),
        ("pattern.duty".to_owned(), duty),
        ("wait_seconds".to_owned(), wait),
        ("starvation.share_of_bill".to_owned(), lost),
    ];
    let peak = group.iter().filter_map(|w| w.gpu.memory_peak()).reduce(f64::max);
    let memory = peak.zip(first.gpu.memory_share());
    if let Some((_, share)) = memory {
        evidence.push(("memory.peak_share".to_owned(), share));
    }
    let gpus: Vec<_> = group.iter().map(|waiting| waiting.gpu.id.clone()).collect();
    let sure = mean(|w| w.gpu.certainty());
    let make = |code: &str, lever: &str, title: &str, action: String, also: String, part: f64| {
        Recommendation {
            code: code.to_owned(),
            target: Target::Starvation,
            lever: lever.to_owned(),
            title: title.to_owned(),
            action,
            rationale: why.clone() + &also,
            saving: Saving::part(part, [all.low, all.expected, all.high]),
            confidence: 0.8 * part * sure,
            evidence: evidence.clone(),
            gpus: gpus.clone(),
        }
    };
    let long = first.waits_long();
    let workers = make(
        "input.workers",
        "num_workers",
        "Feed it with more loader workers",
        format!(
            "Raise num_workers to about {} times what it is, as far as the processors go, and \
             look whether they or the storage are at their limit.",
            decimal(faster, 1),
        ),
        String::new(),
        1.0,
    );
    let second = if long && first.may_decode() == Some(true) {
        let room = memory
            .map_or_else(String::new, |(peak, _)| format!(" At most {} were in use.", gib(peak)));
        make(
            "input.decode",
            "dali",
            "Decode and augment on the GPU",
            "Move decoding and augmentation from the workers into DALI: where processors are the \
             limit, more workers do not help."
                .to_owned(),
            " There is room in its memory for that.".to_owned() + &room,
            SECOND_MEANS,
        )
    } else if long {
        make(
            "input.storage",
            "storage",
            "Bring the data closer",
            "Stage the data set on local NVMe, or pack it into large shards, and compare."
                .to_owned(),
            " Waits this long outlast any queue of batches.".to_owned(),
            SECOND_MEANS,
        )
    } else {
        make(
            "input.prefetch",
            "prefetch",
            "Keep more batches ready",
            "Raise prefetch_factor, pin memory, and copy with non_blocking so that copies \
             overlap computing."
                .to_owned(),
            " Waits this short may be bridged by a deeper queue.".to_owned(),
            SECOND_MEANS,
        )
    };
    vec![workers, second]
}

phasemeter_policy::recommender!(Input);

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{bouncing, gpu, steady, window, with_memory};

    use super::*;

    fn advice(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Input::recommend(&Settings::default(), &window(gpus))
    }

    #[test]
    fn half_busy_is_advised_only_where_it_bounces() {
        assert!(advice(vec![steady(3_600, 0.5)]).is_empty());
        let found = advice(vec![bouncing(3_600, 40, 0.5)]);
        assert_eq!(found[0].lever, "num_workers");
        // Half busy to 70 %: 2/7 of the bill.
        assert!((found[0].saving.expected - 2.0 / 7.0).abs() < 1e-9);
        assert!(found.iter().all(|advice| advice.saving.high <= 0.5));
    }

    #[test]
    fn the_wait_and_then_memory_say_what_comes_second() {
        let second = |gpu| advice(vec![gpu])[1].lever.clone();
        assert_eq!(second(bouncing(3_600, 40, 0.6)), "storage");
        assert_eq!(second(with_memory(bouncing(3_600, 40, 0.6), 60.0)), "dali");
        assert_eq!(second(with_memory(bouncing(3_600, 40, 0.6), 75.0)), "storage");
        assert_eq!(second(with_memory(bouncing(3_600, 4, 0.5), 60.0)), "prefetch");
    }

    #[test]
    fn gpus_that_wait_alike_are_named_together() {
        let found = advice(vec![
            bouncing(3_600, 40, 0.6),
            bouncing(3_600, 42, 0.6),
            bouncing(3_600, 40, 0.3),
        ]);
        let named: Vec<_> = found.iter().map(|advice| advice.gpus.len()).collect();
        assert_eq!(named, [2, 2, 1, 1]);
    }

    #[test]
    fn too_little_is_no_finding() {
        assert!(advice(vec![bouncing(50, 4, 0.5)]).is_empty());
        assert!(advice(vec![gpu(PatternKind::Bouncing, 3_600, |_| f64::NAN)]).is_empty());
        assert!(advice(vec![]).is_empty());
    }
}
