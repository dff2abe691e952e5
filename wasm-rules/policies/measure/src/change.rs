//! Changes that last, and nothing else explains: load that fell, was low at first, or is divided among more GPUs; memory that
//! grew; and work that goes on without a pause where people work.

use phasemeter_diagnoses::{MATTERS, NO_WORK, SAME_MEMORY, SIMILAR, share, taken_over, time};
use phasemeter_policy::column::{mean as mean_of, observed, peak};
use phasemeter_policy::format::HOUR;
use phasemeter_policy::{Gpu, Window, Workload, groups};

use crate::Settings;

/// Load after a change, relative to that before, at most. An assumption.
const FALLEN: f64 = 0.5;

/// Parts of the time before a change, and of that after it, whose loads are alike. An assumption.
const PARTS: usize = 8;

/// How far the load of one of them is from their mean, relative to the load before, at most. An assumption.
const ALIKE: f64 = 0.25;

/// Load in the last part, relative to that in the first, up to which it sank. An assumption.
const SUNK: f64 = 0.6;

/// What load that sinks rises from part to part at most, relative to that in the first. An assumption.
const RISES: f64 = 0.02;

/// Time at one level from which nobody at a keyboard does the work, in seconds. An assumption.
const WITHOUT_PAUSE: f64 = 4.0 * HOUR;

/// Load of a GPU once others share it, relative to that before, at most. An assumption.
const PARTED: f64 = 0.8;

/// Memory from which a service has grown, relative to the most before. An assumption.
const GROWN: f64 = 1.3;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// The load of a job fell.
    Fell,
    /// It sank little by little.
    Sank,
    /// It was low at first.
    Rose,
    /// A session goes on, with hardly any of its load.
    Withheld,
    /// What was used now and then is full.
    TakenOver,
    /// A session works at the same load without a pause, for longer than people do.
    Unattended,
    /// More GPUs do little more than fewer did.
    Divided,
    /// The memory of a service grew at once, and its load did not.
    Grew,
}

/// What one GPU did before and after.
pub(crate) struct Change<'a> {
    pub(crate) kind: Kind,
    pub(crate) gpu: &'a Gpu,
    /// The first point after it.
    pub(crate) point: usize,
    /// For how many points it lasts.
    pub(crate) points: usize,
    pub(crate) levels: [f64; 2],
    /// Memory in use in bytes, if it was recorded.
    pub(crate) memory: Option<[f64; 2]>,
}

/// The GPUs of a window that changed alike, each in one group.
pub(crate) fn changes<'a>(settings: &Settings, window: &'a Window) -> Vec<Vec<Change<'a>>> {
    let gpus = || {
        let long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= settings.min_seconds;
        window.gpus.iter().filter(long)
    };
    let mut found = divided(gpus().filter_map(|gpu| parted(gpu, window)), window);
    let others: Vec<_> = gpus()
        .filter(|gpu| !found.iter().flatten().any(|it| std::ptr::eq(it.gpu, *gpu)))
        .filter_map(|gpu| change(gpu, window))
        .collect();
    let near = |a: &Change<'_>, b: &Change<'_>| {
        let is_same = |at: usize| (a.levels[at] - b.levels[at]).abs() <= SIMILAR;
        // People begin at different times.
        let is_at_once = || a.kind == Kind::Unattended || at_once(a, b, window);
        a.kind == b.kind && is_at_once() && is_same(0) && is_same(1)
    };
    found.extend(groups(others, near));
    found
}

fn change<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    if let Some(point) = taken_over(gpu, window) {
        return Change::at(point, Kind::TakenOver, gpu);
    }
    of_load(gpu, window).or_else(|| unattended(gpu, window)).or_else(|| of_memory(gpu, window))
}

