//! Which GPUs do the work of which groups: those that the resources and labels of servers name, from one point of a
//! counter to the next.

use std::collections::HashMap;

use phasemeter_attribution::directory::{Directory, Pod};
use phasemeter_meter::reading::GpuIdentity;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::work_group::WorkGroup;
use phasemeter_receiver::CounterView;

use super::intake::SeenHolder;
use super::span_filter::OwnedIdentity;

/// Maximum number of counters whose last points are known, and of stretches whose GPUs are not looked up yet.
const MAX_COUNTERS: usize = 16_384;
const MAX_STRETCHES: usize = 65_536;

/// Labels of a point and attributes of its resource that identify GPUs; the first that is there counts.
const HW_ID: [&str; 2] = ["gpu_uuid", "hw.id"];
const POD_UID: [&str; 2] = ["k8s.pod.uid", "pod_uid"];
const NAMESPACE: [&str; 3] = ["k8s.namespace.name", "namespace", "exported_namespace"];
const POD: [&str; 3] = ["k8s.pod.name", "pod", "exported_pod"];
const HOSTS: [&str; 6] =
    ["host.name", "k8s.node.name", "Hostname", "hostname", "node", "server.address"];

/// A GPU does the work of a group in this time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedTime {
    /// The index of the GPU in the buffer.
    pub gpu: usize,
    /// The group.
    pub group: WorkGroup,
    /// The time.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// The servers that do work.
#[derive(Debug, Default)]
pub struct WorkServers {
    gpus: Directory,
    /// The last point of each counter.
    last: HashMap<[u8; 16], Timestamp>,
    pending: Vec<Stretch>,
}

/// Time between two points of a counter.
#[derive(Debug)]
struct Stretch {
    server: OwnedIdentity,
    group: WorkGroup,
    from: Timestamp,
    until: Timestamp,
}

impl WorkServers {
    /// Adds the GPUs that are new among these.
    pub fn add_gpus(&mut self, gpus: &[GpuIdentity]) {
        for gpu in gpus.iter().skip(self.gpus.gpus()) {
            self.gpus.add_gpu(gpu.key(), gpu.host());
        }
    }

    /// A point of a GPU at this instant names its holder, or none.
    pub fn see_holder(&mut self, SeenHolder { gpu, at, by, holder }: &SeenHolder) {
        self.gpus.see_holder(*gpu, (*at, *by), holder.as_ref());
    }

    /// A server has counted work of this group up to a point.
    pub(super) fn see(&mut self, view: &CounterView<'_>, group: &WorkGroup) {
        let (stream, until) = (view.stream(), view.at);
        if !self.last.contains_key(&stream) && self.last.len() >= MAX_COUNTERS {
            return;
        }
        let last = self.last.entry(stream).or_insert(until);
        let from = std::mem::replace(last, (*last).max(until));
        if from >= until || self.pending.len() >= MAX_STRETCHES {
            return;
        }
        let label = |names: &[&str]| names.iter().find_map(|name| view.label(name));
        let text = |names: &[&str]| label(names).map(str::to_owned);
        let pod = Pod { uid: text(&POD_UID), namespace: text(&NAMESPACE), name: text(&POD) };
        let server = OwnedIdentity::named(text(&HW_ID), pod, text(&HOSTS));
        self.pending.push(Stretch { server, group: group.clone(), from, until });
    }

    /// The GPUs that did work before this instant, and in which time. They are looked up now, when the readings of
    /// that time have arrived.
    pub fn take(&mut self, before: Timestamp) -> Vec<ServedTime> {
        let mut served = Vec::new();
        for stretch in self.pending.extract_if(.., |it| it.from < before) {
            let Stretch { server, group, from, until } = stretch;
            let named = self.gpus.named(&server.as_ref());
            let found = self.gpus.gpus_of(&named, &(from..until));
            let time = |gpu| ServedTime { gpu, group: group.clone(), from, until };
            served.extend(found.among(self.gpus.gpus()).map(time));
        }
        served
    }
}
