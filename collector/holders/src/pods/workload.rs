//! What runs a pod, by what is known of the pod alone: reading the owners of owners would need more rights.

use phasemeter_meter::holder_details::Workload;
use phasemeter_meter::units::Timestamp;

use super::metadata::Metadata;

/// Labels with the hash that ends the names of replica sets, and what creates these.
const HASHES: [(&str, &str); 2] =
    [("pod-template-hash", "Deployment"), ("rollouts-pod-template-hash", "Rollout")];

/// How long after the minute in its name a job of a cron job has its pod. It may wait in a queue.
const SCHEDULED_WITHIN: u64 = 7 * 86_400;

/// How far the clocks of two programs may differ, in seconds.
const CLOCKS: u64 = 3_600;

/// The workload of a pod: its controller, or what that belongs to if the names tell. A pod without one is its own.
pub(super) fn workload(pod: &Metadata) -> Workload {
    let named = |kind: &str, name: &str| Workload { kind: kind.to_owned(), name: name.to_owned() };
    // Of a pod that the kubelet itself runs, the node is the owner.
    let Some(owner) = pod.controller().filter(|owner| owner.kind != "Node") else {
        return named("Pod", &pod.name);
    };
    let of_owner = match owner.kind.as_str() {
        "ReplicaSet" => HASHES.iter().find_map(|(label, kind)| {
            let name = owner.name.strip_suffix(pod.labels.get(*label)?)?.strip_suffix('-')?;
            Some(named(kind, name))
        }),
        "Job" => cron_job(&owner.name, pod.created()).map(|name| named("CronJob", name)),
        _ => None,
    };
    of_owner.unwrap_or_else(|| named(&owner.kind, &owner.name))
}

/// The cron job of a job whose name ends with the minute for which it was scheduled, if that is shortly before its pod was
/// created: other jobs may have names that end with a number.
fn cron_job(job: &str, created: Option<Timestamp>) -> Option<&str> {
    let (name, minute) = job.rsplit_once('-')?;
    let is_minute = minute.len() == 8 && minute.bytes().all(|byte| byte.is_ascii_digit());
    let scheduled = minute.parse::<u64>().ok().filter(|_| is_minute)?.checked_mul(60)?;
    let created = created?.as_nanos() / 1_000_000_000;
    let range = scheduled.saturating_sub(CLOCKS)..=scheduled.saturating_add(SCHEDULED_WITHIN);
    (!name.is_empty() && range.contains(&created)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::metadata::Owner;

    fn pod(kind: &str, name: &str, labels: &[(&str, &str)]) -> Metadata {
        let owner = Owner { kind: kind.to_owned(), name: name.to_owned(), controller: true };
        let label = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        Metadata {
            name: "pod-1".to_owned(),
            owners: vec![owner],
            labels: labels.iter().map(label).collect(),
            // The minute 29,740,000.
            created: Some("2026-07-18T18:40:05Z".to_owned()),
            ..Metadata::default()
        }
    }

    #[test]
    fn workload_is_the_controller_or_what_its_name_tells() {
        let hash = ("pod-template-hash", "7c9d8f6b5");
        for (owner, labels, expected) in [
            (("ReplicaSet", "chat-7c9d8f6b5"), vec![hash], ("Deployment", "chat")),
            (("ReplicaSet", "chat-7c9d8f6b5"), vec![], ("ReplicaSet", "chat-7c9d8f6b5")),
            (("ReplicaSet", "7c9d8f6b5"), vec![hash], ("ReplicaSet", "7c9d8f6b5")),
            (
                ("ReplicaSet", "chat-66d"),
                vec![("rollouts-pod-template-hash", "66d")],
                ("Rollout", "chat"),
            ),
            (("StatefulSet", "train"), vec![], ("StatefulSet", "train")),
            (("Job", "nightly-29740000"), vec![], ("CronJob", "nightly")),
            (("Job", "nightly-29740061"), vec![], ("Job", "nightly-29740061")),
            (("Job", "nightly-29700000"), vec![], ("Job", "nightly-29700000")),
            (("Job", "sweep-2974000"), vec![], ("Job", "sweep-2974000")),
            (("Job", "-29740000"), vec![], ("Job", "-29740000")),
            (("Job", "train"), vec![], ("Job", "train")),
            (("PyTorchJob", "train"), vec![], ("PyTorchJob", "train")),
            (("Node", "node-1"), vec![], ("Pod", "pod-1")),
        ] {
            let found = workload(&pod(owner.0, owner.1, &labels));
            assert_eq!((found.kind.as_str(), found.name.as_str()), expected, "{owner:?}");
        }
        let mut alone = pod("Job", "train", &[]);
        alone.owners[0].controller = false;
        assert_eq!(workload(&alone).kind, "Pod", "an owner that is not its controller");
    }
}
