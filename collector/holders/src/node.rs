//! Polls all evidence of a node.

mod evidence;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use phasemeter_meter::holder::{Container, Holder};
use phasemeter_meter::units::Timestamp;
use thiserror::Error;
use tokio::runtime::{self, Runtime};

use crate::api_source::ApiSource;
use crate::assignments::{Assignment, Assignments};
use crate::claims::Catalog;
use crate::decision::{Decision, Evidence};
use crate::gpus::NodeGpu;
use crate::kubelet::KubeletSource;
use crate::options::{Options, PodName};
use crate::pods::PodFollower;
use crate::settled::Settled;
use crate::uids::Uids;
use crate::unlisted::Unlisted;

/// The holders of the GPUs of a node, from poll to poll.
#[derive(Debug)]
pub struct NodeHolders {
    options: Options,
    runtime: Runtime,
    kubelet: Option<KubeletSource>,
    api: Option<ApiSource>,
    catalog: Catalog,
    pods: Option<PodFollower>,
    uids: Uids,
    /// Since when no process on a GPU could be read.
    unreadable_since: Option<Timestamp>,
    unlisted: Unlisted,
    settled: Settled,
}

/// The changes that a poll finds.
#[derive(Clone, Copy)]
struct Changes {
    now: Timestamp,
    /// From when on they count.
    from: Timestamp,
    /// Whether something is missing to know them.
    are_awaited: bool,
}

/// Polling cannot be set up.
#[derive(Debug, Error)]
#[error("{0}; raise the limits on open files and threads")]
pub struct StartError(#[from] io::Error);

impl NodeHolders {
    /// Prepares to poll. Only pods are followed from now on, if that is asked for; nothing else is connected to yet.
    ///
    /// # Errors
    /// Returns an error if the operating system refuses a file descriptor or a thread.
    pub fn new(options: Options) -> Result<Self, StartError> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let api = options.api.clone().map(|server| ApiSource::new(server, options.node.clone()));
        Ok(Self {
            runtime,
            kubelet: options.kubelet.clone().map(KubeletSource::new),
            api,
            catalog: Catalog::default(),
            pods: options.pods.clone().map(PodFollower::start).transpose()?,
            uids: Uids::default(),
            unreadable_since: None,
            unlisted: Unlisted::default(),
            settled: Settled::default(),
            options,
        })
    }

    /// Collects all evidence and decides who holds `gpus`. Blocks, but no longer than some seconds. Missing evidence is
    /// among the [problems](Assignments::problems), never an error: other evidence may do.
    ///
    /// Call it about once a second, with times that do not fall. While the kubelet does not answer, its last list
    /// counts for some minutes.
    pub fn poll(&mut self, now: Timestamp, gpus: &[NodeGpu]) -> Assignments {
        let mut problems = BTreeSet::new();
        let (listing, changed) = self.kubelet_and_api(now, &mut problems);
        let processes = self.processes(now, gpus, &mut problems);
        let logs = self.pod_logs(&mut problems);
        let mut candidates = Vec::new();
        if let Some(listing) = &listing {
            self.follow_uids(now, listing, &logs, &processes, gpus);
            candidates = self.by_kubelet(listing, gpus, &mut problems);
        } else {
            self.uids.update(now, &BTreeSet::new(), |_| None);
        }
        let mut details = self.job_files(gpus, &mut candidates, &mut problems);
        problems.extend(self.pods.iter().flat_map(PodFollower::problems));
        let is_awaited = self.unlisted.update(now, &mut problems);
        let evidence = Evidence {
            candidates,
            has_kubelet: listing.is_some(),
            groups: &processes.groups,
            names: &logs.names,
        };
        let mut assignments = Assignments {
            at: now,
            gpus: BTreeMap::new(),
            instances: BTreeMap::new(),
            processes: BTreeMap::new(),
            details: BTreeMap::new(),
            problems: problems.into_iter().collect(),
        };
        self.decide(
            Changes { now, from: changed, are_awaited: is_awaited },
            gpus,
            &evidence,
            &mut assignments,
        );
        for held in assignments.gpus.values().flat_map(|it| &it.held) {
            let holder = &held.grant.holder;
            let known = match holder {
                Holder::Container(pod) => self.pods.as_ref().and_then(|pods| pods.details(pod)),
                other => details.remove(other).map(Arc::new),
            };
            assignments.details.extend(known.map(|known| (holder.clone(), known)));
        }
        assignments
    }

    fn decide(
        &mut self,
        changes: Changes,
        gpus: &[NodeGpu],
        evidence: &Evidence<'_>,
        assignments: &mut Assignments,
    ) {
        self.settled.retain(&devices(gpus).map(|(device, _)| device).collect());
        for gpu in gpus {
            let mut parts = Vec::new();
            // An instance that is not listed yet may be of any GPU in MIG mode, and of one that is new.
            let is_awaited = changes.are_awaited
                && (!gpu.instances.is_empty() || !self.settled.knows(&gpu.uuid));
            let changes = Changes { are_awaited: is_awaited, ..changes };
            let mut running: BTreeSet<u32> = gpu.processes.iter().copied().collect();
            for instance in &gpu.instances {
                let own = instance.processes.iter().copied().collect();
                let decision = evidence.decide(&instance.uuid, &own, Vec::new());
                parts.extend(decision.parts_of(&gpu.uuid, instance.share));
                running.extend(own);
                assignments.processes.extend(decision.processes.clone());
                let assignment = self.settle(changes, &instance.uuid, decision);
                assignments.instances.insert(instance.uuid.clone(), assignment);
            }
            let decision = evidence.decide(&gpu.uuid, &running, parts);
            assignments.processes.extend(decision.processes.clone());
            let assignment = self.settle(changes, &gpu.uuid, decision);
            assignments.gpus.insert(gpu.uuid.clone(), assignment);
        }
    }

    fn settle(&mut self, changes: Changes, device: &str, decision: Decision) -> Assignment {
        let Decision { held, processes, disagreements } = decision;
        let holders = held.iter().filter_map(|held| held.grant.holder.container());
        let is_awaited = changes.are_awaited
            || holders.into_iter().any(|container| self.awaits(changes.now, container));
        let (since, held) = self.settled.update(device, changes.from, held, is_awaited);
        let touched: BTreeSet<Holder> = processes.into_values().collect();
        Assignment {
            since,
            held,
            touched: touched.into_iter().collect(),
            disagreements: disagreements.into_iter().collect(),
        }
    }
}

impl NodeHolders {
    /// Whether a pod is so new that its UID, or what the API server has of it, may soon be known.
    fn awaits(&self, now: Timestamp, container: &Container) -> bool {
        let lacks_uid = self.options.pod_logs.is_some() && container.uid.is_none();
        let lacks_details = || {
            let pods = self.pods.as_ref().filter(|pods| pods.is_healthy());
            pods.is_some_and(|pods| pods.details(container).is_none())
        };
        let pod = PodName { namespace: container.namespace.clone(), name: container.pod.clone() };
        self.uids.is_new(now, &pod) && (lacks_uid || lacks_details())
    }
}

/// The UUIDs of all GPUs and MIG instances, each with its processes.
fn devices(gpus: &[NodeGpu]) -> impl Iterator<Item = (&str, &[u32])> {
    gpus.iter().flat_map(|gpu| {
        let instances = gpu.instances.iter().map(|it| (it.uuid.as_str(), &*it.processes));
        std::iter::once((gpu.uuid.as_str(), &*gpu.processes)).chain(instances)
    })
}
