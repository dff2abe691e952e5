//! Details of a holder beyond its identity: its workload, queue and labels. They change no account.

use std::collections::BTreeMap;

/// What is known of a holder. What is unknown is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HolderDetails {
    /// What runs its pod.
    pub workload: Option<Workload>,
    /// The queue of its batch scheduler.
    pub queue: Option<String>,
    /// The user of its job.
    pub user: Option<String>,
    /// The project that pays for its job: an account of Slurm.
    pub project: Option<String>,
    /// Labels of its pod, those that are asked for.
    pub labels: BTreeMap<String, String>,
}

/// What runs a pod, like a deployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Workload {
    /// Its kind in Kubernetes, like `Deployment`.
    pub kind: String,
    /// Its name, in the namespace of the pod.
    pub name: String,
}

/// Labels that name the queue of a pod, the first one counts: of Kueue, KAI, its earlier name, Volcano.
pub const QUEUE_LABELS: [&str; 4] =
    ["kueue.x-k8s.io/queue-name", "kai.scheduler/queue", "runai/queue", "volcano.sh/queue-name"];

/// Kinds of workloads whose names OpenTelemetry has an attribute for, the most general first: a cron job has jobs, and a
/// deployment has replica sets.
pub const WORKLOAD_ATTRIBUTES: [(&str, &str); 6] = [
    ("CronJob", "k8s.cronjob.name"),
    ("Job", "k8s.job.name"),
    ("StatefulSet", "k8s.statefulset.name"),
    ("DaemonSet", "k8s.daemonset.name"),
    ("Deployment", "k8s.deployment.name"),
    ("ReplicaSet", "k8s.replicaset.name"),
];

/// The attribute that has the name of a workload of this kind; `None` if OpenTelemetry has none.
#[must_use]
pub fn workload_attribute(kind: &str) -> Option<&'static str> {
    let found = WORKLOAD_ATTRIBUTES.iter().find(|(known, _)| *known == kind);
    found.map(|(_, attribute)| *attribute)
}
