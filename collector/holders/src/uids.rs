//! The UIDs of pods with GPUs, from poll to poll: the kubelet lists names, and a pod may have the name of an earlier one.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::units::{Nanos, Timestamp};

use crate::options::PodName;

/// How long the UID of a new pod is awaited before its grant is reported without. A pod has its directory of logs
/// within tens of milliseconds, unless it waits for volumes. Shorter than the allowed lateness of live meters, so that
/// a grant still counts from when the pod was first listed.
pub(crate) const AWAITED_FOR: Nanos = Nanos::from_secs(5);

/// The pods that the kubelet lists.
#[derive(Debug, Default)]
pub(crate) struct Uids(BTreeMap<PodName, Pod>);

#[derive(Debug)]
struct Pod {
    listed_since: Timestamp,
    uid: Option<String>,
}

impl Uids {
    /// Takes the pods that are listed, and what is known of their UIDs now. A UID counts as long as its pod is listed, or
    /// until another one is known.
    pub(crate) fn update<'p>(
        &mut self,
        now: Timestamp,
        listed: &BTreeSet<&'p PodName>,
        uid: impl Fn(&'p PodName) -> Option<String>,
    ) {
        self.0.retain(|pod, _| listed.contains(pod));
        for &pod in listed {
            let known = self.0.entry(pod.clone());
            let known = known.or_insert(Pod { listed_since: now, uid: None });
            if let Some(uid) = uid(pod) {
                known.uid = Some(uid);
            }
        }
    }

    /// The UID of a pod, if known.
    pub(crate) fn of(&self, pod: &PodName) -> Option<&String> {
        self.0.get(pod)?.uid.as_ref()
    }

    /// Whether a pod is so new that what is missing of it may soon be known.
    pub(crate) fn is_new(&self, now: Timestamp, pod: &PodName) -> bool {
        self.0.get(pod).is_some_and(|pod| now.since(pod.listed_since) < AWAITED_FOR)
    }
}
