//! Properties of decisions, for random evidence.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Holder, Share};
use phasemeter_meter::units::Timestamp;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::candidate::{of_mapping, of_plugins, of_prolog};
use crate::cgroup::Groups;
use crate::decision::{Decision, Evidence};
use crate::device_id::DeviceName;
use crate::gpus::NodeGpu;
use crate::jobs::{Job, SlurmGpu};
use crate::kubelet::Listing;
use crate::kubelet::messages::{
    ContainerDevices, ContainerResources, ListPodResourcesResponse, PodResources,
};
use crate::options::PodName;
use crate::uids::Uids;

const GPUS: u32 = 3;
const REPLICAS: u32 = 4;

/// A container has a GPU or a replica of it.
#[derive(Clone, Copy, Debug)]
struct Has {
    pod: u8,
    container: u8,
    gpu: u32,
    replica: Option<u32>,
}

/// A process, by its GPU, pod and job.
#[derive(Clone, Debug)]
struct Runs {
    gpu: u32,
    pod: Option<u8>,
    job: Option<u8>,
}

#[derive(Clone, Debug)]
struct Node {
    has: Vec<Has>,
    runs: Vec<Runs>,
    /// Jobs of prolog files and of job mappings, by GPU.
    prolog: Vec<(u8, u32)>,
    mapping: Vec<(u8, u32)>,
    has_kubelet: bool,
    /// Whether the names of pods are known by their UIDs.
    has_names: bool,
}

fn nodes() -> impl Strategy<Value = Node> {
    let has = (0..4_u8, 0..2_u8, 0..GPUS, option::of(0..REPLICAS));
    let has = has.prop_map(|(pod, container, gpu, replica)| Has { pod, container, gpu, replica });
    let runs = (0..GPUS, option::of(0..5_u8), option::of(0..4_u8));
    let runs = runs.prop_map(|(gpu, pod, job)| Runs { gpu, pod, job });
    let jobs = || vec((0..4_u8, 0..GPUS), 0..3);
    (vec(has, 0..8), vec(runs, 0..8), jobs(), jobs(), any::<bool>(), any::<bool>()).prop_map(
        |(has, runs, prolog, mapping, has_kubelet, has_names)| {
            let has = if has_kubelet { has } else { Vec::new() };
            Node { has, runs, prolog, mapping, has_kubelet, has_names }
        },
    )
}

fn uid(pod: u8) -> String {
    format!("0000000{pod}-0000-4000-8000-000000000000")
}

fn pod_name(pod: u8) -> PodName {
    PodName { namespace: "ml".to_owned(), name: format!("pod-{pod}") }
}

impl Node {
    fn listing(&self) -> Listing {
        let pod = |has: &Has| {
            let id = match has.replica {
                Some(replica) => format!("GPU-{}::{replica}", has.gpu),
                None => format!("GPU-{}", has.gpu),
            };
            let devices =
                ContainerDevices { resource_name: "gpu".to_owned(), device_ids: vec![id] };
            let container = ContainerResources {
                name: format!("container-{}", has.container),
                devices: vec![devices],
                dynamic_resources: Vec::new(),
            };
            let PodName { namespace, name } = pod_name(has.pod);
            PodResources { name, namespace, containers: vec![container] }
        };
        Listing::of(ListPodResourcesResponse { pod_resources: self.has.iter().map(pod).collect() })
    }

