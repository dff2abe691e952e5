//! A lasting change: the load of a job fell at some time and stayed low, which most likely has a cause outside of the GPU.

use phasemeter_diagnoses::{MATTERS, SAME_MEMORY, SIMILAR, confidence, share, time};
use phasemeter_policy::column::{mean as mean_of, observed};
use phasemeter_policy::format::{duration, gib, instant, percent};
use phasemeter_policy::{Gpu, Recommendation, Target, Window, Workload, evidence, groups, mean};

use crate::Settings;

/// Load after a change, relative to that before, at most. An assumption.
const FALLEN: f64 = 0.5;

/// Parts of the time before a change, and of that after it, whose loads are alike. An assumption.
const PARTS: usize = 8;

/// How far the load of one of them is from their mean, relative to the load before, at most. An assumption.
const ALIKE: f64 = 0.25;

/// What one GPU did before and after.
struct Change<'a> {
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
        apart <= time::LASTING && is_same(0) && is_same(1)
    };
    groups(found, near).iter().map(|group| describe(group, window)).collect()
}

/// Of services demand changes the load, and of sessions their user.
fn change<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    let lost = gpu.lost_idle() + gpu.lost_underload() + gpu.lost_starvation();
    let may_change = gpu.workload.is_job() || gpu.workload == Workload::Unknown;
    let column = &gpu.utilization;
    let least = (time::USUAL / window.step_seconds).ceil().max(PARTS as f64) as usize;
    if !may_change || lost < MATTERS || column.len() < least + least {
        return None;
    }
    let point = split(column, least)?;
    let of = |column: &[f64]| Some([mean_of(&column[..point])?, mean_of(&column[point..])?]);
    let levels = of(column)?;
    let is_even = |side: &[f64], level: f64| {
        let parts = side.chunks(side.len().div_ceil(PARTS)).filter_map(mean_of);
        parts.into_iter().all(|part| (part - level).abs() <= ALIKE * levels[0])
    };
    // Work that comes back, as every night, did not change.
    let middle = f64::midpoint(levels[0], levels[1]);
    let busy = observed(&column[point..]).filter(|level| *level >= middle).count();
    let comes_back = busy as f64 > share::HARDLY_ANY * (column.len() - point) as f64;
    let fell = levels[1] <= FALLEN * levels[0] && levels[0] >= share::HARDLY_ANY;
    let memory = gpu.memory.get(..column.len()).and_then(of);
    // Work that ended leaves nothing, or what its process holds.
    let is_other = |[before, after]: [f64; 2]| {
        after > share::HARDLY_ANY * before && (before - after).abs() > SAME_MEMORY * before
    };
    let ended = levels[1] <= share::HARDLY_ANY * levels[0] && !memory.is_some_and(is_other);
    let lasts = is_even(&column[..point], levels[0]) && is_even(&column[point..], levels[1]);
    (fell && lasts && !ended && !comes_back).then_some(Change { gpu, point, levels, memory })
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
    let (held, cause) = match group[0].memory {
        Some([a, b]) if (a - b).abs() <= SAME_MEMORY * f64::max(a, b) => (
            ", with the same memory in use",
            "The same process most likely goes on, and something outside of the GPU limits it",
        ),
        Some(_) => (
            ", with other memory in use",
            "Another process most likely took its place, and does something else, or works on the CPU",
        ),
        None => ("", "Something outside of the GPU limits it, or other work took its place"),
    };
    let memory = group[0].memory.map_or_else(String::new, |[a, b]| {
        [" (", &*gib(a), " before and ", &gib(b), " since)"].concat()
    });
    let lost = |of: fn(&Gpu) -> f64| mean(gpus(), of);
    let is_idle = lost(Gpu::lost_idle) >= lost(Gpu::lost_underload);
    let target = match (group[0].gpu.is_bouncing(), is_idle) {
        (true, _) => Target::Starvation,
        (false, true) => Target::Idle,
        (false, false) => Target::Underload,
    };
    Recommendation {
        title: format!("Find out what changed at {since}"),
        action: "Look at what was started or set then, on the host too: a run, an image, a neighbor, a disk. Read the log \
                 of the process, and sample its stack (py-spy dump --pid PID): it may work on the CPU."
            .to_owned(),
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
    fn work_that_varies_or_depends_on_others_did_not_change() {
        let serving = Gpu { workload: Workload::Serving, ..with_memory(falls(0.9, 0.1), 20.0) };
        assert!(found(vec![serving]).is_empty(), "demand");
        assert!(found(vec![with_memory(falls(0.9, 0.6), 20.0)]).is_empty(), "it fell little");
        assert!(found(vec![with_memory(falls(0.1, 0.9), 20.0)]).is_empty(), "it rose");
        let day = |second: usize| if (second / 3_600).is_multiple_of(2) { 0.9 } else { 0.1 };
        assert!(found(vec![with_memory(gpu(PatternKind::Mixed, 21_600, day), 20.0)]).is_empty());
        let nights = |second: usize| if second < 7_200 || second % 2_400 < 500 { 0.9 } else { 0.0 };
        assert!(found(vec![with_memory(gpu(PatternKind::Mixed, 40_000, nights), 20.0)]).is_empty());
        let slope = |second: usize| 0.9 - second as f64 / 27_000.0;
        assert!(found(vec![with_memory(gpu(PatternKind::Mixed, 21_600, slope), 20.0)]).is_empty());
    }
}
