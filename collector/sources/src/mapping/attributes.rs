//! Attributes of a GPU from the labels of its points: its MIG instances, its host and its pods.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use phasemeter_meter::reading::{GpuIdentity, MIG_PROFILES};

use super::identity::MigInstance;
use super::point::PodLabels;

/// Maximum number of MIG instances per GPU: GPUs have at most seven at a time.
const MAX_INSTANCES: usize = 16;

/// The beginning of the names of attributes of a pod.
const POD: &str = "k8s.";

/// Values by attribute; `None` if there were different ones, so that the identity has none.
type Values = BTreeMap<String, Option<String>>;

/// The attributes of one GPU so far.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    /// The profiles of its MIG instances, by their IDs.
    profiles: BTreeMap<String, String>,
    /// The names of its pod.
    pod: Values,
    /// Attributes of its host and of its pods.
    details: Values,
    /// The pod of the last utilization.
    last_pod: Option<PodLabels>,
}

impl Attributes {
    /// Adds the profile of a MIG instance.
    pub(super) fn add_instance(&mut self, identity: &mut GpuIdentity, instance: &MigInstance) {
        let Some(profile) = &instance.profile else { return };
        if self.profiles.len() < MAX_INSTANCES && !self.profiles.contains_key(&instance.id) {
            self.profiles.insert(instance.id.clone(), profile.clone());
            let all: Vec<_> = self.profiles.values().map(String::as_str).collect();
            identity.attributes.insert(MIG_PROFILES.to_owned(), all.join(" "));
        }
    }

    /// Adds the names of a pod. Those of several pods that differ are removed.
    pub(super) fn add_pod(&mut self, identity: &mut GpuIdentity, pod: PodLabels) {
        let PodLabels { uid, namespace, name } = pod;
        for (key, value) in
            [("k8s.namespace.name", namespace), ("k8s.pod.name", name), ("k8s.pod.uid", uid)]
        {
            let Some(value) = value else { continue };
            add(&mut self.pod, identity, key.to_owned(), value, true);
        }
    }

    /// Removes the names of a pod that does not hold the GPU.
    pub(super) fn remove_pod(&mut self, identity: &mut GpuIdentity, pod: &PodLabels) {
        let name = |values: &Values| values.get("k8s.pod.name").cloned().flatten();
        if name(&self.pod).is_some_and(|name| Some(name) == pod.name) {
            for key in std::mem::take(&mut self.pod).into_keys() {
                identity.attributes.remove(&key);
            }
        }
    }

    /// Adds attributes of the host and of the pod, beside a utilization. What its pods do not have in common is
    /// removed: labels are those of all of its time.
    pub(super) fn add_details(
        &mut self,
        identity: &mut GpuIdentity,
        details: &[(String, String)],
        pod: Option<&PodLabels>,
    ) {
        let is_other_pod = match (&self.last_pod, pod) {
            (Some(last), Some(pod)) => last != pod,
            _ => false,
        };
        if self.last_pod.is_none() || is_other_pod {
            self.last_pod = pod.cloned();
        }
        if is_other_pod {
            for (key, known) in self.details.iter_mut().filter(|(key, _)| key.starts_with(POD)) {
                if !details.iter().any(|(name, _)| name == key) {
                    identity.attributes.remove(key);
                    *known = None;
                }
            }
        }
        for (key, value) in details {
            let is_common = !is_other_pod || !key.starts_with(POD);
            add(&mut self.details, identity, key.clone(), value.clone(), is_common);
        }
    }
}

/// Adds the value of an attribute, which is removed if it had another one. A new one that is not common to all of the
/// GPU's time is never set.
fn add(
    known: &mut Values,
    identity: &mut GpuIdentity,
    key: String,
    value: String,
    is_common: bool,
) {
    match known.entry(key) {
        Entry::Vacant(new) => {
            if is_common {
                identity.attributes.insert(new.key().clone(), value.clone());
            }
            new.insert(Some(value).filter(|_| is_common));
        }
        Entry::Occupied(known) if known.get().as_ref().is_some_and(|it| *it != value) => {
            identity.attributes.remove(known.key());
            *known.into_mut() = None;
        }
        Entry::Occupied(_) => {}
    }
}
