//! The pod that this process is in: by variables of the downward API, by mounts that the kubelet makes in
//! every container, and by the namespace of the service account.

use std::collections::BTreeMap;

use super::mounts::Mounts;
use super::{Container, System, container};

/// Attributes, and the variables that are named in OpenTelemetry's operator, in its Collector and in
/// Kubernetes' documentation, in this order.
const VARIABLES: [(&str, &[&str]); 6] = [
    (
        "k8s.pod.name",
        &["OTEL_RESOURCE_ATTRIBUTES_POD_NAME", "K8S_POD_NAME", "POD_NAME", "MY_POD_NAME"],
    ),
    ("k8s.pod.uid", &["OTEL_RESOURCE_ATTRIBUTES_POD_UID", "K8S_POD_UID", "POD_UID", "MY_POD_UID"]),
    (
        "k8s.namespace.name",
        &[
            "K8S_NAMESPACE_NAME",
            "K8S_NAMESPACE",
            "K8S_POD_NAMESPACE",
            "POD_NAMESPACE",
            "MY_POD_NAMESPACE",
        ],
    ),
    (
        "k8s.node.name",
        &[
            "OTEL_RESOURCE_ATTRIBUTES_NODE_NAME",
            "K8S_NODE_NAME",
            "KUBE_NODE_NAME",
            "NODE_NAME",
            "MY_NODE_NAME",
        ],
    ),
    ("k8s.container.name", &["K8S_CONTAINER_NAME", "CONTAINER_NAME"]),
    ("k8s.cluster.name", &["K8S_CLUSTER_NAME"]),
];

/// The attributes by which a pod is known.
const POD: [&str; 2] = ["k8s.pod.name", "k8s.pod.uid"];

/// The namespace of the pod, unless its service account is not mounted.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The hosts of a pod that does not share the network, and so the name, of its node begin with this.
const HOSTS: &str = "# Kubernetes-managed hosts file.\n";

/// Longer names of pods are cut to host names.
const MAX_HOST_NAME: usize = 63;

/// Of what Kubernetes appends to the names of pods.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// Control groups of pods are below one of this name.
const GROUPS: &str = "kubepods";

/// Whether this process is in a pod: by what each container of a pod has unless its specification turns it off.
pub(super) fn is_kubernetes(system: &System<'_>, mounts: &Mounts) -> bool {
    system.is_set("KUBERNETES_SERVICE_HOST")
        || mounts.pod_path(TERMINATION_LOG).is_some()
        || system.text(NAMESPACE).is_some()
        || system.text(container::CGROUP).is_some_and(|groups| groups.contains(GROUPS))
}

/// Its mount names pod and container: `…/pods/UID/containers/NAME/ID`.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// Detects the pod, if it is the workload's: it is in this container, or variables name the pod.
pub(super) fn detect(
    system: &System<'_>,
    mounts: &Mounts,
    container: Container,
) -> BTreeMap<&'static str, String> {
    let named = VARIABLES.into_iter().filter_map(|(key, variables)| {
        let value = variables.iter().find_map(|name| system.variable(name))?;
        let is_valid = if key == "k8s.pod.uid" { is_uid(&value) } else { is_name(&value) };
        is_valid.then_some((key, value))
    });
    let mut detected: BTreeMap<_, _> = named.collect();
    let is_workload =
        container == Container::Workload || POD.iter().any(|key| detected.contains_key(key));
    if is_workload {
        let mut found = |key, value: Option<String>| {
            if let Some(value) = value {
                detected.entry(key).or_insert(value);
            }
        };
        let path = mounts.pod_path(TERMINATION_LOG).unwrap_or_default();
        let uid = path.first().filter(|uid| is_uid(uid));
        found("k8s.pod.uid", uid.map(|&uid| uid.to_owned()));
        let namespace = system.text(NAMESPACE).filter(|name| is_name(name));
        found("k8s.namespace.name", namespace);
        if container == Container::Workload {
            let container = match path.as_slice() {
                [_, "containers", name, ..] if is_name(name) => Some((*name).to_owned()),
                _ => None,
            };
            found("k8s.container.name", container);
            found("k8s.pod.name", pod_name(system));
        }
    }
    detected
}

/// The host name, if it certainly is the pod's name: one that Kubernetes has generated, in a pod with a
/// host name of its own. Others may be set in the pod's specification.
fn pod_name(system: &System<'_>) -> Option<String> {
    let name = system.host_name.as_str();
    let hosts = (system.file)("/etc/hosts")?;
    let (_, suffix) = name.rsplit_once('-')?;
    let is_generated = suffix.len() == 5
        && suffix.chars().all(|it| GENERATED.contains(it))
        // Indexes of jobs are digits.
        && suffix.chars().any(|it| it.is_ascii_alphabetic());
    let is_own = hosts.starts_with(HOSTS) && name.len() < MAX_HOST_NAME && is_name(name);
    (is_generated && is_own).then(|| name.to_owned())
}

/// Whether it is a name of Kubernetes: a DNS subdomain.
fn is_name(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    text.len() <= 253
        && text.bytes().all(|byte| is_part(byte) || byte == b'-' || byte == b'.')
        && ends.into_iter().all(|end| end.is_some_and(is_part))
}

/// Whether it is a UUID, or the hash that identifies a pod of a file on the node.
fn is_uid(text: &str) -> bool {
    let digits = text.bytes().filter(|byte| *byte != b'-');
    let is_hash =
        digits.clone().count() == 32 && digits.into_iter().all(|it| it.is_ascii_hexdigit());
    is_hash && matches!(text.len(), 32 | 36)
}
