//! The pods of the node by name: a bounded table, which the follower of the API server keeps up to date.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use phasemeter_meter::holder::Container;
use phasemeter_meter::holder_details::HolderDetails;

use super::fraction::Grouped;
use super::object::Object;
use crate::options::PodName;

/// Pods that are kept. A node has at most some hundred.
const MAX_PODS: usize = 2_048;

/// Pods that are kept after their end: it may be some seconds until the pod of a grant is known.
const MAX_GONE: usize = 256;

/// A pod. Others may have had its name; the UID differs.
type Key = (PodName, String);

/// A pod that shares a GPU which a scheduler divides, or reserves one.
#[derive(Clone, Debug)]
pub(crate) struct GroupedPod {
    pub(crate) name: PodName,
    pub(crate) uid: String,
    pub(crate) grouped: Arc<Grouped>,
}

/// The pods of the node.
#[derive(Debug, Default)]
pub(super) struct Pods {
    pods: BTreeMap<Key, Arc<HolderDetails>>,
    /// Those that share a GPU which a scheduler divides, or reserve one.
    grouped: BTreeMap<Key, Arc<Grouped>>,
    /// Those that are gone, in the order of their ends.
    gone: VecDeque<Key>,
    /// Pods that are left out of the last list or were since.
    omitted: usize,
}

impl Pods {
    /// Takes a list of all pods that there are.
    pub(super) fn replace(&mut self, objects: &[Object], labels: &[String]) {
        let before: Vec<Key> = self.pods.keys().cloned().collect();
        self.omitted = 0;
        let listed: Vec<Key> = objects.iter().filter_map(|it| self.insert(it, labels)).collect();
        let listed: std::collections::BTreeSet<Key> = listed.into_iter().collect();
        before.into_iter().filter(|key| !listed.contains(key)).for_each(|key| self.end(key));
    }

    /// Takes a pod that is new or has changed. Returns it, if it is kept.
    pub(super) fn insert(&mut self, object: &Object, labels: &[String]) -> Option<Key> {
        let key = (object.name()?, object.uid()?.clone());
        self.gone.retain(|gone| *gone != key);
        if self.pods.len() >= MAX_PODS
            && !self.pods.contains_key(&key)
            && let Some(gone) = self.gone.pop_front()
        {
            self.pods.remove(&gone);
        }
        if self.pods.len() >= MAX_PODS && !self.pods.contains_key(&key) {
            self.omitted += 1;
            return None;
        }
        match object.grouped() {
            Some(grouped) => _ = self.grouped.insert(key.clone(), Arc::new(grouped)),
            None => _ = self.grouped.remove(&key),
        }
        let details = object.details(labels);
        // What has not changed stays the same value for those that compare it.
        if self.pods.get(&key).is_none_or(|known| **known != details) {
            self.pods.insert(key.clone(), Arc::new(details));
        }
        Some(key)
    }

    /// A pod is gone.
    pub(super) fn remove(&mut self, object: &Object) {
        if let Some((name, uid)) = object.name().zip(object.uid()) {
            self.end((name, uid.clone()));
        }
    }

    fn end(&mut self, key: Key) {
        self.grouped.remove(&key);
        if !self.pods.contains_key(&key) || self.gone.contains(&key) {
            return;
        }
        self.gone.push_back(key);
        if self.gone.len() > MAX_GONE
            && let Some(first) = self.gone.pop_front()
        {
            self.pods.remove(&first);
        }
    }

    /// What is known of the pod of a container. Without its UID, that of the only pod of its name.
    pub(super) fn details(&self, container: &Container) -> Option<&Arc<HolderDetails>> {
        let Container { namespace, pod, uid, .. } = container;
        let name = PodName { namespace: namespace.clone(), name: pod.clone() };
        if let Some(uid) = uid {
            return self.pods.get(&(name, uid.clone()));
        }
        let first = (name.clone(), String::new());
        let mut own = self.pods.range(first..).take_while(|((other, _), _)| *other == name);
        match (own.next(), own.next()) {
            (Some((_, details)), None) => Some(details),
            _ => None,
        }
    }

    /// The pods that share a GPU which a scheduler divides, or reserve one.
    pub(super) fn grouped(&self) -> impl Iterator<Item = GroupedPod> {
        self.grouped.iter().map(|((name, uid), grouped)| GroupedPod {
            name: name.clone(),
            uid: uid.clone(),
            grouped: Arc::clone(grouped),
        })
    }

    /// Pods that are left out, since there are too many.
    pub(super) const fn omitted(&self) -> usize {
        self.omitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, uid: &str) -> Object {
        let json = format!(
            r#"{{"metadata": {{"namespace": "ml", "name": "{name}", "uid": "{uid}",
                "labels": {{"of": "{uid}"}}}}}}"#
        );
        serde_json::from_str(&json).unwrap()
    }

    fn label(pods: &Pods, name: &str, uid: Option<&str>) -> Option<String> {
        let container = Container {
            namespace: "ml".to_owned(),
            pod: name.to_owned(),
            uid: uid.map(str::to_owned),
            container: "main".to_owned(),
        };
        pods.details(&container)?.labels.get("of").cloned()
    }

    #[test]
    fn pod_is_found_by_uid_else_by_a_name_that_one_has() {
        let keys = ["of".to_owned()];
        let mut pods = Pods::default();
        pods.replace(&[pod("a", "1"), pod("a-b", "2")], &keys);
        assert_eq!(label(&pods, "a", None).as_deref(), Some("1"));
        assert_eq!(label(&pods, "a", Some("2")), None);
        // Recreated under its name: the one before is known for a while.
        pods.replace(&[pod("a", "3")], &keys);
        assert_eq!(label(&pods, "a", None), None);
        assert_eq!(label(&pods, "a", Some("1")).as_deref(), Some("1"));
        assert_eq!(label(&pods, "a", Some("3")).as_deref(), Some("3"));
    }

    /// Guarantee: however many pods come and go, and however many there are, the table is bounded, and those that are left
    /// out are counted.
    #[test]
    fn table_is_bounded() {
        let keys = ["of".to_owned()];
        let mut pods = Pods::default();
        for number in 0..3 * MAX_PODS {
            let object = pod(&format!("p-{number}"), &number.to_string());
            pods.insert(&object, &keys);
            pods.remove(&object);
        }
        assert_eq!((pods.pods.len(), pods.omitted()), (MAX_GONE, 0));
        let all: Vec<Object> =
            (0..MAX_PODS + 5).map(|it| pod(&format!("q-{it}"), &format!("u{it}"))).collect();
        pods.replace(&all, &keys);
        assert_eq!((pods.pods.len(), pods.omitted()), (MAX_PODS, 5));
    }
}
