//! A lasting change: the load of a job fell at some time and stayed low, or was low until then, which most likely has a cause
//! outside of the GPU; or what people use became full for good, which may be somebody else's work.

use phasemeter_diagnoses::{MATTERS, SAME_MEMORY, SIMILAR, confidence, share, taken_over, time};
use phasemeter_policy::column::{mean as mean_of, observed};
use phasemeter_policy::format::{duration, gib, instant, percent};
use phasemeter_policy::{
    Gpu, Recommendation, RecommendationKind, Target, Window, Workload, evidence, groups, mean,
};

use crate::Settings;

/// Load after a change, relative to that before, at most. An assumption.
const FALLEN: f64 = 0.5;

/// Parts of the time before a change, and of that after it, whose loads are alike. An assumption.
const PARTS: usize = 8;

/// How far the load of one of them is from their mean, relative to the load before, at most. An assumption.
const ALIKE: f64 = 0.25;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// The load of a job fell.
    Fell,
    /// It was low at first.
    Rose,
    /// What was used now and then is full.
    TakenOver,
}

/// What one GPU did before and after.
struct Change<'a> {
    kind: Kind,
    gpu: &'a Gpu,
    /// The first point after it.
    point: usize,
    levels: [f64; 2],
    /// Memory in use in bytes, if it was recorded.
    memory: Option<[f64; 2]>,
}

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= settings.min_seconds;
    let found = window.gpus.iter().filter(long).filter_map(|gpu| change(gpu, window));
    let near = |a: &Change<'_>, b: &Change<'_>| {
        let apart = a.point.abs_diff(b.point) as f64 * window.step_seconds;
        let is_same = |at: usize| (a.levels[at] - b.levels[at]).abs() <= SIMILAR;
        a.kind == b.kind && apart <= time::LASTING && is_same(0) && is_same(1)
    };
    groups(found, near).iter().map(|group| describe(group, window)).collect()
}

fn change<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    let column = &gpu.utilization;
    let least = (time::USUAL / window.step_seconds).ceil().max(PARTS as f64) as usize;
    if column.len() < least + least {
        return None;
    }
    let taken_over = taken_over(gpu, window);
    let point = taken_over.or_else(|| split(column, least))?;
    let (before, after) = column.split_at(point);
    let levels = [mean_of(before)?, mean_of(after)?];
    let memory = gpu.memory.get(..column.len());
    let memory = memory.and_then(|it| Some([mean_of(&it[..point])?, mean_of(&it[point..])?]));
    let most = levels[0].max(levels[1]);
    let is_even = |side: &[f64], level: f64| {
        let parts = side.chunks(side.len().div_ceil(PARTS)).filter_map(mean_of);
        parts.into_iter().all(|part| (part - level).abs() <= ALIKE * most)
    };
    let lasts = || is_even(before, levels[0]) && is_even(after, levels[1]);
    // Of services demand changes the load, and of sessions their user.
    let is_job = gpu.workload.is_job() || gpu.workload == Workload::Unknown;
    let lost = gpu.lost_idle() + gpu.lost_underload() + gpu.lost_starvation();
    let is_wasteful = is_job && lost >= MATTERS;
    let bounds = window.thresholds();
    let kind = if taken_over.is_some() {
        Some(Kind::TakenOver)
    } else if levels[1] <= FALLEN * levels[0] {
        // Work that comes back, as every night, did not change.
        let middle = f64::midpoint(levels[0], levels[1]);
        let busy = observed(after).filter(|level| *level >= middle).count();
        let comes_back = busy as f64 > share::HARDLY_ANY * after.len() as f64;
        // Work that ended leaves nothing, or what its process holds.
        let is_other = |[before, after]: [f64; 2]| {
            after > share::HARDLY_ANY * before && (before - after).abs() > SAME_MEMORY * before
        };
        let ended = levels[1] <= share::HARDLY_ANY * levels[0] && !memory.is_some_and(is_other);
        let fell = is_wasteful && levels[0] >= share::HARDLY_ANY;
        (fell && !ended && !comes_back && lasts()).then_some(Kind::Fell)
    } else if levels[0] > FALLEN * levels[1] {
        None
    } else {
        let has_worked = levels[0] > share::HARDLY_ANY * levels[1];
        let rose = is_wasteful && has_worked && levels[1] >= bounds.productive;
        (rose && lasts()).then_some(Kind::Rose)
    };
    Some(Change { kind: kind?, gpu, point, levels, memory })
}

