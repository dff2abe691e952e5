//! What one source says: a holder of a GPU or MIG instance.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Container, Holder, Share};

use crate::assignments::{Problem, Source};
use crate::claims::Catalog;
use crate::device_id::DeviceName;
use crate::gpus::NodeGpu;
use crate::jobs::{Job, SlurmGpu};
use crate::kubelet::{ClaimedDevice, ContainerName, Listing};
use crate::options::PodName;
use crate::uids::Uids;

/// A holder of a GPU or MIG instance, by one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The UUID of the GPU or MIG instance.
    pub(crate) device: String,
    pub(crate) holder: Holder,
    /// Its part of the device, if known.
    pub(crate) share: Option<Share>,
    pub(crate) source: Source,
}

/// The containers that have devices of device plugins, other than those of this process's pod.
pub(crate) fn of_plugins(
    listing: &Listing,
    own_pod: Option<&PodName>,
    replicas: &BTreeMap<DeviceName, u32>,
    gpus: &[NodeGpu],
    uids: &Uids,
    problems: &mut BTreeSet<Problem>,
) -> Vec<Candidate> {
    // Several replicas of a GPU in one container are one part of it.
    let mut parts: BTreeMap<(&ContainerName, &DeviceName), (u32, bool)> = BTreeMap::new();
    let foreign = listing.devices.iter().filter(|(name, _)| Some(&name.pod) != own_pod);
    for (container, device) in foreign {
        let (count, is_whole) = parts.entry((container, &device.name)).or_default();
        match device.replica {
            Some(_) => *count += 1,
            None => *is_whole = true,
        }
    }
    let mut candidates = Vec::new();
    for ((container, name), (count, is_whole)) in parts {
        let Some(device) = uuid(name, gpus) else {
            problems.insert(Problem::UnknownDevice { device: name.to_string() });
            continue;
        };
        let share = match replicas.get(name) {
            _ if is_whole => Some(Share::WHOLE),
            Some(&replicas) => Share::new(count, replicas),
            None => None,
        };
        let holder = container_holder(&container.pod, &container.container, uids);
        candidates.push(Candidate { device, holder, share, source: Source::DevicePlugin });
    }
    candidates
}

/// The UUID of a device on this node.
fn uuid(name: &DeviceName, gpus: &[NodeGpu]) -> Option<String> {
    match name {
        DeviceName::Uuid(uuid) => is_on_node(uuid, gpus).then(|| uuid.clone()),
        DeviceName::Number { minor, gpu_instance } => {
            let gpu = by_minor(*minor, gpus)?;
            let Some(id) = gpu_instance else { return Some(gpu.uuid.clone()) };
            let mut instances = gpu.instances.iter();
            Some(instances.find(|it| it.gpu_instance == Some(*id))?.uuid.clone())
        }
    }
}

fn is_on_node(uuid: &str, gpus: &[NodeGpu]) -> bool {
    let has = |gpu: &NodeGpu| gpu.uuid == uuid || gpu.instances.iter().any(|it| it.uuid == uuid);
    gpus.iter().any(has)
}

/// Without minor numbers, the index: they differ only if a GPU is missing.
fn by_minor(minor: u32, gpus: &[NodeGpu]) -> Option<&NodeGpu> {
    gpus.iter().find(|gpu| gpu.minor.unwrap_or(gpu.index) == minor)
}

fn container_holder(pod: &PodName, container: &str, uids: &Uids) -> Holder {
    Holder::Container(Container {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        uid: uids.of(pod).cloned(),
        container: container.to_owned(),
    })
}

