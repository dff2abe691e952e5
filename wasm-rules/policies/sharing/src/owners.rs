//! GPUs that a known owner holds without using them: who sees the cost ends it.

use phasemeter_diagnoses::{confidence, is_credible, share};
use phasemeter_policy::format::{count, duration, percent, usd};
use phasemeter_policy::{
    Gpu, HOUR, Recommendation, RecommendationKind, Target, Window, evidence, groups, mean,
};

/// Attributes that name an owner, the first that is set.
const OWNERS: [&str; 3] = ["phasemeter.team", "team", "k8s.namespace.name"];

/// Recommends showing each owner what held GPUs cost.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let held = window.gpus.iter().filter_map(|gpu| {
        let seconds = gpu.activity.quiet.held_seconds;
        let observed = gpu.accounts.observed().seconds;
        let is_held = seconds >= f64::max(HOUR, share::MOST * observed);
        Some((gpu, owner(gpu, window)?)).filter(|_| is_held && is_credible(gpu))
    });
    groups(held, |a, b| a.1 == b.1).iter().filter_map(|group| charge(group)).collect()
}

fn owner<'a>(gpu: &'a Gpu, window: &'a Window) -> Option<&'a str> {
    OWNERS.iter().find_map(|name| gpu.attribute(name).or_else(|| window.attribute(name)))
}

fn charge(group: &[(&Gpu, &str)]) -> Option<Recommendation> {
    let (_, owner) = group.first()?;
    let gpus = || group.iter().map(|(gpu, _)| *gpu);
    let seconds: f64 = gpus().map(|gpu| gpu.activity.quiet.held_seconds).sum();
    let observed: f64 = gpus().map(|gpu| gpu.accounts.observed().seconds).sum();
    let cost: u64 = gpus().map(|gpu| gpu.accounts.idle_held.cost).sum();
    let price = if cost > 0 {
        [": ", &usd(cost), " of idle time that ", owner, " paid for"].concat()
    } else {
        String::new()
    };
    Some(Recommendation {
        title: ["Show ", owner, " what its idle GPUs cost"].concat(),
        action: "Put it into the team's report each week (phasemeter bill --by), or charge it. Showing a cost \
                 saves nothing by itself."
            .to_owned(),
        rationale: format!(
            "{} held by {owner} did nothing for {} of {} ({}){price}.",
            count(group.len(), "GPU"),
            duration(seconds),
            duration(observed),
            percent(seconds / observed.max(1.0)),
        ),
        confidence: confidence::EVEN * mean(gpus(), Gpu::confidence),
        evidence: evidence([
            ("held.time", seconds, "s"),
            ("held.share_of_time", seconds / observed.max(1.0), "1"),
        ]),
        kind: RecommendationKind::Capacity,
        ..Recommendation::new("sharing.chargeback", Target::Idle, "chargeback", gpus())
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{gpu, steady, window};
    use phasemeter_policy::{PatternKind, Quiet};

    use super::*;

    fn held(namespace: Option<&str>) -> Gpu {
        let mut gpu = gpu(PatternKind::Idle, 7_200, |_| 0.0);
        gpu.activity.quiet = Quiet { seconds: 7_200.0, held_seconds: 7_200.0 };
        let name = namespace.map(|name| ("k8s.namespace.name".to_owned(), name.to_owned()));
        gpu.attributes = name.into_iter().collect();
        gpu
    }

    #[test]
    fn each_known_owner_sees_its_idle_gpus() {
        let gpus = vec![held(Some("a")), held(Some("b")), held(Some("a")), held(None)];
        let found = recommend(&window(gpus));
        let sizes: Vec<_> = found.iter().map(|one| one.gpus.len()).collect();
        assert_eq!(sizes, [2, 1]);
        assert!(found[0].title.contains("Show a "), "{}", found[0].title);
        assert_eq!((found[0].kind, found[0].saving.high), (RecommendationKind::Capacity, 0.0));
        let mut run = window(vec![held(None)]);
        run.attributes = vec![("team".to_owned(), "vision".to_owned())];
        assert_eq!(recommend(&run).len(), 1, "the owner of the run");
    }

    #[test]
    fn used_and_free_gpus_are_not_charged() {
        let mut free = held(Some("a"));
        free.activity.quiet.held_seconds = 0.0;
        let busy = Gpu { attributes: held(Some("a")).attributes, ..steady(7_200, 0.9) };
        assert!(recommend(&window(vec![free, busy])).is_empty());
    }
}
