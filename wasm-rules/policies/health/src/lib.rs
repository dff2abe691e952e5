//! Warns of what ends or slows a job: a hang, memory that runs out, and GPUs that are lost, capped,
//! hot or slower than the others.
//!
//! A risk saves nothing by itself; a job that hangs or fails loses its work.

mod hang;
mod hardware;
mod slow;

use phasemeter_policy::format::{duration, percent, subject};
use phasemeter_policy::{
    Gpu, Memory, Policy, Recommendation, RecommendationKind, Recommender, Remediation, Response,
    Target, Window, Workload, evidence,
};

phasemeter_policy::settings! {
    /// Time at full utilization and a flat low power after which a job hangs, in seconds.
    hang_seconds: number = 600.0 in 60.0..=86400.0;
    /// Warn if memory is full within this time, in seconds.
    memory_full_seconds: number = 14400.0 in 60.0..=604800.0;
}

/// Confidence in a hang or a loss, and in memory that runs out. Assumptions.
const SURE_DEAD: f64 = 0.9;
const SURE: f64 = 0.8;

/// Observed time that shows that memory rises, in seconds. An assumption.
const MIN_RISE_SECONDS: f64 = 1_800.0;

struct Health;

impl Policy for Health {
    const NAME: &'static str = "health";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str =
        "Warns of hangs, of memory that runs out, and of faulty, lost, capped, hot or slow GPUs.";
    type Settings = Settings;
}

impl Recommender for Health {
    fn recommend(settings: &Settings, window: &Window) -> Response {
        let mut found = Vec::new();
        found.extend(hang::recommend(settings, window));
        found.extend(lost(window));
        found.extend(hardware::faulty(window));
        found.extend(hardware::narrow(window));
        found.extend(hardware::unlinked(window));
        found.extend(window.gpus.iter().filter_map(|gpu| filling(gpu, settings, window)));
        found.extend(slow::recommend(window));
        found.into()
    }
}

/// A risk, with low effort.
fn risk<'a>(
    code: &str,
    lever: &str,
    gpus: impl IntoIterator<Item = &'a Gpu>,
    texts: [&str; 2],
    rationale: String,
    confidence: f64,
) -> Recommendation {
    Recommendation {
        title: texts[0].to_owned(),
        action: texts[1].to_owned(),
        rationale,
        confidence,
        kind: RecommendationKind::Risk,
        reversible: false,
        ..Recommendation::new(code, Target::Throughput, lever, gpus)
    }
}

fn lost(window: &Window) -> Option<Recommendation> {
    let lost = |gpu: &&Gpu| gpu.metric("lost.seconds").is_some_and(|seconds| seconds > 0.0);
    let gpus: Vec<_> = window.gpus.iter().filter(lost).collect();
    let seconds = gpus.first()?.metric("lost.seconds")?;
    let rationale = format!(
        "{} has not responded for {}, and costs the same. A lost GPU does not come back by itself.",
        subject(gpus.len()),
        duration(seconds),
    );
    Some(Recommendation {
        evidence: evidence([("lost.time", seconds, "s")]),
        remediation: Some(Remediation::new("nvidia.gpu-reset", [])),
        ..risk(
            "health.lost",
            "restart",
            gpus,
            [
                "Reset the lost GPU, or replace its node",
                "Drain the node, reset the GPU or restart the node, and look for XID errors in the \
                 kernel log. If it is lost again, have it replaced.",
            ],
            rationale,
            SURE_DEAD,
        )
    })
}

/// Memory that is full soon.
fn filling(gpu: &Gpu, settings: &Settings, window: &Window) -> Option<Recommendation> {
    let Memory::Rising { share, seconds_left } = gpu.memory_use(window.step_seconds) else {
        return None;
    };
    if seconds_left > settings.memory_full_seconds
        || gpu.accounts.observed().seconds < MIN_RISE_SECONDS
    {
        return None;
    }
    let (lever, action) = match gpu.workload {
        Workload::Training => (
            "checkpoint_interval",
            "Save the state of the job now, then find what grows: references to tensors of past steps, \
             or lists of losses that were not detached.",
        ),
        Workload::Serving => (
            "restart",
            "Restart the server in a quiet minute, then find the leak: a cache without a limit is \
             typical.",
        ),
        _ => ("measure", "Find what grows, for example with PyTorch's memory snapshot."),
    };
    let rationale = format!(
        "Memory has risen all the time, to {}, and is full in about {} at this rate. The process then \
         fails, and loses what it has not saved.",
        percent(share),
        duration(seconds_left),
    );
    Some(Recommendation {
        evidence: evidence([("memory.share", share, "1"), ("memory.time_left", seconds_left, "s")]),
        ..risk("health.memory", lever, [gpu], ["Memory runs out soon", action], rationale, SURE)
    })
}

phasemeter_policy::recommender!(Health);

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_memory};

    use super::*;

    fn recommendations(gpus: Vec<Gpu>) -> Vec<Recommendation> {
        Health::recommend(&Settings::default(), &window(gpus)).recommendations
    }

    fn codes(gpus: Vec<Gpu>) -> Vec<String> {
        recommendations(gpus).into_iter().map(|one| one.code).collect()
    }

    #[test]
    fn link_is_narrow_beside_a_wider_one_or_far_below_its_slot() {
        let linked = |lanes: f64, level: f64| {
            let mut gpu = steady(3_600, level);
            let metrics = [("pcie.link.width", lanes), ("pcie.link.max_width", 16.0)];
            gpu.metrics.extend(metrics.map(|(name, value)| (name.to_owned(), value)));
            gpu
        };
        assert_eq!(codes(vec![linked(8.0, 0.9), linked(16.0, 0.9)]), ["health.pcie"]);
        assert_eq!(codes(vec![linked(4.0, 0.9)]), ["health.pcie"]);
        assert!(codes(vec![linked(8.0, 0.9), linked(8.0, 0.9)]).is_empty(), "by design");
        assert!(codes(vec![linked(1.0, 0.0)]).is_empty(), "it may save power");
    }

    #[test]
    fn rising_memory_is_a_risk_and_a_pool_is_not() {
        let mut rising = with_memory(steady(3_600, 0.95), 0.0);
        let points = rising.memory.len() as f64;
        let rise = |(i, bytes): (usize, &mut f64)| {
            *bytes = (41.0 + 36.0 * i as f64 / points) * (1 << 30) as f64;
        };
        rising.memory.iter_mut().enumerate().for_each(rise);
        assert_eq!(recommendations(vec![rising.clone()])[0].lever, "checkpoint_interval");
        let serving = Gpu { workload: Workload::Serving, ..rising };
        assert_eq!(recommendations(vec![serving])[0].lever, "restart");
        assert!(codes(vec![with_memory(steady(3_600, 0.6), 77.3)]).is_empty());
    }

    #[test]
    fn lost_gpu_is_a_risk() {
        let metrics = vec![("lost.seconds".to_owned(), 3_600.0)];
        let lost = Gpu { metrics, ..steady(3_600, 0.9) };
        assert_eq!(codes(vec![lost, steady(3_600, 0.9)]), ["health.lost"]);
    }
}
