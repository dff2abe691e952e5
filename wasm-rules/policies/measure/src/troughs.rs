//! Phases of low load that repeat in a training job that is otherwise full: evaluation, checkpoints, or the start of each run.

use phasemeter_diagnoses::{MATTERS, REGULAR, SIMILAR, confidence, has_defect, share};
use phasemeter_policy::format::{minutes, percent, usd};
use phasemeter_policy::{
    Gpu, PatternKind, Recommendation, Target, Vendor, Window, Workload, evidence, groups, mean,
};

use crate::Settings;

/// Fewest phases that repeat. An assumption.
const MIN_COUNT: usize = 3;

/// Points at the start of a phase, one of which shows what its memory is then. An assumption.
const FIRST_POINTS: usize = 3;

/// Phases of one GPU.
struct Troughs<'a> {
    gpu: &'a Gpu,
    /// From the start of one to the start of the next, in seconds.
    period: f64,
    /// Mean length of one, in seconds.
    length: f64,
    /// Utilization in it.
    level: f64,
    /// Whether they begin with less memory in use, as a run does.
    begins_anew: bool,
}

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= settings.min_seconds;
    let found = window.gpus.iter().filter(long).filter_map(|gpu| troughs(gpu, window));
    let is_alike = |a: &Troughs<'_>, b: &Troughs<'_>| {
        a.begins_anew == b.begins_anew && (a.period - b.period).abs() <= SIMILAR * a.period
    };
    let groups = groups(found, is_alike);
    groups.iter().map(|group| describe(group)).collect()
}

fn troughs<'a>(gpu: &'a Gpu, window: &Window) -> Option<Troughs<'a>> {
    let varies = |kind| matches!(kind, PatternKind::Mixed | PatternKind::Bouncing);
    let is_candidate = gpu.workload == Workload::Training
        && gpu.pattern.is_some_and(|pattern| varies(pattern.kind))
        && gpu.full_share() >= share::MOST
        && gpu.lost_underload() + gpu.lost_idle() >= MATTERS;
    if !is_candidate || has_defect(gpu, window) {
        return None;
    }
    let starts = starts(&gpu.utilization, window.thresholds().productive);
    let mut distances: Vec<_> = starts.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
    distances.sort_by(f64::total_cmp);
    let median = *distances.get(distances.len() / 2).filter(|_| starts.len() >= MIN_COUNT)?;
    let (first, last) = (*distances.first()?, *distances.last()?);
    if REGULAR * first < median || last > REGULAR * median {
        return None;
    }
    let low = [gpu.accounts.idle(), gpu.accounts.underutilized];
    let seconds: f64 = low.iter().map(|account| account.seconds).sum();
    let effective: f64 = low.iter().map(|account| account.effective_seconds).sum();
    let period = mean(&distances, |distance| *distance) * window.step_seconds;
    let length = seconds / gpu.accounts.observed().seconds * period;
    // A phase is longer than a pause, but may have many of them.
    let pauses = &gpu.activity.pauses;
    let is_pause = pauses.mean_seconds() >= share::MOST * length;
    let anew = starts.iter().filter(|start| is_less_at(gpu, **start)).count();
    let begins_anew = anew as f64 >= share::NEARLY_ALL * starts.len() as f64;
    let level = effective / seconds.max(1.0);
    (!is_pause).then_some(Troughs { gpu, period, length, level, begins_anew })
}

/// Whether less of its memory is in use when a phase begins.
fn is_less_at(gpu: &Gpu, start: usize) -> bool {
    let mut first = gpu.memory.iter().skip(start).take(FIRST_POINTS);
    gpu.memory_peak().is_some_and(|peak| first.any(|bytes| *bytes <= share::NEARLY_ALL * peak))
}

/// The points at which phases of low load begin: their mean utilization is below productive.
fn starts(utilization: &[f64], productive: f64) -> Vec<usize> {
    let begins = |pair: &[f64]| pair[0] >= productive && pair[1] < productive;
    let points = utilization.windows(2).enumerate().filter(|(_, pair)| begins(pair));
    points.map(|(point, _)| point + 1).collect()
}

