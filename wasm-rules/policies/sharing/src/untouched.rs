//! GPUs that a scheduler allocated and nothing has touched: they are not free, and their holder releases them.

use phasemeter_diagnoses::{REUSED, Untouched, confidence, is_credible, untouched};
use phasemeter_policy::format::{count, duration, usd};
use phasemeter_policy::{
    Gpu, HOUR, Recommendation, RecommendationKind, Saving, Target, Window, evidence, groups, mean,
};

use crate::Settings;

/// Recommends to release them, once per holder.
pub(crate) fn recommend(window: &Window, settings: &Settings) -> Vec<Recommendation> {
    let found = window.gpus.iter().filter_map(|gpu| {
        let least = f64::max(HOUR, settings.min_seconds);
        let untouched = untouched(gpu, window)?;
        (untouched.seconds >= least && is_credible(gpu)).then_some((gpu, untouched))
    });
    let same = |a: &(&Gpu, Untouched), b: &(&Gpu, Untouched)| {
        a.1.allocation == b.1.allocation && a.0.is_shared() == b.0.is_shared()
    };
    groups(found, same).iter().filter_map(|group| release(group)).collect()
}

fn release(group: &[(&Gpu, Untouched)]) -> Option<Recommendation> {
    let (first, Untouched { allocation: holder, .. }) = group.first()?;
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let seconds = mean(group, |(_, untouched)| untouched.seconds);
    let cost: u64 = group.iter().map(|(_, untouched)| untouched.cost).sum();
    let dollars = if cost > 0 { [", ", &*usd(cost), " so far"].concat() } else { String::new() };
    let (name, time) = (&holder.name, duration(seconds));
    let all = count(group.len(), "GPU");
    let all = if first.is_shared() { ["a part of ", &*all].concat() } else { all };
    let saving = group.iter().map(|(gpu, untouched)| {
        let all = gpu.accounts.observed().seconds + gpu.accounts.unobserved.seconds;
        let lost = match gpu.is_shared() {
            true => (untouched.gpu_seconds / all.max(1.0)).min(1.0),
            // Its part of the cost of idle time.
            false => {
                gpu.lost_idle() * (untouched.gpu_seconds / gpu.accounts.idle().seconds).min(1.0)
            }
        };
        (*gpu, Saving::part(lost, REUSED))
    });
    let target = if first.is_shared() { Target::Underload } else { Target::Idle };
    let (which, them) = match (first.is_shared(), group.len()) {
        (true, _) => ("its part", "it"),
        (false, 1) => ("this GPU", "them"),
        (false, _) => ("these GPUs", "them"),
    };
    Some(Recommendation {
        title: format!("Allocated and never touched: {all} for {time}{dollars}"),
        action: format!(
            "Ask the owner of {name} whether it needs {which}. If not, {}; if it does, request {them} with the first work.",
            holder.release(),
        ),
        rationale: format!(
            "{name} has had {all} for {time} without any work or memory in use. A scheduler places nothing else there, \
             so this is not free: it becomes capacity once it is released.",
        ),
        saving: Saving::combined(saving),
        confidence: confidence::LIKELY * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("untouched.time", seconds, "s"),
            ("untouched.gpus", group.len() as f64, "{GPU}"),
        ]),
        kind: RecommendationKind::Capacity,
        reversible: false,
        ..Recommendation::new("sharing.untouched", target, "release_memory", gpus())
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Holder;
    use phasemeter_policy::testing::{holder, steady, window, with_memory};

    use super::*;

    #[test]
    fn each_holder_is_named_once() {
        let of = |pod: &str, hours: usize| Gpu {
            attributes: vec![("k8s.pod.name".to_owned(), pod.to_owned())],
            ..with_memory(steady(hours * 3_600, 0.0), 0.0)
        };
        let found = |gpus| recommend(&window(gpus), &Settings::default());
        let all = found(vec![of("a", 20), of("b", 20), of("a", 20)]);
        assert_eq!(all.iter().map(|one| one.gpus.len()).collect::<Vec<_>>(), [2, 1]);
        let one = &all[0];
        assert_eq!(one.title, "Allocated and never touched: 2 GPUs for 20 h, $144.00 so far");
        assert!(one.action.contains("owner of a ") && one.rationale.contains("not free"));
        assert_eq!((one.kind, one.saving.low), (RecommendationKind::Capacity, 0.0));
        assert!(found(vec![with_memory(steady(72_000, 0.0), 0.0)]).is_empty(), "free");
        let b = Holder { granted: Some(0.5), ..holder("b", 0.0, 0.0, 3_600.0) };
        let holders = vec![holder("a", 3_600.0, 0.0, 0.0), b];
        let shared = Gpu { holders, ..steady(7_200, 0.5) };
        let all = found(vec![shared]);
        assert_eq!(
            all[0].title,
            "Allocated and never touched: a part of 1 GPU for 2 h, $3.60 so far"
        );
        assert!(all[0].action.contains("owner of b "), "{}", all[0].action);
        let mut brief = of("a", 1);
        brief.accounts.idle_held.seconds = 1_800.0;
        assert!(found(vec![brief]).is_empty(), "it may start");
    }
}
