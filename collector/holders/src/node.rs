//! Polls all evidence of a node.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::sync::Arc;

use phasemeter_meter::holder::{Container, Holder};
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::units::Timestamp;
use thiserror::Error;
use tokio::runtime::{self, Runtime};

use crate::administration::holding;
use crate::api_source::ApiSource;
use crate::assignments::{Assignment, Assignments, Problem};
use crate::candidate::{self, Candidate};
use crate::claims::Catalog;
use crate::decision::{Decision, Evidence};
use crate::fractions::divided;
use crate::gpus::NodeGpu;
use crate::jobs::{job_mapping, prolog_files};
use crate::kubelet::{KubeletSource, Listing};
use crate::options::{Options, PodName};
use crate::pod_logs::PodLogs;
use crate::pods::PodFollower;
use crate::processes::{Processes, UNREADABLE_FOR};
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

    /// The list of the kubelet that counts, and since when if it has changed.
    fn kubelet_and_api(
        &mut self,
        now: Timestamp,
        problems: &mut BTreeSet<Problem>,
    ) -> (Option<Listing>, Timestamp) {
        let Self { runtime, kubelet, api, catalog, .. } = self;
        let Some(kubelet) = kubelet else { return (None, now) };
        runtime.block_on(async {
            let believed = kubelet.poll(now, problems).await;
            if let Some(listing) = believed.listing {
                let devices = listing.claimed.iter().map(|(_, it)| &it.device).collect();
                let claims = listing.claimed.iter().map(|(_, it)| &it.claim).collect();
                catalog.retain(&devices, &claims);
                if let Some(api) = api {
                    api.refresh(now, &devices, &claims, catalog, problems).await;
                }
            }
            (believed.listing.cloned(), believed.since)
        })
    }

    fn processes(
        &mut self,
        now: Timestamp,
        gpus: &[NodeGpu],
        problems: &mut BTreeSet<Problem>,
    ) -> Processes {
        let Some(proc) = &self.options.proc else { return Processes::default() };
        let processes = Processes::read(proc, gpus);
        if processes.omitted > 0 {
            let count = processes.omitted;
            problems.insert(Problem::TooMany { what: "processes on GPUs", count });
        }
        if processes.are_unreadable {
            let since = self.unreadable_since.get_or_insert(now);
            if now.since(*since) >= UNREADABLE_FOR {
                problems.insert(Problem::Processes);
            }
        } else {
            self.unreadable_since = None;
        }
        processes
    }

    fn pod_logs(&self, problems: &mut BTreeSet<Problem>) -> PodLogs {
        let Some(dir) = &self.options.pod_logs else { return PodLogs::default() };
        PodLogs::read(dir).unwrap_or_else(|error| {
            problems.insert(unreadable(dir, &error));
            PodLogs::default()
        })
    }

    /// The UID of a pod is in the name of its log directory. Without one, the processes on a GPU that it has alone have it.
    fn follow_uids(
        &mut self,
        now: Timestamp,
        listing: &Listing,
        logs: &PodLogs,
        processes: &Processes,
        gpus: &[NodeGpu],
    ) {
        let mut guessed: BTreeSet<(PodName, &String)> = BTreeSet::new();
        let candidates = self.by_kubelet(listing, gpus, &mut BTreeSet::new());
        for (device, running) in devices(gpus) {
            let mut holders = candidates.iter().filter(|it| it.device == device);
            let (Some(holder), None) = (holders.next(), holders.next()) else { continue };
            let Holder::Container(container) = &holder.holder else { continue };
            let groups = running.iter().filter_map(|id| processes.groups.get(id));
            let uids: BTreeSet<_> = groups.filter_map(|groups| groups.pod.as_ref()).collect();
            let mut uids = uids.into_iter().filter(|uid| !logs.names.contains_key(*uid));
            let (Some(uid), None) = (uids.next(), uids.next()) else { continue };
            let pod =
                PodName { namespace: container.namespace.clone(), name: container.pod.clone() };
            guessed.insert((pod, uid));
        }
        // Each pod has one, and each one is of one pod.
        let mut unique: BTreeMap<&PodName, &String> = BTreeMap::new();
        for (pod, uid) in &guessed {
            let is_other = |(p, u): &&(PodName, &String)| (p == pod) != (u == uid);
            if !guessed.iter().any(|other| is_other(&other)) {
                unique.insert(pod, uid);
            }
        }
        self.uids.update(now, &listing.pods(), |pod| {
            logs.uids.get(pod).or_else(|| unique.get(pod).copied()).cloned()
        });
    }

    fn by_kubelet(
        &mut self,
        listing: &Listing,
        gpus: &[NodeGpu],
        problems: &mut BTreeSet<Problem>,
    ) -> Vec<Candidate> {
        let Some(kubelet) = &self.kubelet else { return Vec::new() };
        let (own, replicas) = (self.options.own_pod.as_ref(), kubelet.replicas());
        let mut candidates =
            candidate::of_plugins(listing, own, replicas, gpus, &self.uids, problems);
        let claimed = holding(&listing.claimed, own, &self.catalog, problems);
        let claimed = claimed.into_iter();
        candidates.extend(candidate::of_claims(
            claimed,
            &mut self.catalog,
            gpus,
            &self.uids,
            problems,
        ));
        match &self.pods {
            Some(pods) => divided(candidates, &pods.grouped(), &listing.active, gpus, problems),
            None => candidates,
        }
    }

    /// Adds the jobs that files name; returns what Slurm says about them.
    fn job_files(
        &self,
        gpus: &[NodeGpu],
        candidates: &mut Vec<Candidate>,
        problems: &mut BTreeSet<Problem>,
    ) -> BTreeMap<Holder, HolderDetails> {
        let mut details = BTreeMap::new();
        if let Some(dir) = &self.options.jobs {
            match prolog_files(dir) {
                Ok(files) => {
                    candidates.extend(candidate::of_prolog(&files.jobs, gpus, problems));
                    let jobs = files.jobs.into_iter();
                    details.extend(jobs.map(|(job, _)| (Holder::Job(job.id.clone()), job.into())));
                    let path = |name: String| dir.join(name).display().to_string();
                    let malformed =
                        files.malformed.into_iter().map(|it| Problem::JobFile { path: path(it) });
                    problems.extend(malformed);
                }
                Err(error) => {
                    problems.insert(unreadable(dir, &error));
                }
            }
        }
        if let Some(dir) = &self.options.job_mapping {
            match job_mapping(dir) {
                Ok(mapping) => candidates.extend(candidate::of_mapping(&mapping, gpus)),
                Err(error) => {
                    problems.insert(unreadable(dir, &error));
                }
            }
        }
        details
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

fn unreadable(dir: &Path, error: &io::Error) -> Problem {
    Problem::Directory { path: dir.display().to_string(), reason: error.to_string() }
}
