//! Recommends sharing or switching off GPUs that are mostly idle.

use phasemeter_policy::{
    Accounts, Effort, Gpu, Policy, Recommendation, RecommendationKind, Recommender, Response, Saving,
    Target, Window, evidence, groups,
};

phasemeter_policy::settings! {
    /// Minimum idle share of observed time.
    min_idle: number = 0.5 in 0.0..=1.0;
}

/// Mean utilization of a step below which nothing ran.
const QUIET: f64 = 0.01;

struct Mine;

impl Policy for Mine {
    const NAME: &'static str = "my-policy";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
    type Settings = Settings;
}

impl Recommender for Mine {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        // GPUs of a node are rented and given back together.
        let nodes = groups(&window.gpus, |a, b| a.node() == b.node());
        let recommendations = nodes.iter().filter_map(|node| recommend(settings, node));
        recommendations.collect::<Vec<_>>().into()
    }
}

fn recommend(settings: &Settings, node: &[&Gpu]) -> Option<Recommendation> {
    // There is no idle waste if a GPU waits for input, or if its price is unknown.
    let is_idle = |gpu: &&Gpu| gpu.share(Accounts::idle) >= settings.min_idle && gpu.waste.idle > 0;
    let idle: Vec<_> = node.iter().copied().filter(is_idle).collect();
    if idle.is_empty() {
        return None;
    }
    let bill = |gpus: &[&Gpu]| gpus.iter().map(|gpu| gpu.bill()).sum::<u64>() as f64;
    let lost = idle.iter().map(|gpu| gpu.waste.idle).sum::<u64>() as f64 / bill(&idle);
    let free = free_share(node);
    let counted = format!("{} of {} GPUs", idle.len(), node.len());
    let percent = (free * 100.0) as u32;

    let (lever, kind, title, action, rationale, saving);
    if free >= settings.min_idle {
        (lever, kind) = ("schedule", RecommendationKind::Saving);
        title = format!("{counted} free {percent}% of the time");
        action = "Stop their node while nothing runs on it, if it has no other GPUs.";
        rationale = "No GPU of the node worked then. How much of it a schedule finds is not known.".into();
        // Nothing is saved for certain: switching off needs a schedule.
        let high = lost.min(free);
        saving = Saving { low: 0.0, expected: high * 0.5, high };
    } else {
        // Other jobs use the capacity; the bill stays the same.
        (lever, kind) = ("bin_pack", RecommendationKind::Capacity);
        title = format!("{counted} mostly idle");
        action = "Place other jobs on them.";
        rationale = format!("Their node was free {percent}% of the time, which is too little to stop it.");
        // Sharing needs other jobs: expect at most as much work again as the node does now.
        let observed = node.iter().map(|gpu| gpu.accounts.observed().utilized_cost);
        let utilized = observed.sum::<u64>() as f64 / bill(node);
        saving = Saving { low: 0.0, expected: utilized.min(lost * 0.5), high: lost };
    }
    Some(Recommendation {
        code: ["idle.", lever].concat(),
        target: Target::Idle,
        lever: lever.into(),
        title,
        action: action.into(),
        rationale,
        saving,
        confidence: 0.5,
        evidence: evidence([("free.share", free, "1"), ("lost.share", lost, "1")]),
        gpus: idle.iter().map(|gpu| gpu.id.clone()).collect(),
        kind,
        effort: Effort::Low,
        reversible: true,
        remediation: None,
    })
}

/// The share of the time in which no GPU of a node works. Unobserved steps are NaN, and count as work.
fn free_share(node: &[&Gpu]) -> f64 {
    let steps = node[0].utilization.len();
    let is_free = |step: &usize| {
        node.iter().all(|gpu| gpu.utilization.get(*step).is_some_and(|mean| *mean < QUIET))
    };
    (0..steps).filter(is_free).count() as f64 / steps.max(1) as f64
}

phasemeter_policy::recommender!(Mine);

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_policy::testing::{steady, window};

    fn levers(gpus: Vec<Gpu>) -> Vec<(String, RecommendationKind)> {
        let found = Mine::recommend(&Settings::default(), &window(gpus)).recommendations;
        found.into_iter().map(|one| (one.lever, one.kind)).collect()
    }

    #[test]
    fn only_a_free_node_is_a_saving() {
        let [free, busy] = [0.0, 0.8].map(|load| steady(3_600, load));
        let saving = ("schedule".to_owned(), RecommendationKind::Saving);
        let capacity = ("bin_pack".to_owned(), RecommendationKind::Capacity);
        assert_eq!(levers(vec![free.clone(), free.clone()]), [saving]);
        assert_eq!(levers(vec![free, busy.clone()]), [capacity]);
        assert_eq!(levers(vec![busy]), []);
    }
}
