//! Pods of exporters, with which Prometheus labels what it scrapes from them: they hold no GPU.

use std::collections::BTreeSet;

use phasemeter_meter::holder::{Container, Holder};

use super::point::PodLabels;

/// Maximum number of pods of exporters: more than there are nodes. Labels come from anywhere.
const MAX: usize = 16_384;

/// What Kubernetes generates for the ends of names, besides numbers.
const GENERATED: &str = "bcdfghjklmnpqrstvwxz2456789";

/// The names of pods of exporters, with their namespaces.
#[derive(Debug, Default)]
pub(super) struct OwnPods(BTreeSet<(String, String)>);

impl OwnPods {
    /// Adds the pod of an exporter. Returns whether it is new.
    pub(super) fn add(&mut self, pod: &PodLabels) -> bool {
        self.0.len() < MAX && name(pod).is_some_and(|name| self.0.insert(name))
    }

    /// Whether the labels are those of an exporter's pod.
    pub(super) fn contains(&self, pod: &PodLabels) -> bool {
        !self.0.is_empty() && name(pod).is_some_and(|name| self.0.contains(&name))
    }

    /// Whether a holder is an exporter's pod.
    pub(super) fn is(&self, holder: &Holder) -> bool {
        match holder {
            Holder::Container(Container { namespace, pod, .. }) if !self.0.is_empty() => {
                self.0.contains(&(namespace.clone(), pod.clone()))
            }
            _ => false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn name(pod: &PodLabels) -> Option<(String, String)> {
    Some((pod.namespace.clone().unwrap_or_default(), pod.name.clone()?))
}

/// Whether a pod is of a workload with this name, which another name may precede: Kubernetes adds up to two parts.
pub(super) fn is_of_workload(pod: &str, workload: &str) -> bool {
    pod.match_indices(workload).any(|(at, found)| {
        let (before, rest) = pod.split_at(at);
        let rest = rest.strip_prefix(found).unwrap_or_default();
        (before.is_empty() || before.ends_with('-')) && is_generated(rest)
    })
}

fn is_generated(end: &str) -> bool {
    let Some(parts) = end.strip_prefix('-') else { return end.is_empty() };
    let is_part = |part: &str| {
        let is_number = part.chars().all(|c| c.is_ascii_digit());
        !part.is_empty() && (is_number || part.chars().all(|c| GENERATED.contains(c)))
    };
    parts.split('-').count() <= 2 && parts.split('-').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pod_of_an_exporter_has_its_name_and_what_kubernetes_adds() {
        let own = ["exporter", "exporter-x7k2p", "gpu-exporter-6d9f8b7c5d-x7k2p", "exporter-0"];
        for pod in own {
            assert!(is_of_workload(pod, "exporter"), "{pod}");
        }
        for pod in
            ["exporter-bench", "myexporter-x7k2p", "exporter-x7-x7-x7", "exporter-", "chat-0"]
        {
            assert!(!is_of_workload(pod, "exporter"), "{pod}");
        }
    }
}
