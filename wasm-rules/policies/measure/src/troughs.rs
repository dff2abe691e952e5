//! Phases of low load that repeat in a training job that is otherwise full: evaluation, or checkpoints.

use phasemeter_diagnoses::{MATTERS, REGULAR, SIMILAR, confidence, has_defect, share};
use phasemeter_policy::format::{minutes, percent, usd};
use phasemeter_policy::{
    Gpu, PatternKind, Recommendation, Target, Vendor, Window, Workload, evidence, groups, mean,
};

use crate::Settings;

/// Fewest phases that repeat. An assumption.
const MIN_COUNT: usize = 4;

/// Phases of one GPU.
struct Troughs<'a> {
    gpu: &'a Gpu,
    /// From the start of one to the start of the next, in seconds.
    period: f64,
    /// Mean length of one, in seconds.
    length: f64,
    /// Utilization in it.
    level: f64,
}

pub(crate) fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
    let long = |gpu: &&Gpu| gpu.accounts.observed().seconds >= settings.min_seconds;
    let found = window.gpus.iter().filter(long).filter_map(|gpu| troughs(gpu, window));
    let groups = groups(found, |a, b| (a.period - b.period).abs() <= SIMILAR * a.period);
    groups.iter().map(|group| describe(group)).collect()
}

fn troughs<'a>(gpu: &'a Gpu, window: &Window) -> Option<Troughs<'a>> {
    let is_mixed = gpu.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Mixed);
    let is_candidate = gpu.workload == Workload::Training
        && is_mixed
        && gpu.full_share() >= share::MOST
        && gpu.lost_underload() >= MATTERS;
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
    Some(Troughs { gpu, period, length, level: effective / seconds.max(1.0) })
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
    Recommendation {
        title: ["Shorten the low load that repeats every ", &every].concat(),
        action: [
            "Evaluate less often or with a larger batch, and write checkpoints in the background.",
            Vendor::of(gpus.clone()).tool(
                " To see what the phase waits for: nsys profile -t cuda,nvtx,osrt --delay SECONDS -d 60 -o phase \
                 COMMAND.",
                " To see what the phase waits for: rocprofv3 --sys-trace -d phase -- COMMAND.",
            ),
        ]
        .concat(),
        rationale: format!(
            "{dollars}{length} of every {every} at {}, most likely evaluation or a checkpoint; it is full otherwise. A \
             profile of that phase shows whether it waits for a loader, for storage, or computes in small steps.",
            percent(first.level),
        ),
        confidence: confidence::PROBABLE,
        evidence: evidence([
            ("low.period", first.period, "s"),
            ("low.time", first.length, "s"),
            ("low.utilization", first.level, "1"),
        ]),
        ..Recommendation::new("measure.low-phases", Target::Underload, "measure", gpus)
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
