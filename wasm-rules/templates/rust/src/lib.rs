//! Advises what to do with GPUs that are idle most of the time.

use phasemeter_policy::{Accounts, Gpu, Policy, Recommendation, Recommender, Saving, Target, Window};

phasemeter_policy::settings! {
    /// GPUs that are idle for less of their observed time than this are left alone.
    least_idle: number = 0.5 in 0.0..=1.0;
}

struct Mine;

impl Policy for Mine {
    const NAME: &'static str = "my-policy";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = env!("CARGO_PKG_DESCRIPTION");
    type Settings = Settings;
}

impl Recommender for Mine {
    fn recommend(settings: &Settings, window: &Window) -> Vec<Recommendation> {
        window.gpus.iter().filter_map(|gpu| advise(settings, gpu)).collect()
    }
}

fn advise(settings: &Settings, gpu: &Gpu) -> Option<Recommendation> {
    let idle = gpu.share(Accounts::idle);
    // Nothing is lost where it waits for its input, nor known where nobody knows its price.
    if idle < settings.least_idle || gpu.waste.idle == 0 {
        return None;
    }
    let lost = gpu.lost_idle();
    let held = gpu.accounts.idle_held.seconds > gpu.accounts.idle_free.seconds;
    let (lever, title, action, why) = if held {
        (
            "bin_pack",
            "Share this GPU",
            "Place a second job on it: what holds it hardly computes.",
            "held by a process for most of that",
        )
    } else {
        (
            "schedule",
            "Switch this GPU off",
            "Stop its node while nothing runs on it.",
            "free for most of that",
        )
    };
    Some(Recommendation {
        code: ["idle.", lever].concat(),
        target: Target::Idle,
        lever: lever.into(),
        title: title.into(),
        action: action.into(),
        rationale: format!("It was idle for {} % of its time, and {why}.", (idle * 100.0) as u32),
        saving: Saving { low: lost * 0.5, expected: lost * 0.75, high: lost },
        confidence: 0.75,
        evidence: vec![("idle.share".into(), idle), ("lost.share".into(), lost)],
        gpus: vec![gpu.id.clone()],
    })
}

phasemeter_policy::recommender!(Mine);

#[cfg(test)]
mod tests {
    use super::*;
    use phasemeter_policy::testing::{steady, window};

    #[test]
    fn only_what_is_idle_is_told() {
        let window = window(vec![steady(3_600, 0.01), steady(3_600, 0.8)]);
        let advice = Mine::recommend(&Settings::default(), &window);
        assert_eq!(advice.len(), 1);
        assert_eq!((advice[0].lever.as_str(), &advice[0].gpus), ("bin_pack", &vec!["GPU-0".to_owned()]));
    }
}