/// A change of the load of a job, or of a session that goes on.
fn of_load<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    let change = Change::at(split(&gpu.utilization, window)?, Kind::Fell, gpu)?;
    let (before, after) = gpu.utilization.split_at(change.point);
    let levels = change.levels;
    let bounds = window.thresholds();
    // Of services demand changes the load, unless what serves changed too; and of sessions their user.
    let is_other = gpu.workload == Workload::Serving && change.has_same_memory() == Some(false);
    let is_job = gpu.workload.is_job() || gpu.workload == Workload::Unknown || is_other;
    let lost = gpu.lost_idle() + gpu.lost_underload() + gpu.lost_starvation();
    if lost < MATTERS {
        return None;
    }
    if levels[1] <= FALLEN * levels[0] {
        let most = |column: &[f64]| peak(column).unwrap_or(0.0);
        let has_little = most(after) < bounds.idle && share::MOST * most(before) >= most(after);
        let runs = observed(after).filter(|level| *level > 0.0).count();
        let goes_on = has_little && runs as f64 >= share::MOST * after.len() as f64;
        if !is_job {
            let is_session = gpu.workload == Workload::Interactive;
            let is_withheld = is_session && goes_on && change.has_same_memory() == Some(true);
            return is_withheld.then_some(Change { kind: Kind::Withheld, ..change });
        }
        // Work that comes back, as every night, did not change.
        let middle = f64::midpoint(levels[0], levels[1]);
        let busy = observed(after).filter(|level| *level >= middle).count();
        let comes_back = busy as f64 > share::HARDLY_ANY * after.len() as f64;
        // Work that ended leaves nothing, or what its process holds.
        let is_other = |[before, after]: [f64; 2]| {
            after > share::HARDLY_ANY * before && (before - after).abs() > SAME_MEMORY * before
        };
        let ended =
            levels[1] <= share::HARDLY_ANY * levels[0] && !change.memory.is_some_and(is_other);
        let fell = levels[0] >= share::HARDLY_ANY && !ended && !comes_back;
        match fell && change.lasts() {
            true => Some(change),
            false => sank(gpu, change),
        }
    } else if levels[0] <= FALLEN * levels[1] && is_job {
        let has_worked = levels[0] > share::HARDLY_ANY * levels[1];
        let rose = has_worked && levels[1] >= bounds.productive && change.lasts();
        rose.then_some(Change { kind: Kind::Rose, ..change })
    } else {
        sank(gpu, change).filter(|_| is_job)
    }
}

/// The load of a job that sank from part to part, with the same memory in use.
fn sank<'a>(gpu: &'a Gpu, change: Change<'a>) -> Option<Change<'a>> {
    let column = &gpu.utilization;
    let parts: Vec<_> = column.chunks(column.len().div_ceil(PARTS)).filter_map(mean_of).collect();
    let (first, last) = (*parts.first()?, *parts.last()?);
    let never_rises = parts.windows(2).all(|pair| pair[1] <= pair[0] + RISES * first);
    let is_much = first >= share::MOST && last <= SUNK * first && last >= share::HARDLY_ANY;
    let is_one = change.has_same_memory() == Some(true) && gpu.workload == Workload::Training;
    (parts.len() == PARTS && never_rises && is_much && is_one).then_some(Change {
        kind: Kind::Sank,
        levels: [first, last],
        ..change
    })
}

/// A session that works at one level for longer than people do.
fn unattended<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    if gpu.workload != Workload::Interactive {
        return None;
    }
    let (start, length) = longest_level(&gpu.utilization);
    let level = mean_of(&gpu.utilization[start..start + length])?;
    let lasts = length as f64 * window.step_seconds >= WITHOUT_PAUSE;
    (level >= NO_WORK && lasts).then_some(Change {
        kind: Kind::Unattended,
        gpu,
        point: start,
        points: length,
        levels: [gpu.accounts.observed().level(), level],
        memory: None,
    })
}

/// The start and the length of the longest part of a column whose values are alike.
fn longest_level(column: &[f64]) -> (usize, usize) {
    let (mut longest, mut start) = ((0, 0), 0);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for (point, value) in column.iter().enumerate() {
        (low, high) = (low.min(*value), high.max(*value));
        if value.is_nan() || high - low > SIMILAR {
            (start, low, high) = (point, *value, *value);
        }
        if point + 1 - start > longest.1 {
            longest = (start, point + 1 - start);
        }
    }
    longest
}

/// A service that holds more memory from some time on, and has the same load.
fn of_memory<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    if !matches!(gpu.workload, Workload::Serving | Workload::Unknown) {
        return None;
    }
    let change = Change::at(split(&gpu.memory, window)?, Kind::Grew, gpu)?;
    let [before, after] = change.memory?;
    // The change may be within a point.
    let around = gpu.memory.get(change.point.checked_sub(2)?..=change.point + 1)?;
    let grew_at_once = around[3] - around[0] >= share::MOST * (after - before);
    let most = peak(&gpu.memory[..change.point - 1])?;
    let is_much = after >= GROWN * most && before > 0.0;
    let is_level = |side: &[f64], mean: f64| {
        observed(side).all(|bytes| (bytes - mean).abs() <= SIMILAR * mean)
    };
    let stays = is_level(&gpu.memory[change.point + 1..], after);
    let has_same_load = (change.levels[0] - change.levels[1]).abs() <= SIMILAR
        && change.levels[0] >= share::MOST * change.levels[1];
    (is_much && grew_at_once && stays && has_same_load).then_some(change)
}

