//! Replicas of a service of which one is full and the others are not.

use phasemeter_diagnoses::confidence;
use phasemeter_policy::format::{decimal, percent};
use phasemeter_policy::{Gpu, Recommendation, Window, Workload, evidence, mean};

use crate::risk;

/// Utilization of a replica that is full. An assumption.
const FULL: f64 = 0.85;

/// Utilization of the others, relative to it, below which the load is unequal. An assumption.
const UNEQUAL: f64 = 0.5;

/// Utilization from which a replica gets requests: a standby gets none. An assumption.
const IN_USE: f64 = 0.03;

/// Difference of the memory in use up to which replicas serve the same model, relative to the larger.
/// An assumption.
const SAME_MODEL: f64 = 0.4;

/// Fewest others. An assumption.
const MIN_OTHERS: usize = 2;

/// Replicas that carry several times the load of the others.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    window.gpus.iter().filter_map(|gpu| warn(gpu, window)).collect()
}

fn warn(gpu: &Gpu, window: &Window) -> Option<Recommendation> {
    let level = |gpu: &Gpu| gpu.accounts.observed().level();
    let own = level(gpu);
    if gpu.workload != Workload::Serving || own < FULL {
        return None;
    }
    let serves_same = |other: &&Gpu| {
        let memory = gpu.memory_share().zip(other.memory_share());
        let is_similar = memory.is_some_and(|(a, b)| (a - b).abs() <= SAME_MODEL * a.max(b));
        other.id != gpu.id && is_similar && level(other) >= IN_USE && other.is_alike(gpu)
    };
    let others: Vec<_> = window.gpus.iter().filter(serves_same).collect();
    let is_unequal = others.iter().all(|other| level(other) < UNEQUAL * own);
    if others.len() < MIN_OTHERS || !is_unequal {
        return None;
    }
    let mean = mean(&others, |other| level(other));
    let celsius = gpu.sensors.max_temperature_celsius.map_or_else(String::new, |celsius| {
        [" It reached ", &decimal(celsius, 0), " °C."].concat()
    });
    let [busy, others_busy] = [own, mean].map(percent);
    let rationale = format!(
        "The GPU is {busy} busy, and {} others of this model {others_busy}: if they serve the same, requests wait for \
         one replica while the others have capacity left.{celsius}",
        others.len(),
    );
    let title = format!("One replica is {busy} busy, others {others_busy}: balance requests");
    Some(Recommendation {
        evidence: evidence([("utilization", own, "1"), ("utilization.others", mean, "1")]),
        reversible: true,
        ..risk(
            "health.balance",
            "other",
            [gpu],
            [
                &title,
                "Route each request to the replica with the fewest in progress, and look for sticky sessions and \
                 long-lived connections, which keep clients on one replica.",
            ],
            rationale,
            confidence::PROBABLE,
        )
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_policy::testing::{steady, window, with_varying_memory};

    use super::*;

    #[test]
    fn one_full_replica_among_others_with_room_is_a_risk() {
        let replica = |level: f64, gib: f64| {
            let gpu = with_varying_memory(steady(3_600, level), gib);
            Gpu { workload: Workload::Serving, ..gpu }
        };
        let found = |levels: [f64; 3], gib: f64| -> Vec<_> {
            let [first, second, third] = levels;
            let gpus = vec![replica(first, gib), replica(second, 28.0), replica(third, 26.0)];
            recommend(&window(gpus)).into_iter().flat_map(|one| one.gpus).collect()
        };
        assert_eq!(found([0.94, 0.17, 0.2], 32.0), ["GPU-0"]);
        assert!(found([0.94, 0.17, 0.9], 32.0).is_empty());
        assert!(found([0.94, 0.17, 0.0], 32.0).is_empty(), "one other and a standby");
        assert!(found([0.94, 0.17, 0.2], 8.0).is_empty(), "another model");
    }
}
