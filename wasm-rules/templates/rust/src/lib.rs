//! Recommends sharing or switching off GPUs that are mostly idle.

use phasemeter_policy::{
    Accounts, Effort, Gpu, Policy, Recommendation, RecommendationKind, Recommender, Response, Saving,
    Target, Window, evidence,
};

phasemeter_policy::settings! {
    /// Minimum idle share of observed time.
    min_idle: number = 0.5 in 0.0..=1.0;
}

struct Mine;

impl Policy for Mine {
    const NAME: &'static str = "my-policy";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
    type Settings = Settings;
}

impl Recommender for Mine {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let recommendations = window.gpus.iter().filter_map(|gpu| recommend(settings, gpu));
        recommendations.collect::<Vec<_>>().into()
    }
}

fn recommend(settings: &Settings, gpu: &Gpu) -> Option<Recommendation> {
    let idle = gpu.share(Accounts::idle);
    // There is no idle waste if the GPU waits for input, or if its price is unknown.
    if idle < settings.min_idle || gpu.waste.idle == 0 {
        return None;
    }
    let lost = gpu.lost_idle();
    let held = gpu.accounts.idle_held.seconds > gpu.accounts.idle_free.seconds;
    let (lever, title, action, state) = if held {
        (
            "bin_pack",
            "Share this GPU",
            "Place a second job on it. The process that holds it is mostly idle.",
            "mostly held by a process",
        )
    } else {
        (
            "schedule",
            "Switch this GPU off",
            "Stop its node while nothing runs on it.",
            "mostly free",
        )
    };
    Some(Recommendation {
        code: ["idle.", lever].concat(),
        target: Target::Idle,
        lever: lever.into(),
        title: title.into(),
        action: action.into(),
        rationale: format!("The GPU was idle {}% of the time, {state}.", (idle * 100.0) as u32),
        // Nothing is saved for certain: sharing needs another job, and switching off needs a schedule.
        saving: Saving { low: 0.0, expected: lost * 0.5, high: lost },
        confidence: 0.75,
        evidence: evidence([("idle.share", idle, "1"), ("lost.share", lost, "1")]),
        gpus: vec![gpu.id.clone()],
        // Other jobs use the capacity; the bill stays the same.
        kind: if held { RecommendationKind::Capacity } else { RecommendationKind::Saving },
        effort: Effort::Low,
        reversible: true,
        remediation: None,
    })
}

phasemeter_policy::recommender!(Mine);

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_policy::testing::{steady, window};

    #[test]
    fn only_idle_gpus_are_recommended() {
        let window = window(vec![steady(3_600, 0.01), steady(3_600, 0.8)]);
        let found = Mine::recommend(&Settings::default(), &window).recommendations;
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].lever.as_str(), &found[0].gpus), ("bin_pack", &vec!["GPU-0".to_owned()]));
    }
}
