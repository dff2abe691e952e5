//! GPUs that a scheduler allocated and nothing has touched: they are not free, and their holder releases them.

use phasemeter_diagnoses::{Allocation, is_credible, untouched};
use phasemeter_policy::format::{count, duration, usd};
use phasemeter_policy::{
    Gpu, HOUR, Recommendation, RecommendationKind, Saving, Target, Window, evidence, groups, mean,
};

use crate::Settings;
use crate::find::REUSED;

/// Confidence that an allocation that was not touched for an hour is not needed now. An assumption.
const SURE: f64 = 0.7;

/// Recommends to release them, once per holder.
pub(crate) fn recommend(window: &Window, settings: &Settings) -> Vec<Recommendation> {
    let found = window.gpus.iter().filter_map(|gpu| {
        let least = f64::max(HOUR, settings.min_seconds);
        let (of, seconds) = untouched(gpu, window)?;
        (seconds >= least && is_credible(gpu)).then_some((gpu, of, seconds))
    });
    groups(found, |a, b| a.1 == b.1).iter().filter_map(|group| release(group)).collect()
}

fn release(group: &[(&Gpu, Allocation, f64)]) -> Option<Recommendation> {
    let (_, holder, _) = group.first()?;
    let gpus = || group.iter().map(|(gpu, ..)| *gpu);
    let seconds = mean(group, |(.., seconds)| *seconds);
    // Its part of the cost of idle time.
    let part = |gpu: &Gpu, seconds: f64| (seconds / gpu.accounts.idle().seconds).min(1.0);
    let cost = |(gpu, _, seconds): &(&Gpu, Allocation, f64)| {
        (gpu.accounts.idle().cost as f64 * part(gpu, *seconds)) as u64
    };
    let cost: u64 = group.iter().map(cost).sum();
    let dollars = if cost > 0 { [", ", &*usd(cost), " so far"].concat() } else { String::new() };
    let (name, all, time) = (&holder.name, count(group.len(), "GPU"), duration(seconds));
    let saving = group.iter().map(|(gpu, _, seconds)| {
        (*gpu, Saving::part(gpu.lost_idle() * part(gpu, *seconds), REUSED))
    });
    Some(Recommendation {
        title: format!("Allocated and never touched: {all} for {time}{dollars}"),
        action: format!(
            "Ask the owner of {name} whether it needs {}. If not, {}; if it does, request them with the first work.",
            if group.len() == 1 { "this GPU" } else { "these GPUs" },
            holder.release(),
        ),
        rationale: format!(
            "{name} has had {all} for {time} without any work or memory in use. A scheduler places nothing else there, \
             so this is not free: it becomes capacity once it is released.",
        ),
        saving: Saving::combined(saving),
        confidence: SURE * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("untouched.time", seconds, "s"),
            ("untouched.gpus", group.len() as f64, "{GPU}"),
        ]),
        kind: RecommendationKind::Capacity,
        reversible: false,
        ..Recommendation::new("sharing.untouched", Target::Idle, "release_memory", gpus())
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory};

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
        let mut brief = of("a", 1);
        brief.accounts.idle_held.seconds = 1_800.0;
        assert!(found(vec![brief]).is_empty(), "it may start");
    }
}
