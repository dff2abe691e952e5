//! Kinds of workload that labels of Kubernetes pods imply.
//!
//! Only labels that a controller sets on pods of one kind, and roles that an owner names. The kind of a
//! controller is not evidence: a Deployment or a StatefulSet is as often a notebook or a worker as a
//! service, and a queue (Kueue) admits all of them.

use std::collections::BTreeMap;

use super::Workload::{self, Interactive, Serving, Training};

/// Prefixes of attributes that are labels of a pod: of OpenTelemetry's conventions, and of older versions of
/// the Collector's `k8sattributes`.
const PREFIXES: [&str; 2] = ["k8s.pod.label.", "k8s.pod.labels."];

/// Role of a part of an application, as its owner names it.
const COMPONENT: &str = "app.kubernetes.io/component";

/// The controller of the Kubeflow Training Operator. That of MPI jobs runs simulations, too.
const OPERATOR: &str = "training.kubeflow.org/operator-name";

/// Labels, the values that imply a kind, any value if there are none, and the kind.
const LABELS: [(&str, &[&str], Workload); 15] = [
    (
        OPERATOR,
        &[
            "pytorchjob-controller",
            "tfjob-controller",
            "xgboostjob-controller",
            "paddlejob-controller",
            "jaxjob-controller",
        ],
        Training,
    ),
    // The Kubeflow Trainer; other steps download data and models.
    ("trainer.kubeflow.org/trainjob-ancestor-step", &["trainer"], Training),
    (COMPONENT, &["training", "trainer"], Training),
    // Notebooks of Kubeflow and JupyterHub.
    ("notebook-name", &[], Interactive),
    ("hub.jupyter.org/username", &[], Interactive),
    ("component", &["singleuser-server"], Interactive),
    (COMPONENT, &["singleuser-server", "notebook"], Interactive),
    ("serving.kserve.io/inferenceservice", &[], Serving),
    ("serving.knative.dev/service", &[], Serving),
    ("seldon-deployment-id", &[], Serving),
    ("llm-d.ai/inferenceServing", &["true"], Serving),
    ("llm-d.ai/inference-serving", &["true"], Serving),
    ("ray.io/serve", &["true"], Serving),
    ("ray.io/originated-from-crd", &["RayService"], Serving),
    (COMPONENT, &["inference-server", "model-server"], Serving),
];

/// Labels of pods that a job has started.
const JOBS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

/// The keys of all labels that are read.
pub fn keys() -> impl Iterator<Item = &'static str> {
    let declared = [super::WORKLOAD, super::INTERRUPTIBLE];
    declared.into_iter().chain(LABELS.iter().map(|(key, ..)| *key)).chain(JOBS)
}

/// The value of a label of the pod.
pub(super) fn label<'a>(attributes: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    PREFIXES.iter().find_map(|prefix| attributes.get(&[prefix, key].concat())).map(String::as_str)
}

/// The kind that labels of the pod imply; unknown if none does, or if they contradict each other.
pub(super) fn implied(attributes: &BTreeMap<String, String>) -> Workload {
    let mut kinds = LABELS.iter().filter_map(|(key, values, kind)| {
        let value = label(attributes, key)?;
        (values.is_empty() || values.contains(&value)).then_some(*kind)
    });
    let first = kinds.next().unwrap_or_default();
    if kinds.all(|kind| kind == first) { first } else { Workload::Unknown }
}

/// Whether labels name a job.
pub(super) fn is_job(attributes: &BTreeMap<String, String>) -> bool {
    JOBS.iter().any(|key| label(attributes, key).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
        let labels = labels.iter();
        labels.map(|(key, value)| (format!("k8s.pod.label.{key}"), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_of_one_kind_imply_it() {
        for (key, value, expected) in [
            (OPERATOR, "pytorchjob-controller", Training),
            (OPERATOR, "mpi-operator", Workload::Unknown),
            ("trainer.kubeflow.org/trainjob-ancestor-step", "trainer", Training),
            ("trainer.kubeflow.org/trainjob-ancestor-step", "model-initializer", Workload::Unknown),
            ("notebook-name", "ana", Interactive),
            (COMPONENT, "singleuser-server", Interactive),
            ("serving.kserve.io/inferenceservice", "llama", Serving),
            ("ray.io/serve", "true", Serving),
            ("ray.io/serve", "false", Workload::Unknown),
            ("ray.io/originated-from-crd", "RayJob", Workload::Unknown),
            (COMPONENT, "inference-server", Serving),
            // It may be batch inference.
            (COMPONENT, "inference", Workload::Unknown),
            ("kueue.x-k8s.io/queue-name", "team-a", Workload::Unknown),
            ("app", "training", Workload::Unknown),
        ] {
            assert_eq!(implied(&labels(&[(key, value)])), expected, "{key}: {value}");
        }
        let older = BTreeMap::from([("k8s.pod.labels.notebook-name".to_owned(), "a".to_owned())]);
        assert_eq!(implied(&older), Interactive);
    }

    #[test]
    fn contradicting_labels_imply_nothing() {
        let both = labels(&[("notebook-name", "ana"), (COMPONENT, "model-server")]);
        assert_eq!(implied(&both), Workload::Unknown);
        let alike =
            labels(&[("hub.jupyter.org/username", "ana"), (COMPONENT, "singleuser-server")]);
        assert_eq!(implied(&alike), Interactive);
    }
}
