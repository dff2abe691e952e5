//! Replicas of a service of which one is full and the others are not.

use phasemeter_diagnoses::{MOSTLY_FULL, NO_WORK, SAME_MEMORY, confidence, share};
use phasemeter_policy::format::percent;
use phasemeter_policy::{Gpu, Recommendation, Window, Workload, evidence, mean};

use crate::risk;

/// Fewest others. An assumption.
const MIN_OTHERS: usize = 2;

/// Replicas that carry several times the load of the others.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    window.gpus.iter().filter_map(|gpu| warn(gpu, window)).collect()
}

fn warn(gpu: &Gpu, window: &Window) -> Option<Recommendation> {
    let level = |gpu: &Gpu| gpu.accounts.observed().level();
    let own = level(gpu);
    if gpu.workload != Workload::Serving || own < MOSTLY_FULL {
        return None;
    }
    let serves_same = |other: &&Gpu| {
        let memory = gpu.memory_share().zip(other.memory_share());
        let is_similar = memory.is_some_and(|(a, b)| (a - b).abs() <= SAME_MEMORY * a.max(b));
        other.id != gpu.id && is_similar && level(other) >= NO_WORK && other.is_alike(gpu)
    };
    let others: Vec<_> = window.gpus.iter().filter(serves_same).collect();
    let is_unequal = others.iter().all(|other| level(other) < share::MOST * own);
    if others.len() < MIN_OTHERS || !is_unequal {
        return None;
    }
    let mean = mean(&others, |other| level(other));
    let [busy, others_busy] = [own, mean].map(percent);
    Some(Recommendation {
        evidence: evidence([("utilization", own, "1"), ("utilization.others", mean, "1")]),
        reversible: true,
        ..risk(
            "health.balance",
            "other",
            [gpu],
            [
                &format!("One replica is {busy} busy, others {others_busy}: balance requests"),
                "Route each request to the replica with the fewest in progress, and look for sticky sessions and \
                 long-lived connections, which keep clients on one replica.",
            ],
            format!(
                "The GPU is {busy} busy, and {} others of this model {others_busy}: if they serve the same, requests \
                 wait for one replica while the others have capacity left.",
                others.len(),
            ),
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
