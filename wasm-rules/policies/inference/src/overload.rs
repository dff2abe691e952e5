//! Services without a reserve: GPUs that are full all the time.

use phasemeter_diagnoses::{FULL_POWER, confidence, power_share, share};
use phasemeter_policy::format::{duration, percent, subject};
use phasemeter_policy::{
    Effort, Gpu, Recommendation, RecommendationKind, Target, Thresholds, evidence,
};

use crate::{Settings, serves};

/// Warns of saturated services, except for those that can do more inside of the GPU.
pub(crate) fn recommend(
    observed: &[&Gpu],
    bounds: Thresholds,
    settings: &Settings,
    can_do_more: impl Fn(&Gpu) -> bool,
) -> Option<Recommendation> {
    let gpus = observed.iter().copied().filter(|gpu| {
        serves(gpu)
            && gpu.full_share() >= share::NEARLY_ALL
            && is_saturated(gpu)
            && gpu.accounts.observed().seconds >= settings.min_size_seconds
            && !can_do_more(gpu)
    });
    let gpus: Vec<_> = gpus.collect();
    let seconds = gpus.first()?.accounts.compute_bound.seconds;
    let route = lightly_loaded(observed, &gpus).map_or_else(String::new, |other| {
        let level = percent(other.accounts.observed().level());
        format!(
            "route requests to the {} that is {level} busy first, if it serves the same; then ",
            other.model
        )
    });
    Some(Recommendation {
        title: "Look at the latency, then add a replica".to_owned(),
        action: format!(
            "If the latency or the queue of the server grows, {route}add a replica, or use a larger GPU."
        ),
        rationale: format!(
            "{} of this service was above {} for {}, and its power or measured activity is near the limit: it has \
             no reserve for a peak, and requests may queue.",
            subject(gpus.len()),
            percent(bounds.compute_bound),
            duration(seconds),
        ),
        confidence: confidence::PROBABLE,
        evidence: evidence([("compute_bound.time", seconds, "s")]),
        kind: RecommendationKind::Risk,
        effort: Effort::Medium,
        ..Recommendation::new("inference.overload", Target::Throughput, "replicas", gpus)
    })
}

fn is_saturated(gpu: &Gpu) -> bool {
    let sensors = &gpu.sensors;
    let activity = [sensors.sm_activity, sensors.tensor_activity, sensors.dram_activity];
    power_share(gpu).is_some_and(|share| share >= FULL_POWER)
        || activity.iter().flatten().any(|activity| *activity >= share::NEARLY_ALL)
}

/// The least busy GPU that serves, maybe of another model, and has memory for what a full one holds.
fn lightly_loaded<'a>(observed: &[&'a Gpu], full: &[&Gpu]) -> Option<&'a Gpu> {
    let service = full.first()?.attribute("service.name");
    let held = full.iter().map(|gpu| gpu.memory_peak()).collect::<Option<Vec<_>>>()?;
    let held = held.into_iter().fold(0.0, f64::max);
    let level = |gpu: &Gpu| gpu.accounts.observed().level();
    let is_light = |gpu: &&Gpu| {
        let free = gpu.memory_total_bytes.map(|total| total as f64).zip(gpu.memory_peak());
        serves(gpu)
            && gpu.attribute("service.name") == service
            && level(gpu) < share::MOST
            && free.is_some_and(|(total, peak)| total - peak >= held)
    };
    let others = observed.iter().copied().filter(is_light);
    others.min_by(|a, b| level(a).total_cmp(&level(b)))
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::Workload;
    use phasemeter_policy::testing::{steady, with_memory};

    use super::*;

    #[test]
    fn requests_move_to_a_gpu_lightly_loaded_first() {
        let serving = |level, gib| Gpu {
            workload: Workload::Serving,
            ..with_memory(steady(7_200, level), gib)
        };
        let mut full = serving(0.97, 17.0);
        full.sensors.sm_activity = Some(0.95);
        let action = |other: Gpu| {
            let other = Gpu { model: "NVIDIA A100-SXM4-40GB".to_owned(), ..other };
            let found =
                recommend(&[&full, &other], Thresholds::default(), &Settings::default(), |_| false)
                    .unwrap();
            assert_eq!(found.gpus.len(), 1);
            found.action
        };
        assert!(
            action(serving(0.11, 6.0)).contains("to the NVIDIA A100-SXM4-40GB that is 11% busy")
        );
        for without in
            [serving(0.6, 6.0), serving(0.11, 70.0), with_memory(steady(7_200, 0.1), 6.0)]
        {
            let action = action(without);
            assert!(!action.contains("route"), "{action}");
        }
    }
}