/// The pods that have devices of claims. Several containers of a pod that have one claim are one holder: the pod.
pub(crate) fn of_claims<'l>(
    claimed: impl Iterator<Item = &'l (ContainerName, ClaimedDevice)>,
    catalog: &mut Catalog,
    gpus: &[NodeGpu],
    uids: &Uids,
    problems: &mut BTreeSet<Problem>,
) -> Vec<Candidate> {
    type Shared<'l> = (String, &'l PodName, &'l (String, String));
    type Has<'l> = (BTreeSet<&'l str>, BTreeMap<&'l str, Option<Share>>);
    let mut containers: BTreeMap<Shared<'l>, Has<'l>> = BTreeMap::new();
    for (container, claimed) in claimed {
        let device = match catalog.resolve(&claimed.device, &claimed.cdi, gpus) {
            Ok(Some(uuid)) if is_on_node(&uuid, gpus) => uuid,
            Ok(Some(uuid)) => {
                problems.insert(Problem::UnknownDevice { device: uuid });
                continue;
            }
            Ok(None) => continue,
            Err(reason) => {
                let device = claimed.device.to_string();
                problems.insert(Problem::Unresolved { device, reason });
                continue;
            }
        };
        let shared = containers.entry((device, &container.pod, &claimed.claim)).or_default();
        shared.0.insert(&container.container);
        if let Some(id) = &claimed.share {
            shared.1.insert(id, catalog.share(&claimed.claim, &claimed.device, id));
        }
    }
    let candidate = |((device, pod, _), (names, parts)): (Shared<'l>, Has<'l>)| {
        let name = if names.len() == 1 { names.first().copied() } else { None };
        // How large a share is, only the status of the claim says.
        let known: Option<Vec<Share>> = parts.values().copied().collect();
        let share = if parts.is_empty() { Some(Share::WHOLE) } else { known.and_then(Share::sum) };
        let holder = container_holder(pod, name.unwrap_or_default(), uids);
        Candidate { device, holder, share, source: Source::Claim }
    };
    containers.into_iter().map(candidate).collect()
}

/// The jobs of Slurm's prolog files.
pub(crate) fn of_prolog(
    jobs: &[(Job, Vec<SlurmGpu>)],
    gpus: &[NodeGpu],
    problems: &mut BTreeSet<Problem>,
) -> Vec<Candidate> {
    let mut candidates = Vec::new();
    for (job, named) in jobs {
        for gpu in named {
            let device = match gpu {
                SlurmGpu::Minor(minor) => by_minor(*minor, gpus).map(|gpu| gpu.uuid.clone()),
                SlurmGpu::Uuid(uuid) => is_on_node(uuid, gpus).then(|| uuid.clone()),
            };
            match device {
                Some(device) => candidates.push(job_candidate(device, &job.id, Source::Prolog)),
                None => {
                    let device = format!("{gpu} of job {}", job.id);
                    problems.insert(Problem::UnknownDevice { device });
                }
            }
        }
    }
    candidates
}

/// The jobs of job-mapping files.
pub(crate) fn of_mapping(mapping: &BTreeMap<u32, Vec<String>>, gpus: &[NodeGpu]) -> Vec<Candidate> {
    let mapped = gpus.iter().filter_map(|gpu| Some((gpu, mapping.get(&gpu.index)?)));
    let candidate =
        |gpu: &NodeGpu, id: &String| job_candidate(gpu.uuid.clone(), id, Source::JobMapping);
    mapped.flat_map(|(gpu, jobs)| jobs.iter().map(move |id| candidate(gpu, id))).collect()
}

/// No file says which part of a GPU a job has.
fn job_candidate(device: String, id: &str, source: Source) -> Candidate {
    Candidate { device, holder: Holder::Job(id.to_owned()), share: None, source }
}

/// Joins candidates of the same holder, and forgets parts that exceed the whole: then they are not known.
pub(crate) fn joined(candidates: impl IntoIterator<Item = Candidate>) -> Vec<Candidate> {
    let mut by_holder: BTreeMap<Holder, Candidate> = BTreeMap::new();
    for candidate in candidates {
        match by_holder.get_mut(&candidate.holder) {
            None => {
                by_holder.insert(candidate.holder.clone(), candidate);
            }
            Some(first) => {
                let both = first.share.zip(candidate.share);
                first.share = both.and_then(|(a, b)| Share::sum([a, b]));
                first.source = first.source.min(candidate.source);
            }
        }
    }
    let mut joined: Vec<Candidate> = by_holder.into_values().collect();
    if Share::sum(joined.iter().filter_map(|candidate| candidate.share)).is_none() {
        joined.iter_mut().for_each(|candidate| candidate.share = None);
    }
    joined
}
