//! GPUs of one training job at different levels: the slower ones wait for the others.
//!
//! GPUs of a node may be of several jobs: they are of one if an attribute names it, or if they work at the same
//! times with similar memory.

use phasemeter_diagnoses::{JOBS, confidence, saved, time};
use phasemeter_policy::format::{percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Need, Recommendation, Response, Saving, Target, Window, Workload, evidence,
    groups, mean,
};

use crate::{Settings, is_steady};

/// Difference between the levels of one job's GPUs from which they are out of balance.
const IMBALANCE: f64 = 0.15;

/// Memory of the GPUs of one job, relative to each other, at most. An assumption: the first stage
/// of a pipeline holds the activations of several batches.
const MAX_MEMORY_RATIO: f64 = 2.5;

/// Recommends to move work between the GPUs of a job.
pub(crate) fn recommend(observed: &[&Gpu], window: &Window, settings: &Settings) -> Response {
    let loses = |gpu: &&&Gpu| gpu.lost_underload() >= settings.min_lost && is_steady(gpu, window);
    let lower = observed.iter().filter(loses).copied();
    let (of_job, unknown): (Vec<_>, Vec<_>) = lower
        .filter(|gpu| busier(gpu, observed).next().is_some())
        .partition(|gpu| waits_for_others(gpu, observed, window));
    // With other memory or at other times it is more likely a job of its own.
    let need = Need::if_any(
        "k8s.pod.name",
        "other GPUs of the node are busier: the pod of each shows whether they have one job, whose stages wait for \
         each other, or several",
        unknown,
    );
    // Those of one job, whatever their levels are.
    let groups = groups(of_job, |a, b| are_of_one_job(a, b, window));
    Response::of(groups.iter().map(|group| balance(group)), need)
}

/// Whether a GPU waits for the slowest of its job.
pub(crate) fn waits_for_others(gpu: &Gpu, observed: &[&Gpu], window: &Window) -> bool {
    busier(gpu, observed).any(|other| have_one_job(gpu, other, window))
}

/// GPUs like it with clearly more load.
fn busier<'a>(gpu: &Gpu, observed: &'a [&Gpu]) -> impl Iterator<Item = &'a Gpu> {
    let level = gpu.accounts.busy().level();
    let trains = gpu.workload == Workload::Training;
    observed.iter().copied().filter(move |other| {
        trains
            && other.accounts.busy().level() - level >= IMBALANCE
            && other.is_steady()
            && other.is_alike(gpu)
            && other.node() == gpu.node()
    })
}

/// Whether both are GPUs of one training job, as far as it is known.
pub(crate) fn are_of_one_job(a: &Gpu, b: &Gpu, window: &Window) -> bool {
    std::ptr::eq(a, b) || (a.is_alike(b) && a.node() == b.node() && have_one_job(a, b, window))
}

fn have_one_job(a: &Gpu, b: &Gpu, window: &Window) -> bool {
    let named = |gpu: &Gpu| JOBS.iter().find_map(|name| gpu.attribute(name)).map(str::to_owned);
    if let Some((a, b)) = named(a).zip(named(b)) {
        return a == b;
    }
    if JOBS.iter().any(|name| window.attribute(name).is_some()) {
        return true;
    }
    let near = |a: f64, b: f64| (a - b).abs() <= time::BRIEF;
    let have_similar_memory = match (a.memory_peak(), b.memory_peak()) {
        (Some(a), Some(b)) => a.max(b) <= MAX_MEMORY_RATIO * a.min(b),
        _ => false,
    };
    have_similar_memory
        && near(a.activity.before_work.seconds, b.activity.before_work.seconds)
        && near(a.activity.after_work.seconds, b.activity.after_work.seconds)
}

fn balance(group: &[&Gpu]) -> Recommendation {
    let level = mean(group, |gpu| gpu.accounts.busy().level());
    let lost = mean(group, |gpu| gpu.lost_underload());
    let busy = percent(level);
    Recommendation {
        title: ["Balance the load of these GPUs: ", &*busy, " beside busier ones"].concat(),
        action: "If they are stages of a pipeline, move layers to the GPUs that wait, or use more and smaller \
                 micro-batches; if one process drives all, start one per GPU, or try as many GPUs as it keeps busy."
            .to_owned(),
        rationale: format!(
            "{} runs at {busy} while working, and busier GPUs of the node work at the same times: in one job, these \
             most likely wait for the slowest. This wastes {} of the bill.",
            subject(group.len()),
            percent(lost),
        ),
        // Balanced stages are all at the mean, at most.
        saving: Saving::combined(
            group.iter().map(|gpu| (*gpu, Saving::part(gpu.lost_underload(), saved::QUARTER))),
        ),
        confidence: confidence::EVEN * mean(group, |gpu| gpu.confidence()),
        evidence: evidence([
            ("busy.utilization", level, "1"),
            ("underload.share_of_bill", lost, "1"),
        ]),
        effort: Effort::High,
        ..Recommendation::new("sizing.balance", Target::Underload, "other", group.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory};

    use super::*;

    /// Recommendations, and missing attributes, for GPUs at a level with so much memory.
    fn found(gpus: &[(f64, f64)], change: impl Fn(&mut Window)) -> (usize, Vec<String>) {
        let gpu = |&(level, gib): &(f64, f64)| with_memory(steady(3_600, level), gib);
        let mut window = window(gpus.iter().map(gpu).collect());
        change(&mut window);
        let observed: Vec<_> = window.gpus.iter().collect();
        let found = recommend(&observed, &window, &Settings::default());
        let missing = found.needs.into_iter().map(|need| need.missing).collect();
        (found.recommendations.iter().map(|one| one.gpus.len()).sum(), missing)
    }

    #[test]
    fn stages_have_similar_memory_at_the_same_times() {
        let pod = || vec!["k8s.pod.name".to_owned()];
        assert_eq!(found(&[(0.95, 60.0), (0.5, 40.0)], |_| ()), (1, vec![]));
        assert_eq!(found(&[(0.95, 35.0), (0.18, 6.0)], |_| ()), (0, pod()));
        let later = |window: &mut Window| window.gpus[1].activity.before_work.seconds = 900.0;
        assert_eq!(found(&[(0.95, 60.0), (0.5, 40.0)], later), (0, pod()));
    }

    #[test]
    fn stages_of_a_job_get_one_recommendation() {
        let gpus = [0.95, 0.62, 0.31].map(|level| with_memory(steady(3_600, level), 50.0));
        let window = window(gpus.to_vec());
        let observed: Vec<_> = window.gpus.iter().collect();
        let found = recommend(&observed, &window, &Settings::default()).recommendations;
        assert_eq!((found.len(), found[0].gpus.len()), (1, 2));
        assert!(found[0].title.contains("46%"), "{}", found[0].title);
    }

    #[test]
    fn attributes_name_a_job() {
        let job = |window: &mut Window| {
            window.attributes = vec![("slurm.job.id".to_owned(), "17".to_owned())];
        };
        assert_eq!(found(&[(0.95, 35.0), (0.18, 6.0)], job), (1, vec![]));
        let pods = |window: &mut Window| {
            for (gpu, pod) in window.gpus.iter_mut().zip(["a", "b"]) {
                gpu.attributes.push(("k8s.pod.name".to_owned(), pod.to_owned()));
            }
        };
        assert_eq!(found(&[(0.95, 60.0), (0.5, 40.0)], pods).0, 0);
    }
}
