//! Replicas of a service of which some are full and the others are not.

use phasemeter_diagnoses::{MOSTLY_FULL, NO_WORK, SAME_MEMORY, confidence, share};
use phasemeter_policy::format::{count, percent};
use phasemeter_policy::{Gpu, Recommendation, Window, Workload, evidence, groups, mean};

use crate::risk;

/// Fewest others. An assumption.
const MIN_OTHERS: usize = 2;

/// Replicas that carry several times the load of the others.
pub(crate) fn recommend(window: &Window) -> Vec<Recommendation> {
    let serving = window.gpus.iter().filter(|gpu| {
        gpu.workload == Workload::Serving && gpu.accounts.observed().level() >= NO_WORK
    });
    let serve_same = |a: &&Gpu, b: &&Gpu| {
        let memory = a.memory_share().zip(b.memory_share());
        a.is_alike(b) && memory.is_some_and(|(a, b)| (a - b).abs() <= SAME_MEMORY * f64::max(a, b))
    };
    groups(serving, serve_same).into_iter().filter_map(warn).collect()
}

fn warn(replicas: Vec<&Gpu>) -> Option<Recommendation> {
    let level = |gpu: &Gpu| gpu.accounts.observed().level();
    let (full, others): (Vec<_>, Vec<_>) =
        replicas.into_iter().partition(|gpu| level(gpu) >= MOSTLY_FULL);
    let [own, theirs] = [&full, &others].map(|all| mean(all, |gpu| level(gpu)));
    let is_unequal = others.iter().all(|other| level(other) < share::MOST * own);
    if full.is_empty() || others.len() < MIN_OTHERS || !is_unequal {
        return None;
    }
    let [busy, others_busy] = [own, theirs].map(percent);
    let (some, many) = (count(full.len(), "replica"), full.len() > 1);
    Some(Recommendation {
        evidence: evidence([("utilization", own, "1"), ("utilization.others", theirs, "1")]),
        reversible: true,
        ..risk(
            "health.balance",
            "other",
            full,
            [
                &format!(
                    "{some} {} {busy} busy, others {others_busy}: balance requests",
                    if many { "are" } else { "is" }
                ),
                "Route each request to the replica with the fewest in progress, and look for sticky sessions and \
                 long-lived connections, which keep clients where they are. If these have another role, move capacity to it.",
            ],
            format!(
                "{some} {} {busy} busy, and {} others of this model {others_busy}: if they serve the same, requests \
                 wait while others have capacity left.",
                if many { "are" } else { "is" },
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
        assert!(found([0.94, 0.17, 0.9], 32.0).is_empty(), "one other");
        assert!(found([0.94, 0.17, 0.0], 32.0).is_empty(), "one other and a standby");
        assert!(found([0.94, 0.17, 0.2], 8.0).is_empty(), "another model");
    }
}