fn describe(group: &[Troughs<'_>]) -> Recommendation {
    let first = &group[0];
    let lost = |gpu: &Gpu| gpu.waste.underload.saturating_add(gpu.waste.idle);
    let lost: u64 = group.iter().map(|one| lost(one.gpu)).sum();
    let bill: u64 = group.iter().map(|one| one.gpu.bill()).sum();
    let dollars = if bill == 0 {
        String::new()
    } else {
        let share = lost as f64 / bill as f64;
        [&*usd(lost), " (", &percent(share), " of the bill) was wasted in "].concat()
    };
    let (every, length) = (minutes(first.period), minutes(first.length));
    let gpus = group.iter().map(|one| one.gpu);
    let (advice, cause) = if first.begins_anew {
        (
            "Copy the data to a local disk, or read them into the cache, before the GPUs are taken, and keep compiled \
             kernels.",
            "from the start of a run on: most likely input from a cold disk, or set-up",
        )
    } else {
        (
            "Evaluate less often or with a larger batch, and write checkpoints in the background.",
            "most likely evaluation or a checkpoint",
        )
    };
    let is_idle =
        mean(group, |one| one.gpu.lost_idle()) >= mean(group, |one| one.gpu.lost_underload());
    Recommendation {
        title: ["Shorten the low load that repeats every ", &every].concat(),
        action: [
            advice,
            Vendor::of(gpus.clone()).tool(
                " To see what the phase waits for: nsys profile -t cuda,nvtx,osrt --delay SECONDS -d 60 -o phase \
                 COMMAND.",
                " To see what the phase waits for: rocprofv3 --sys-trace -d phase -- COMMAND.",
            ),
        ]
        .concat(),
        rationale: format!(
            "{dollars}{length} of every {every} at {}, {cause}; it is full otherwise. A profile of that phase shows \
             whether it waits for a loader, for storage, or computes in small steps.",
            percent(first.level),
        ),
        confidence: confidence::PROBABLE,
        evidence: evidence([
            ("low.period", first.period, "s"),
            ("low.time", first.length, "s"),
            ("low.utilization", first.level, "1"),
        ]),
        ..Recommendation::new(
            "measure.low-phases",
            if is_idle { Target::Idle } else { Target::Underload },
            "measure",
            gpus,
        )
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, steady, window};

    use super::*;

    fn found(level: impl Fn(usize) -> f64) -> Vec<Recommendation> {
        recommend(&Settings::default(), &window(vec![gpu(PatternKind::Mixed, 86_400, level)]))
    }

    #[test]
    fn regular_low_phases_of_a_full_job_are_named() {
        let evaluates = |second: usize| if second % 4_140 < 3_120 { 0.97 } else { 0.22 };
        let found = found(evaluates);
        let one = &found[0];
        assert_eq!(one.code, "measure.low-phases");
        assert!(one.title.ends_with("every 1 h 9 min"), "{}", one.title);
        assert!(one.rationale.contains("17 min of every 1 h 9 min at 22%"), "{}", one.rationale);
        assert!(one.rationale.starts_with('$'), "{}", one.rationale);
    }

    #[test]
    fn slow_start_of_each_run_is_not_evaluation() {
        // Half an hour of bursts, two hours of full load, and three minutes without memory.
        let level = |second: usize| match second % 9_060 {
            0..1_680 => f64::from(u8::from(second.is_multiple_of(13))) * 0.9,
            1_680..8_880 => 0.97,
            _ => 0.0,
        };
        let mut gpu = gpu(PatternKind::Mixed, 36_000, level);
        gpu.activity.interval_seconds = Some(5.0);
        let one = &recommend(&Settings::default(), &window(vec![gpu.clone()]))[0];
        assert!(one.rationale.contains("evaluation"), "{}", one.rationale);
        let memory = |point: usize| if point * 64 % 9_060 < 8_880 { 14e9 } else { 0.0 };
        gpu.memory = (0..gpu.utilization.len()).map(memory).collect();
        let one = &recommend(&Settings::default(), &window(vec![gpu]))[0];
        assert!(one.rationale.contains("from the start of a run on"), "{}", one.rationale);
        assert!(one.action.starts_with("Copy the data to a local disk"), "{}", one.action);
    }

    #[test]
    fn single_pause_is_not_a_phase() {
        let saves = |second: usize| f64::from(u8::from(second % 3_000 < 2_700)) * 0.97;
        assert!(found(saves).is_empty());
    }

    #[test]
    fn irregular_or_rare_phases_are_not() {
        let once = |second: usize| if second < 80_000 { 0.97 } else { 0.2 };
        assert!(found(once).is_empty());
        let irregular = |second: usize| {
            let low = [3_000..6_000, 9_000..12_000, 40_000..43_000, 46_000..49_000, 83_000..86_000];
            if low.iter().any(|phase| phase.contains(&second)) { 0.2 } else { 0.97 }
        };
        assert!(found(irregular).is_empty());
        let half = |second: usize| if second % 4_140 < 1_500 { 0.97 } else { 0.22 };
        assert!(found(half).is_empty(), "it is not full otherwise");
        assert!(recommend(&Settings::default(), &window(vec![steady(86_400, 0.97)])).is_empty());
    }
}
