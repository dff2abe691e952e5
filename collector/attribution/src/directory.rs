//! Which GPUs a span is charged for, by the attributes of its resource.
//!
//! Must not depend on the form of a resource.

use std::sync::Arc;

use crate::span::GpuSet;

/// What is known of a GPU, and of those that use it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuOwners {
    /// Its UUID, else its `hw.id`, after `HOST:` if the host is known.
    pub hw_id: String,
    /// Its `host.name`.
    pub host: Option<String>,
    /// The processes that use it.
    pub pids: Vec<u32>,
    /// The pods that it has been assigned to.
    pub pods: Vec<Pod>,
}

/// A pod of Kubernetes, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `k8s.pod.uid`.
    pub uid: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: Option<String>,
    /// `k8s.pod.name`.
    pub name: Option<String>,
}

impl Pod {
    /// Whether both are the same pod: by their UIDs, if both are known, else by namespace and name.
    fn is(&self, other: &Self) -> bool {
        match (&self.uid, &other.uid) {
            (Some(uid), Some(other)) => uid == other,
            _ => {
                let full_name = |pod: &Self| pod.namespace.clone().zip(pod.name.clone());
                full_name(self).is_some_and(|name| full_name(other) == Some(name))
            }
        }
    }
}

/// Attributes of a resource that identify GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceIdentity<'a> {
    /// `hw.id`.
    pub hw_id: Option<&'a str>,
    /// `process.pid`.
    pub pid: Option<u32>,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    /// `host.name`.
    pub host: Option<&'a str>,
}

/// The GPUs of a resource, by the first attribute that identifies any: `hw.id`, `process.pid`, its pod,
/// `host.name`. All, if none does. A process is one of its host.
#[must_use]
pub fn gpus_of(gpus: &[GpuOwners], resource: &ResourceIdentity) -> GpuSet {
    let same_host = |gpu: &GpuOwners| match (&gpu.host, resource.host) {
        (Some(host), Some(other)) => host == other,
        _ => true,
    };
    let is_on_host = |gpu: &GpuOwners, id: &str| {
        let of_host = resource.host.and_then(|host| gpu.hw_id.strip_prefix(host));
        of_host.and_then(|rest| rest.strip_prefix(':')) == Some(id)
    };
    let rules: [&dyn Fn(&GpuOwners) -> bool; 4] = [
        &|gpu| resource.hw_id.is_some_and(|id| id == gpu.hw_id || is_on_host(gpu, id)),
        &|gpu| resource.pid.is_some_and(|pid| gpu.pids.contains(&pid)) && same_host(gpu),
        &|gpu| resource.pod.is_some_and(|pod| gpu.pods.iter().any(|of_gpu| of_gpu.is(pod))),
        &|gpu| resource.host.is_some() && gpu.host.as_deref() == resource.host,
    ];
    for rule in rules {
        let found: Arc<[usize]> = (0..gpus.len()).filter(|&gpu| rule(&gpus[gpu])).collect();
        if !found.is_empty() {
            return GpuSet::Listed(found);
        }
    }
    GpuSet::All
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str) -> Pod {
        Pod { uid: Some(uid.to_owned()), ..Pod::default() }
    }

    fn gpu(id: &str, host: &str, pids: &[u32], pod_uid: &str) -> GpuOwners {
        GpuOwners {
            hw_id: id.to_owned(),
            host: Some(host.to_owned()),
            pids: pids.to_vec(),
            pods: vec![pod(pod_uid)],
        }
    }

    #[test]
    fn first_attribute_that_identifies_gpus_counts() {
        let gpus =
            [gpu("A", "h1", &[7], "p"), gpu("B", "h1", &[7, 8], "q"), gpu("C", "h2", &[7], "q")];
        let listed = |gpus: &[usize]| GpuSet::Listed(gpus.into());
        let none = ResourceIdentity::default();
        let (q, x) = (pod("q"), pod("x"));
        for (resource, expected) in [
            (none, GpuSet::All),
            (ResourceIdentity { hw_id: Some("B"), pid: Some(7), ..none }, listed(&[1])),
            (ResourceIdentity { pid: Some(7), ..none }, listed(&[0, 1, 2])),
            (ResourceIdentity { pid: Some(7), host: Some("h1"), ..none }, listed(&[0, 1])),
            (ResourceIdentity { pid: Some(9), pod: Some(&q), ..none }, listed(&[1, 2])),
            (ResourceIdentity { pod: Some(&x), host: Some("h2"), ..none }, listed(&[2])),
            (ResourceIdentity { host: Some("h3"), ..none }, GpuSet::All),
        ] {
            assert_eq!(gpus_of(&gpus, &resource), expected, "{resource:?}");
        }
    }

    #[test]
    fn pod_is_identified_by_uid_or_else_by_namespace_and_name() {
        let of = |[uid, namespace, name]: [&str; 3]| {
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Pod { uid: known(uid), namespace: known(namespace), name: known(name) }
        };
        for (left, right, expected) in [
            (["u", "ml", "train-0"], ["u", "", ""], true),
            (["u", "ml", "train-0"], ["v", "ml", "train-0"], false),
            (["u", "ml", "train-0"], ["", "ml", "train-0"], true),
            (["", "ml", "train-0"], ["", "web", "train-0"], false),
            (["", "", "train-0"], ["", "", "train-0"], false),
            (["", "", ""], ["", "", ""], false),
        ] {
            assert_eq!(of(left).is(&of(right)), expected, "{left:?} {right:?}");
            assert_eq!(of(right).is(&of(left)), expected, "{right:?} {left:?}");
        }
    }
}
