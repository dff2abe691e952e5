//! The metadata of pods, in lists and in the events of a watch.

use phasemeter_meter::holder_details::{HolderDetails, QUEUE_LABELS};
use serde::Deserialize;

use super::fraction::Grouped;
use super::metadata::{Metadata, is_text, null};
use super::workload::workload;
use crate::event;
use crate::options::PodName;

/// The annotation of Volcano that names the queue of a pod, if no label does.
const QUEUE_ANNOTATION: &str = "scheduling.volcano.sh/queue-name";

/// The annotation with the UID that the kubelet gives a pod that is not from the API server. The one of its object differs.
const OWN_UID: &str = "kubernetes.io/config.hash";

/// An object of which only the metadata is read, or an error in its place.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Object {
    #[serde(default, deserialize_with = "null")]
    pub(super) metadata: Metadata,
    /// The status of an error.
    pub(super) code: Option<u16>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default, deserialize_with = "null")]
    metadata: Metadata,
    // A list without it is another object.
    items: Option<Vec<Object>>,
    kind: String,
}

/// The pods in the text of a list of pods or of their metadata, and its resource version; `None` if it is not one.
pub(crate) fn list(json: &[u8]) -> Option<(Vec<Object>, String)> {
    let List { metadata, items, kind } = serde_json::from_slice(json).ok()?;
    let is_list = matches!(kind.as_str(), "PodList" | "PartialObjectMetadataList");
    is_list.then(|| (items.unwrap_or_default(), metadata.resource_version))
}

impl event::Object for Object {
    fn version(&self) -> &str {
        &self.metadata.resource_version
    }

    fn code(&self) -> Option<u16> {
        self.code
    }
}

impl Object {
    /// The pod's name; `None` if it is not a pod.
    pub(super) fn name(&self) -> Option<PodName> {
        let Metadata { namespace, name, .. } = &self.metadata;
        let is_named = is_text(namespace) && is_text(name);
        is_named.then(|| PodName { namespace: namespace.clone(), name: name.clone() })
    }

    /// The UID by which the kubelet knows the pod.
    pub(super) fn uid(&self) -> Option<&String> {
        let Metadata { annotations, uid, .. } = &self.metadata;
        Some(annotations.get(OWN_UID).unwrap_or(uid)).filter(|uid| is_text(uid))
    }

    /// What is known of the pod as a holder, with the labels of these keys.
    pub(crate) fn details(&self, keys: &[String]) -> HolderDetails {
        let Metadata { labels, annotations, .. } = &self.metadata;
        let present = |value: &&String| is_text(value);
        let queue = QUEUE_LABELS.iter().find_map(|key| labels.get(*key).filter(present));
        let queue = queue.or_else(|| annotations.get(QUEUE_ANNOTATION).filter(present));
        let asked = keys.iter().filter_map(|key| Some((key, labels.get(key).filter(present)?)));
        let workload = workload(&self.metadata);
        HolderDetails {
            workload: Some(workload).filter(|it| is_text(&it.kind) && is_text(&it.name)),
            queue: queue.cloned(),
            labels: asked.map(|(key, value)| (key.clone(), value.clone())).collect(),
            ..HolderDetails::default()
        }
    }

    /// What the pod has to do with GPUs that a scheduler divides.
    pub(super) fn grouped(&self) -> Option<Grouped> {
        Grouped::of(&self.metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::MAX_TEXT;
    use super::*;

    fn object(json: &str) -> Object {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn queue_is_that_of_a_label_else_of_the_annotation() {
        let queue = |json: &str| object(json).details(&[]).queue;
        let annotated = r#"{"metadata": {"name": "a", "namespace": "b", "labels": {LABELS},
            "annotations": {"scheduling.volcano.sh/queue-name": "v"}}}"#;
        let with = |labels: &str| queue(&annotated.replace("LABELS", labels));
        assert_eq!(with("").as_deref(), Some("v"));
        assert_eq!(with(r#""kai.scheduler/queue": "k""#).as_deref(), Some("k"));
        assert_eq!(with(r#""kueue.x-k8s.io/queue-name": """#).as_deref(), Some("v"));
        assert_eq!(with(r#""runai/queue": "r", "kueue.x-k8s.io/queue-name": "q""#).unwrap(), "q");
        assert_eq!(queue(r#"{"metadata": {"name": "a", "labels": null}}"#), None);
    }

    /// Labels that are not asked for, and values that cannot be those of labels, are not kept.
    #[test]
    fn only_labels_that_are_asked_for_are_kept() {
        let long = "x".repeat(MAX_TEXT + 1);
        let json = format!(
            r#"{{"metadata": {{"name": "a", "namespace": "b", "labels":
                {{"team": "vision", "secret": "s", "long": "{long}", "bell": "\u0007", "none": ""}}}}}}"#
        );
        let keys = ["team", "long", "bell", "none", "absent"].map(str::to_owned);
        let labels = object(&json).details(&keys).labels;
        assert_eq!(labels, [("team".to_owned(), "vision".to_owned())].into());
    }

    #[test]
    fn static_pod_has_the_uid_of_the_kubelet() {
        let uid = |json: &str| object(json).uid().cloned();
        let mirror = r#"{"metadata": {"uid": "api", "annotations": {"kubernetes.io/config.hash": "kubelet"}}}"#;
        assert_eq!(uid(mirror).as_deref(), Some("kubelet"));
        assert_eq!(uid(r#"{"metadata": {"uid": "api"}}"#).as_deref(), Some("api"));
        assert_eq!(uid("{}"), None);
    }

    #[test]
    fn list_is_one_of_pods() {
        let of = |kind: &str, items: &str| {
            let json = format!(
                r#"{{"kind": "{kind}", "metadata": {{"resourceVersion": "7"}}, "items": {items}}}"#
            );
            list(json.as_bytes()).map(|(items, version)| (items.len(), version))
        };
        assert_eq!(of("PodList", r#"[{"metadata": {}}]"#), Some((1, "7".to_owned())));
        assert_eq!(of("PartialObjectMetadataList", "null"), Some((0, "7".to_owned())));
        assert_eq!(of("Status", "[]"), None);
        assert_eq!(of("PodList", "[1]"), None);
    }
}