/// A GPU whose load fell, or that began, at some time, and whose load is alike before and after.
fn parted<'a>(gpu: &'a Gpu, window: &Window) -> Option<Change<'a>> {
    let lost = gpu.lost_idle() + gpu.lost_underload();
    if gpu.workload == Workload::Interactive || lost < MATTERS {
        return None;
    }
    let change = Change::at(split(&gpu.utilization, window)?, Kind::Divided, gpu)?;
    let fell = change.levels[1] <= PARTED * change.levels[0] && change.levels[1] > NO_WORK;
    (change.began() || fell).then_some(change).filter(Change::lasts)
}

/// Those of which some began when the load of the others fell, so that all together do less than half of what they would
/// do if each did as much as before.
fn divided<'a>(found: impl Iterator<Item = Change<'a>>, window: &Window) -> Vec<Vec<Change<'a>>> {
    let mut groups = groups(found, |a, b| at_once(a, b, window) && a.gpu.is_alike(b.gpu));
    groups.retain(|group| {
        let sum = |at: usize| group.iter().map(|it| it.levels[at]).sum::<f64>();
        let before = group.iter().filter(|it| !it.began()).count() as f64;
        let [work, gpus] = [sum(1) / sum(0), group.len() as f64 / before];
        before > 0.0
            && gpus > 1.0
            && work >= share::NEARLY_ALL
            && work - 1.0 < share::MOST * (gpus - 1.0)
    });
    groups
}

fn at_once(a: &Change<'_>, b: &Change<'_>, window: &Window) -> bool {
    a.point.abs_diff(b.point) as f64 * window.step_seconds <= time::LASTING
}

impl<'a> Change<'a> {
    fn at(point: usize, kind: Kind, gpu: &'a Gpu) -> Option<Self> {
        let means = |column: &[f64]| {
            let (before, after) = column.split_at_checked(point)?;
            Some([mean_of(before)?, mean_of(after)?])
        };
        let (levels, memory) = (means(&gpu.utilization)?, means(&gpu.memory));
        Some(Self { kind, gpu, point, points: gpu.utilization.len() - point, levels, memory })
    }

    /// Whether the load is alike before, and alike after.
    fn lasts(&self) -> bool {
        let most = self.levels[0].max(self.levels[1]);
        let is_even = |side: &[f64], level: f64| {
            let parts = side.chunks(side.len().div_ceil(PARTS)).filter_map(mean_of);
            parts.into_iter().all(|part| (part - level).abs() <= ALIKE * most)
        };
        let (before, after) = self.gpu.utilization.split_at(self.point);
        is_even(before, self.levels[0]) && is_even(after, self.levels[1])
    }

    /// Whether it did nothing before.
    pub(crate) fn began(&self) -> bool {
        self.levels[0] <= NO_WORK
    }

    /// `None` if it was not recorded.
    pub(crate) fn has_same_memory(&self) -> Option<bool> {
        self.memory.map(|[a, b]| (a - b).abs() <= SAME_MEMORY * f64::max(a, b))
    }
}

