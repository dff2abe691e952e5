//! Which GPUs a span is charged for, or which holder's parts of them, by the attributes of its resource: looked up by
//! key, however many GPUs, holders and processes are known.

mod members;
mod resource;

use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::sync::Arc;

use phasemeter_meter::holder::{Container, Holder};
use phasemeter_meter::units::Timestamp;

use self::members::Members;
pub use self::resource::{Pod, ResourceIdentity};
use crate::assignments::Assignments;
use crate::holder_keys::HolderKeys;
use crate::span::GpuSet;

/// Maximum number of processes and of holders that are known of all GPUs, unless each has fewer than
/// [`MIN_OWNERS`]; and of one GPU. Beyond it, the oldest of the GPU are forgotten.
const MAX_OWNERS: usize = 65_536;
const MAX_OWNERS_OF_GPU: usize = 256;
const MIN_OWNERS: usize = 4;

/// What names the holder of a GPU. Each has points at instants of its own, so what the other one does not name ends
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// Labels of the metrics of the GPU.
    Labels,
    /// Metrics of the parts that holders have.
    Metrics,
}

/// The GPUs, by what identifies them.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    gpus: Vec<Gpu>,
    members: HashMap<u64, Members>,
    hasher: RandomState,
}

/// What is known of a GPU.
#[derive(Clone, Debug)]
struct Gpu {
    host: Option<String>,
    owners: Owners,
    /// The holders among them, over time, by what names them.
    holders: [Assignments; 2],
}

/// What the attributes of a resource name.
#[derive(Clone, Debug)]
pub enum NamedGpus {
    /// These GPUs, at any time.
    Fixed(GpuSet),
    /// A holder.
    Holder(HeldGpus),
}

/// A holder, and the GPUs that it may have.
#[derive(Clone, Debug)]
pub struct HeldGpus {
    keys: HolderKeys,
    /// Its parts of those that it has had at any time.
    parts: GpuSet,
    /// Those that count while it has none of these.
    otherwise: Otherwise,
}

#[derive(Clone, Debug)]
enum Otherwise {
    /// These, which are named, too.
    Named(GpuSet),
    /// Those of its host that nobody has.
    FreeOf(GpuSet),
}

