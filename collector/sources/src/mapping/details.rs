//! Attributes of the host and of the pod of a GPU, as labels of points and resources have them.
//!
//! A resource often describes the exporter or the Collector: it counts only if it names the host or the pod
//! that the point names.

use phasemeter_meter::reading::INSTANCE;
use serde::Deserialize;

use super::point::{MAX_LABEL, PodLabels, Point};

/// Attributes of the instance that a GPU is in.
const OF_HOST: [&str; 4] = [INSTANCE, "host.type", NODE, "k8s.cluster.name"];

/// The attribute with the name of a host in its cluster.
const NODE: &str = "k8s.node.name";

/// Attributes that name what started a pod.
const OWNERS: [&str; 4] =
    ["k8s.deployment.name", "k8s.statefulset.name", "k8s.job.name", "k8s.cronjob.name"];

/// Before the key of a label of a pod: in OpenTelemetry's conventions, and in older versions of the
/// Collector's `k8sattributes`.
pub(super) const LABEL: &str = "k8s.pod.label.";
const OLDER_LABEL: &str = "k8s.pod.labels.";

/// A label of pods that is read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub(super) struct PodLabel {
    /// Its attribute.
    attribute: String,
    /// The attribute of older versions.
    older: String,
    /// The labels of an exporter that has those of pods, like `notebook_name`.
    labels: [String; 2],
}

/// The label with a key like `notebook-name`.
impl From<String> for PodLabel {
    fn from(key: String) -> Self {
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let label: String = key.chars().map(|c| if is_allowed(c) { c } else { '_' }).collect();
        Self {
            attribute: [LABEL, &key].concat(),
            older: [OLDER_LABEL, &key].concat(),
            // Prometheus adds the prefix if its target has such a label of its own.
            labels: [["exported_", &label].concat(), label],
        }
    }
}

/// The attributes of this host and pod.
pub(super) fn details(
    point: &Point<'_>,
    host: Option<&str>,
    pod: Option<&PodLabels>,
    pod_labels: &[PodLabel],
) -> Vec<(String, String)> {
    let text = |name: &str| {
        (point.label)(name).filter(|value| !value.is_empty() && value.len() <= MAX_LABEL)
    };
    let mut found = Vec::new();
    let mut add = |name: &str, value: Option<&str>| {
        found.extend(value.map(|value| (name.to_owned(), value.to_owned())));
    };
    let is_host = |name| host.zip(text(name)).is_some_and(|(host, of)| is_same_host(host, of));
    if is_host("host.name") || is_host(NODE) {
        OF_HOST.iter().for_each(|name| add(name, text(name)));
    }
    let Some(pod) = pod else { return found };
    let is_of_resource = is_same_pod(pod, text);
    for PodLabel { attribute, older, labels } in pod_labels {
        let of_resource = || text(attribute).or_else(|| text(older)).filter(|_| is_of_resource);
        add(attribute, labels.iter().find_map(|label| text(label)).or_else(of_resource));
    }
    if is_of_resource {
        OWNERS.iter().for_each(|name| add(name, text(name)));
    }
    found
}

/// Whether two names are of one host: one may have a domain.
fn is_same_host(a: &str, b: &str) -> bool {
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    first(a) == first(b)
}

/// Whether the resource is that of the pod, by its UID, else by its name.
fn is_same_pod<'a>(pod: &PodLabels, text: impl Fn(&str) -> Option<&'a str>) -> bool {
    let agrees = |own: &Option<String>, name: &str| Some(own.as_deref()? == text(name)?);
    agrees(&pod.uid, "k8s.pod.uid").unwrap_or_else(|| {
        agrees(&pod.name, "k8s.pod.name") == Some(true)
            && agrees(&pod.namespace, "k8s.namespace.name") != Some(false)
    })
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::instrument::Instrument;
    use phasemeter_meter::units::Timestamp;

    use super::*;

    fn read(labels: &[(&str, &str)], host: Option<&str>, pod: Option<&str>) -> String {
        let find = |name: &str| labels.iter().find(|(key, _)| *key == name).map(|it| it.1);
        let at = Timestamp::default();
        let instrument = Instrument::Undeclared;
        let point = Point { metric: "m", label: &find, instrument, start: None, at, number: 1.0 };
        let pod = pod.map(|name| PodLabels {
            name: Some(name.to_owned()),
            namespace: Some("vision".to_owned()),
            uid: None,
        });
        let keys = ["notebook-name", "serving.kserve.io/inferenceservice"]
            .map(|key| PodLabel::from(key.to_owned()));
        let found = details(&point, host, pod.as_ref(), &keys);
        let found: Vec<_> = found.iter().map(|(name, value)| format!("{name}={value}")).collect();
        found.join(" ")
    }

    #[test]
    fn labels_of_an_exporter_are_those_of_the_pod() {
        let labels = [("notebook_name", "ana"), ("exported_notebook_name", "ben")];
        assert_eq!(read(&labels, None, Some("p")), "k8s.pod.label.notebook-name=ben");
        assert_eq!(read(&labels, None, None), "", "no pod has the GPU");
        let service = [("serving_kserve_io_inferenceservice", "llama")];
        let expected = "k8s.pod.label.serving.kserve.io/inferenceservice=llama";
        assert_eq!(read(&service, None, Some("p")), expected);
        let long = "x".repeat(MAX_LABEL + 1);
        assert_eq!(read(&[("notebook_name", &long)], None, Some("p")), "");
    }

    #[test]
    fn resource_counts_only_for_its_own_pod_and_host() {
        let labels = [
            ("k8s.pod.name", "chat-0"),
            ("k8s.namespace.name", "vision"),
            ("k8s.statefulset.name", "chat"),
            ("k8s.pod.labels.notebook-name", "ana"),
            ("host.name", "node-1.internal"),
            ("host.id", "i-1"),
            ("host.type", "p5.48xlarge"),
            ("k8s.node.name", "node-1"),
            ("k8s.cluster.name", "east"),
        ];
        let of_pod = "k8s.pod.label.notebook-name=ana k8s.statefulset.name=chat";
        assert_eq!(read(&labels, None, Some("chat-0")), of_pod);
        assert_eq!(read(&labels, None, Some("trainer-0")), "", "of the exporter");
        assert_eq!(
            read(&labels, Some("Node-1"), None),
            "host.id=i-1 host.type=p5.48xlarge k8s.node.name=node-1 k8s.cluster.name=east"
        );
        assert_eq!(read(&labels, Some("node-2"), None), "", "of the Collector");
        let elsewhere = [("k8s.pod.name", "chat-0"), ("k8s.namespace.name", "audio")];
        let with_job = [elsewhere.as_slice(), &[("k8s.job.name", "nightly")]].concat();
        assert_eq!(read(&with_job, None, Some("chat-0")), "");
    }
}