    /// The decision about each GPU.
    fn decide(&self) -> Vec<Decision> {
        let gpu = |index| NodeGpu { uuid: format!("GPU-{index}"), index, ..NodeGpu::default() };
        let gpus: Vec<NodeGpu> = (0..GPUS).map(gpu).collect();
        let replica = |index| (DeviceName::Uuid(format!("GPU-{index}")), REPLICAS);
        let replicas: BTreeMap<_, _> = (0..GPUS).map(replica).collect();
        let known: BTreeMap<PodName, u8> = (0..5).map(|pod| (pod_name(pod), pod)).collect();
        let mut uids = Uids::default();
        uids.update(Timestamp::EPOCH, &known.keys().collect(), |pod| {
            self.has_names.then(|| uid(known[pod]))
        });
        let mut problems = BTreeSet::new();
        let mut candidates =
            of_plugins(&self.listing(), None, &replicas, &gpus, &uids, &mut problems);
        let job = |&(job, gpu): &(u8, u32)| {
            let job = Job { id: job.to_string(), ..Job::default() };
            (job, vec![SlurmGpu::Minor(gpu)])
        };
        let jobs: Vec<_> = self.prolog.iter().map(job).collect();
        candidates.extend(of_prolog(&jobs, &gpus, &mut problems));
        let mut mapping: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for (job, gpu) in &self.mapping {
            mapping.entry(*gpu).or_default().push(job.to_string());
        }
        candidates.extend(of_mapping(&mapping, &gpus));
        let named = |it: &Runs| {
            let job = it.job.map(|job| job.to_string());
            Groups { pod: it.pod.map(uid), job, launched: None }
        };
        let groups = (0..).zip(self.runs.iter().map(named));
        let groups: BTreeMap<u32, Groups> =
            groups.filter(|(_, groups)| *groups != Groups::default()).collect();
        let names = known.into_iter().map(|(name, pod)| (uid(pod), name));
        let names = names.filter(|_| self.has_names).collect();
        let evidence =
            Evidence { candidates, has_kubelet: self.has_kubelet, groups: &groups, names: &names };
        let decide = |index: u32| {
            let running = (0..).zip(&self.runs).filter(|(_, it)| it.gpu == index);
            let running = running.map(|(id, _)| id).collect();
            evidence.decide(&format!("GPU-{index}"), &running, Vec::new())
        };
        (0..GPUS).map(decide).collect()
    }
}

/// What the kubelet lists for a GPU.
fn listed(node: &Node, gpu: u32) -> BTreeSet<(String, String)> {
    let own = node.has.iter().filter(|has| has.gpu == gpu);
    own.map(|has| (pod_name(has.pod).name, format!("container-{}", has.container))).collect()
}

proptest! {
    #[test]
    fn holders_follow_evidence(node in nodes()) {
        for (gpu, decision) in (0..GPUS).zip(node.decide()) {
            let holders: Vec<&Holder> =
                decision.held.iter().map(|held| &held.grant.holder).collect();
            // Each holder once, in order; together they have at most the whole GPU.
            prop_assert!(holders.is_sorted_by(|a, b| a < b), "{holders:?}");
            let parts = decision.held.iter().filter_map(|held| held.grant.share);
            prop_assert!(Share::sum(parts).is_some());
            // The kubelet decides, and a pod that it does not name holds nothing.
            let pods: BTreeSet<_> = holders
                .iter()
                .filter_map(|holder| match holder {
                    Holder::Container(it) => Some((it.pod.clone(), it.container.clone())),
                    _ => None,
                })
                .collect();
            let listed = listed(&node, gpu);
            if !listed.is_empty() {
                prop_assert_eq!(holders.len(), listed.len());
            }
            if node.has_kubelet {
                prop_assert_eq!(pods, listed);
            }
            // A process belongs to a holder that its control groups name, never to a neighbor.
            for (id, holder) in &decision.processes {
                let runs = &node.runs[usize::try_from(*id).unwrap()];
                prop_assert!(holders.contains(&holder));
                prop_assert!(match holder {
                    Holder::Container(it) => it.uid.is_some() && it.uid == runs.pod.map(uid),
                    Holder::Job(job) => Some(job) == runs.job.map(|job| job.to_string()).as_ref(),
                    Holder::Named(name) => Some(name) == runs.pod.map(|pod| format!("pod {}", uid(pod))).as_ref(),
                    _ => false,
                }, "{holder:?} {runs:?}");
            }
        }
    }

    #[test]
    fn order_and_duplicates_of_evidence_change_nothing(
        (node, other) in nodes().prop_flat_map(|node| {
            let shuffled = (
                Just(node.has.repeat(2)).prop_shuffle(),
                Just(node.prolog.repeat(2)).prop_shuffle(),
            );
            let own = node.clone();
            let other = shuffled.prop_map(move |(has, prolog)| Node { has, prolog, ..own.clone() });
            (Just(node), other)
        }),
    ) {
        for (a, b) in node.decide().into_iter().zip(other.decide()) {
            prop_assert_eq!(a.held, b.held);
            prop_assert_eq!(a.processes, b.processes);
            prop_assert_eq!(a.disagreements, b.disagreements);
        }
    }
}