/// What identifies GPUs. Kept as a hash with a secret key, since labels are long and come from anywhere.
#[derive(Hash)]
enum Key<'a> {
    HwId(&'a str),
    Host(&'a str),
    Process(u32),
    PodUid(&'a str),
    /// A pod by namespace and name, and whether its UID is known, too.
    PodName {
        name: (&'a str, &'a str),
        has_uid: bool,
    },
    Job(&'a str),
}

/// The owners of a GPU: the keys of each, oldest first.
#[derive(Clone, Debug, Default)]
struct Owners {
    order: VecDeque<HolderKeys>,
    known: HashSet<HolderKeys>,
}

impl Directory {
    /// Number of GPUs.
    #[must_use]
    pub const fn gpus(&self) -> usize {
        self.gpus.len()
    }

    /// Adds a GPU: its UUID, else its `hw.id`, after `HOST:` if the host is known; and its `host.name`.
    pub fn add_gpu(&mut self, hw_id: &str, host: Option<&str>) {
        let gpu = self.gpus.len();
        let (owners, holders) = (Owners::default(), Default::default());
        self.gpus.push(Gpu { host: host.map(str::to_owned), owners, holders });
        self.add(&Key::HwId(hw_id), gpu);
        if let Some(host) = host {
            self.add(&Key::Host(host), gpu);
        }
    }

    /// A process uses a GPU.
    pub fn add_process(&mut self, gpu: usize, pid: u32) {
        let key = self.hash(&Key::Process(pid));
        self.add_owner(gpu, HolderKeys::new([Some(key), None]));
    }

    /// A point of a GPU at this instant names its holder, or none.
    pub fn see_holder(
        &mut self,
        gpu: usize,
        (at, by): (Timestamp, NamedBy),
        holder: Option<&Holder>,
    ) {
        let keys = holder.map(|holder| self.keys_of(holder));
        let most = self.most_owners();
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.holders[by as usize].see(at, keys, most);
        }
        keys.into_iter().for_each(|keys| self.add_owner(gpu, keys));
    }

    /// What identifies a holder. Only a pod or a job can be named by a resource.
    #[must_use]
    pub fn keys_of(&self, holder: &Holder) -> HolderKeys {
        match holder {
            Holder::Container(Container { namespace, pod, uid, .. }) => {
                let uid = uid.as_deref();
                let name = (!namespace.is_empty()).then_some((namespace.as_str(), pod.as_str()));
                let name = name.map(|name| Key::PodName { name, has_uid: uid.is_some() });
                HolderKeys::new([uid.map(Key::PodUid), name].map(|key| Some(self.hash(&key?))))
            }
            Holder::Job(id) => HolderKeys::new([Some(self.hash(&Key::Job(id))), None]),
            Holder::Claim { .. } | Holder::ProcessGroup(_) | Holder::Named(_) => HolderKeys::NOBODY,
        }
    }

    /// What a resource names, by the most specific attribute that it has: `hw.id`; `process.pid`, if it is that of a
    /// known process; its pod; its job; `host.name`. A process is one of its host. A pod or a job that has a GPU of
    /// this `hw.id` is charged for its part of it.
    #[must_use]
    pub fn named(&self, resource: &ResourceIdentity<'_>) -> NamedGpus {
        let holder = self.holder(resource);
        if resource.hw_id.is_some() {
            let named = GpuSet::listed(self.by_hw_id(resource).unwrap_or_default());
            let is_named = |gpu: &usize| named.listed_gpus().is_some_and(|it| it.contains(gpu));
            return match holder {
                None => NamedGpus::Fixed(named),
                Some(keys) => NamedGpus::Holder(HeldGpus {
                    keys,
                    parts: self.parts_of(keys).filtered(is_named),
                    otherwise: Otherwise::Named(named),
                }),
            };
        }
        if let Some(gpus) = self.by_process(resource) {
            return NamedGpus::Fixed(GpuSet::listed(gpus));
        }
        let of_host = resource.host.and_then(|host| self.listed(&Key::Host(host)));
        let of_host = GpuSet::listed(of_host.unwrap_or_default());
        match holder {
            Some(keys) => NamedGpus::Holder(HeldGpus {
                keys,
                parts: self.parts_of(keys),
                otherwise: Otherwise::FreeOf(of_host),
            }),
            None => NamedGpus::Fixed(of_host),
        }
    }

    /// The GPUs that are named during this time, or a holder's parts of them: none, if none of them is known, so that
    /// no span pays for GPUs of others. A holder without a GPU has those of its host that nobody has.
    #[must_use]
    pub fn gpus_of(&self, named: &NamedGpus, during: &Range<Timestamp>) -> GpuSet {
        let HeldGpus { keys, parts, otherwise } = match named {
            NamedGpus::Fixed(gpus) => return gpus.clone(),
            NamedGpus::Holder(held) => held,
        };
        let holders = |gpu: &usize| self.gpus.get(*gpu).into_iter().flat_map(|gpu| &gpu.holders);
        let found = parts.filtered(|gpu| holders(gpu).any(|it| it.have(keys, during)));
        if !found.is_empty() {
            return found;
        }
        let is_free = |gpu: &usize| !holders(gpu).any(|it| it.have_any(during));
        match otherwise {
            Otherwise::Named(gpus) => gpus.clone(),
            Otherwise::FreeOf(gpus) => gpus.filtered(is_free),
        }
    }

    fn by_hw_id(&self, resource: &ResourceIdentity<'_>) -> Option<Arc<[usize]>> {
        let id = resource.hw_id?;
        let on_host = resource.host.map(|host| format!("{host}:{id}"));
        let on_host = on_host.and_then(|id| self.listed(&Key::HwId(&id)));
        union(self.listed(&Key::HwId(id)), on_host)
    }

    fn by_process(&self, resource: &ResourceIdentity<'_>) -> Option<Arc<[usize]>> {
        let all = self.listed(&Key::Process(resource.pid?))?;
        let is_same_host = |gpu: &usize| {
            let host = self.gpus.get(*gpu).and_then(|gpu| gpu.host.as_deref());
            host.zip(resource.host).is_none_or(|(host, other)| host == other)
        };
        if all.iter().all(is_same_host) {
            return Some(all);
        }
        let some: Arc<[usize]> = all.iter().copied().filter(is_same_host).collect();
        (!some.is_empty()).then_some(some)
    }

    /// The pod or the job that a resource names. Two pods are the same by their UIDs, if both are known, else by
    /// namespace and name.
    fn holder(&self, resource: &ResourceIdentity<'_>) -> Option<HolderKeys> {
        let Some(pod) = resource.pod.filter(|pod| pod.is_named()) else {
            let job = self.hash(&Key::Job(resource.job?));
            return Some(HolderKeys::new([Some(job), None]));
        };
        let named = |has_uid| pod.full_name().map(|name| Key::PodName { name, has_uid });
        let exact = pod.uid.as_deref().map(Key::PodUid).or_else(|| named(true));
        Some(HolderKeys::new([exact, named(false)].map(|key| Some(self.hash(&key?)))))
    }

    /// The parts of GPUs that a holder with any of these keys has had.
    fn parts_of(&self, keys: HolderKeys) -> GpuSet {
        let gpus = keys.iter().map(|key| self.with_key(key)).reduce(union);
        GpuSet::held(gpus.flatten().unwrap_or_default(), keys)
    }

    fn hash(&self, key: &Key<'_>) -> u64 {
        self.hasher.hash_one(key)
    }

    fn with_key(&self, key: u64) -> Option<Arc<[usize]>> {
        self.members.get(&key).map(|members| Arc::clone(&members.listed))
    }

    fn listed(&self, key: &Key<'_>) -> Option<Arc<[usize]>> {
        self.with_key(self.hash(key))
    }

    fn add(&mut self, key: &Key<'_>, gpu: usize) {
        let key = self.hash(key);
        self.members.entry(key).or_default().add(gpu);
    }

    /// How many owners of a GPU are known.
    fn most_owners(&self) -> usize {
        (MAX_OWNERS / self.gpus.len().max(1)).clamp(MIN_OWNERS, MAX_OWNERS_OF_GPU)
    }

    fn add_owner(&mut self, gpu: usize, keys: HolderKeys) {
        let most = self.most_owners();
        let Some(Gpu { owners, .. }) = self.gpus.get_mut(gpu) else { return };
        if keys == HolderKeys::NOBODY || !owners.known.insert(keys) {
            return;
        }
        owners.order.push_back(keys);
        for key in keys.iter() {
            self.members.entry(key).or_default().add(gpu);
        }
        while owners.order.len() > most
            && let Some(oldest) = owners.order.pop_front()
        {
            owners.known.remove(&oldest);
            for key in oldest.iter() {
                let is_empty = self.members.get_mut(&key).is_some_and(|it| it.remove(gpu));
                if is_empty {
                    self.members.remove(&key);
                }
            }
        }
    }
}

/// All of both lists, in order.
fn union(a: Option<Arc<[usize]>>, b: Option<Arc<[usize]>>) -> Option<Arc<[usize]>> {
    match (a, b) {
        (Some(a), Some(b)) if a != b => {
            let mut all = [&a[..], &b].concat();
            all.sort_unstable();
            all.dedup();
            Some(all.into())
        }
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests;