/// The point that divides a column into two parts of at least `least` points whose values differ the most from one
/// another, and the least among themselves.
fn split(column: &[f64], least: usize) -> Option<usize> {
    let all: f64 = observed(column).sum();
    let count = observed(column).count() as f64;
    let (mut sum, mut seen) = (0.0, 0.0);
    let (mut best, mut most) = (None, 0.0);
    for (point, value) in column.iter().enumerate() {
        let is_inside = point >= least && point + least <= column.len();
        let between = (sum * count - all * seen).powi(2) / (seen * (count - seen)).max(1.0);
        if is_inside && between > most {
            (best, most) = (Some(point), between);
        }
        if !value.is_nan() {
            sum += value;
            seen += 1.0;
        }
    }
    best
}

fn describe(group: &[Change<'_>], window: &Window) -> Recommendation {
    let gpus = || group.iter().map(|it| it.gpu);
    let [before, after] = [0, 1].map(|at| mean(group, |it| it.levels[at]));
    let seconds = group[0].point as f64 * window.step_seconds;
    let all = group[0].gpu.utilization.len() as f64 * window.step_seconds;
    let since = instant(window.start.saturating_add((seconds * 1e9) as u64));
    let kind = group[0].kind;
    let is_same = |[a, b]: [f64; 2]| (a - b).abs() <= SAME_MEMORY * f64::max(a, b);
    let is_same = group[0].memory.map(is_same);
    let held = match is_same {
        Some(true) => ", with the same memory in use",
        Some(false) => ", with other memory in use",
        None => "",
    };
    let cause = match (kind, is_same) {
        (Kind::TakenOver, _) => {
            "People pause; this does not: a long job, a loop that was left, or work of somebody else, such as mining"
        }
        (Kind::Fell, Some(true)) => {
            "The same process most likely goes on, and something outside of the GPU limits it"
        }
        (Kind::Fell, Some(false)) => {
            "Another process most likely took its place, and does something else, or works on the CPU"
        }
        (Kind::Fell, None) => {
            "Something outside of the GPU limits it, or other work took its place"
        }
        (Kind::Rose, Some(true)) => {
            "The same process most likely prepared, compiled or read from a cold disk at first"
        }
        (Kind::Rose, _) => {
            "It prepared, compiled or read from a cold disk at first, or other work came before"
        }
    };
    let (title, action) = match kind {
        Kind::Fell => (
            "Find out what changed at ",
            "Look at what was started or set then, on the host too: a run, an image, a neighbor, a disk. Read the log of \
             the process, and sample its stack (py-spy dump --pid PID): it may work on the CPU.",
        ),
        Kind::Rose => (
            "Find out what it waited for until ",
            "Read its log of that time: compilation for each shape, tuning, downloads, the first pass over the data. Keep \
             between runs what it prepares, or prepare it before the GPUs are taken.",
        ),
        Kind::TakenOver => (
            "Find out whose work has been running since ",
            "Name its owner and its process before anything else is done for it. A long job belongs in a queue, with a \
             limit of its time. What nobody has started is a matter of security: keep its traces.",
        ),
    };
    let memory = group[0].memory.map_or_else(String::new, |[a, b]| {
        [" (", &*gib(a), " before and ", &gib(b), " since)"].concat()
    });
    let lost = |of: fn(&Gpu) -> f64| mean(gpus(), of);
    let is_idle = lost(Gpu::lost_idle) >= lost(Gpu::lost_underload);
    let target = match (kind, group[0].gpu.is_bouncing(), is_idle) {
        (Kind::TakenOver, ..) => Target::Throughput,
        (_, true, _) => Target::Starvation,
        (_, false, true) => Target::Idle,
        (_, false, false) => Target::Underload,
    };
    Recommendation {
        title: [title, &since].concat(),
        action: action.to_owned(),
        rationale: format!(
            "Load was {} for {}, and has been {} for {} since{held}{memory}. {cause}.",
            percent(before),
            duration(seconds),
            percent(after),
            duration(all - seconds),
        ),
        confidence: confidence::PROBABLE * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("utilization.before", before, "1"),
            ("utilization.since", after, "1"),
            ("since.time", all - seconds, "s"),
        ]),
        kind: match kind {
            Kind::TakenOver => RecommendationKind::Risk,
            Kind::Fell | Kind::Rose => RecommendationKind::Saving,
        },
        ..Recommendation::new("measure.change", target, "measure", gpus())
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::PatternKind;
    use phasemeter_policy::testing::{gpu, window, with_memory};

    use super::*;

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(gpus))
    }

    /// At the first level for two hours, at the second for four.
    fn falls(before: f64, after: f64) -> Gpu {
        gpu(PatternKind::Mixed, 21_600, move |second| if second < 7_200 { before } else { after })
    }

    #[test]
    fn load_that_fell_and_stayed_low_is_explained_first() {
        let one = &found(vec![with_memory(falls(0.9, 0.1), 20.0); 2])[0];
        assert_eq!((one.code.as_str(), one.gpus.len()), ("measure.change", 2));
        assert!(
            one.rationale
                .starts_with("Load was 90% for 2 h, and has been 10% for 4 h since, with the same")
        );
        let mut other = with_memory(falls(0.9, 0.0), 20.0);
        let half = other.memory.len() / 3;
        other.memory[half..].iter_mut().for_each(|bytes| *bytes /= 5.0);
        assert!(found(vec![other.clone()])[0].rationale.contains("Another process"));
        other.memory[half..].fill(0.0);
        assert!(found(vec![other]).is_empty(), "it ended");
        let unrecorded = found(vec![Gpu { memory: Vec::new(), ..falls(0.9, 0.1) }]);
        assert!(unrecorded[0].rationale.contains("other work took its place"));
    }

    #[test]
    fn what_delayed_a_job_at_first_is_asked_for() {
        // Waits of 25 minutes with bursts of four, for 3.5 hours.
        let compiles =
            |second: usize| if second < 12_600 && second % 1_740 < 1_500 { 0.0 } else { 0.95 };
        let one = &found(vec![with_memory(gpu(PatternKind::Mixed, 50_400, compiles), 60.0)])[0];
        assert!(one.title.starts_with("Find out what it waited for until"), "{}", one.title);
        assert!(one.rationale.contains("most likely prepared, compiled"), "{}", one.rationale);
    }

    #[test]
    fn work_without_a_pause_where_people_work_is_asked_for() {
        let level = |second: usize| match second {
            ..36_000 if second % 1_200 < 300 => 0.6,
            ..72_000 => 0.0,
            _ => 1.0,
        };
        let of = |workload, seconds| {
            let gpu = gpu(PatternKind::Mixed, seconds, level);
            found(vec![with_memory(Gpu { workload, ..gpu }, 20.0)])
        };
        let one = &of(Workload::Interactive, 144_000)[0];
        assert!(
            one.title.starts_with("Find out whose work has been running since"),
            "{}",
            one.title
        );
        assert_eq!(one.kind, RecommendationKind::Risk);
        assert!(of(Workload::Interactive, 90_000).is_empty(), "five hours");
        assert!(of(Workload::Training, 144_000).is_empty(), "a job");
    }

    #[test]
    fn work_that_varies_or_depends_on_others_did_not_change() {
        let serving = Gpu { workload: Workload::Serving, ..with_memory(falls(0.9, 0.1), 20.0) };
        assert!(found(vec![serving]).is_empty(), "demand");
        assert!(found(vec![with_memory(falls(0.9, 0.6), 20.0)]).is_empty(), "it fell little");
        assert!(found(vec![with_memory(falls(0.0, 0.9), 20.0)]).is_empty(), "it began");
        let day = |second: usize| if (second / 3_600).is_multiple_of(2) { 0.9 } else { 0.1 };
        assert!(found(vec![with_memory(gpu(PatternKind::Mixed, 21_600, day), 20.0)]).is_empty());
        let nights = |second: usize| if second < 7_200 || second % 2_400 < 500 { 0.9 } else { 0.0 };
        assert!(found(vec![with_memory(gpu(PatternKind::Mixed, 40_000, nights), 20.0)]).is_empty());
        let slope = |second: usize| 0.9 - second as f64 / 27_000.0;
        assert!(found(vec![with_memory(gpu(PatternKind::Mixed, 21_600, slope), 20.0)]).is_empty());
    }
}
