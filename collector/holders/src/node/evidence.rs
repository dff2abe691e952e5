//! What a poll finds at each source.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use phasemeter_meter::holder::Holder;
use phasemeter_meter::holder_details::HolderDetails;
use phasemeter_meter::units::Timestamp;

use super::{NodeHolders, devices};
use crate::administration::holding;
use crate::assignments::Problem;
use crate::candidate::{self, Candidate};
use crate::fractions::divided;
use crate::gpus::NodeGpu;
use crate::jobs::{job_mapping, prolog_files};
use crate::kubelet::Listing;
use crate::options::PodName;
use crate::pod_logs::PodLogs;
use crate::processes::{Processes, UNREADABLE_FOR};

impl NodeHolders {
    /// The list of the kubelet that counts, and since when if it has changed.
    pub(super) fn kubelet_and_api(
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

    pub(super) fn processes(
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

    pub(super) fn pod_logs(&self, problems: &mut BTreeSet<Problem>) -> PodLogs {
        let Some(dir) = &self.options.pod_logs else { return PodLogs::default() };
        PodLogs::read(dir).unwrap_or_else(|error| {
            problems.insert(unreadable(dir, &error));
            PodLogs::default()
        })
    }

    /// The UID of a pod is in the name of its log directory. Without one, the processes on a GPU that it has alone have it.
    pub(super) fn follow_uids(
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

    pub(super) fn by_kubelet(
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
    pub(super) fn job_files(
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
}

fn unreadable(dir: &Path, error: &io::Error) -> Problem {
    Problem::Directory { path: dir.display().to_string(), reason: error.to_string() }
}