/// The point that divides a column into two parts of some length whose values differ the most from one another, and the
/// least among themselves.
fn split(column: &[f64], window: &Window) -> Option<usize> {
    let least = (time::LASTING / window.step_seconds).ceil().max(PARTS as f64) as usize;
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

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, steady, window, with_memory};
    use phasemeter_policy::{PatternKind, Recommendation, RecommendationKind};

    use super::*;
    use crate::change_text::response;

    fn found(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        let window = window(gpus);
        response(&changes(&Settings::default(), &window), &window).recommendations
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
    fn load_that_sinks_little_by_little_is_asked_for() {
        let sinks = |second: usize| 0.95 - 0.6 * second as f64 / 72_000.0;
        let of = |workload| {
            let gpu = Gpu { workload, ..gpu(PatternKind::Mixed, 72_000, sinks) };
            titles(vec![with_memory(gpu, 11.0)])
        };
        assert_eq!(of(Workload::Training), ["Find out why load sinks, from 91% to 38%"]);
        assert!(of(Workload::Serving).is_empty(), "demand");
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
    }

    fn titles(gpus: Vec<Gpu>) -> Vec<String> {
        found(gpus).into_iter().map(|one| one.title).collect()
    }

    #[test]
    fn session_that_goes_on_with_hardly_any_load_is_held_back() {
        // A minute of work of every two; from the first hour on of a fiftieth of the load.
        let level = |second: usize| match second {
            second if second % 120 >= 60 => 0.0,
            ..3_600 => 0.8,
            _ => 0.04,
        };
        let load = gpu(PatternKind::Mixed, 18_000, level);
        let of = |workload| titles(vec![with_memory(Gpu { workload, ..load.clone() }, 8.0)]);
        assert!(of(Workload::Interactive)[0].starts_with("Find out what has held this GPU back"));
        assert!(of(Workload::Serving).is_empty(), "demand");
        let left = gpu(PatternKind::Mixed, 18_000, |second| if second < 3_600 { 0.4 } else { 0.0 });
        let left = Gpu { workload: Workload::Interactive, ..with_memory(left, 8.0) };
        assert!(titles(vec![left]).is_empty(), "its user left");
    }

    #[test]
    fn session_that_never_pauses_is_asked_for() {
        let of = |hours: usize, level: f64| {
            // By day a person works now and then, beside what goes on.
            let load = move |second: usize| {
                if second < 28_800 && second % 1_200 < 600 { level + 0.5 } else { level }
            };
            let gpu = gpu(PatternKind::Mixed, 28_800 + hours * 3_600, load);
            titles(vec![Gpu { workload: Workload::Interactive, ..gpu }])
        };
        assert!(of(12, 0.2)[0].starts_with("Find out what works without a pause for 12 h"));
        let full = Gpu { workload: Workload::Interactive, ..steady(18_000, 0.99) };
        assert_eq!(titles(vec![full]).len(), 1, "a cell that trains, or hangs");
        assert!(of(3, 0.2).is_empty(), "an evening");
        assert!(of(12, 0.0).is_empty(), "nothing works");
    }

    #[test]
    fn gpus_that_divide_the_work_of_one_are_asked_for() {
        let serving = |before: f64, after: f64| {
            let gpu = gpu(
                PatternKind::Mixed,
                28_800,
                move |second| {
                    if second < 10_800 { before } else { after }
                },
            );
            Gpu { workload: Workload::Serving, ..with_memory(gpu, 10.0) }
        };
        let two = vec![serving(0.8, 0.54), serving(0.8, 0.54), serving(0.0, 0.54)];
        let one = &found(two)[0];
        assert!(
            one.title.starts_with("Find out why more GPUs do hardly more since"),
            "{}",
            one.title
        );
        assert!(
            one.rationale.starts_with("2 GPUs at 80% for 3 h, and 3 at 54% for "),
            "{}",
            one.rationale
        );
        assert!(titles(vec![serving(0.8, 0.7), serving(0.0, 0.7)]).is_empty(), "both work more");
        assert!(titles(vec![serving(0.8, 0.4)]).is_empty(), "demand");
        assert!(titles(vec![serving(0.8, 0.0), serving(0.0, 0.8)]).is_empty(), "it moved");
    }

    #[test]
    fn memory_of_a_service_that_jumps_and_stays_is_asked_for() {
        let service = |memory: &[f64]| {
            let mut gpu = with_memory(steady(28_800, 0.3), 1.0);
            gpu.workload = Workload::Serving;
            let points = gpu.memory.len();
            for (point, bytes) in gpu.memory.iter_mut().enumerate() {
                let at =
                    |point: usize| memory[(point * memory.len() / points).min(memory.len() - 1)];
                // A change within a point.
                *bytes *= f64::midpoint(at(point), at(point + 1));
            }
            titles(vec![gpu])
        };
        assert!(service(&[6.0, 14.0, 14.0])[0].starts_with("Find out what has filled more memory"));
        assert_eq!(service(&[4.0, 6.0, 14.0]).len(), 1, "two jumps");
        let leak: Vec<_> = (0..40).map(|point| 6.0 + 0.3 * f64::from(point)).collect();
        assert!(service(&leak).is_empty(), "a leak has a policy of its own");
        assert!(service(&[14.0, 6.0, 14.0]).is_empty(), "it falls, too");
        assert!(service(&[14.0, 15.0]).is_empty(), "a little");
    }
}
