//! Which GPUs a span is charged for, by the attributes of its resource: looked up by key, however many GPUs,
//! pods and processes are known.
//!
//! Must not depend on the form of a resource.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use crate::span::GpuSet;

/// Maximum number of processes and of pods that are known of all GPUs, unless each has fewer than
/// [`MIN_OWNERS`]; and of one GPU. Beyond it, the oldest of the GPU are forgotten.
const MAX_OWNERS: usize = 65_536;
const MAX_OWNERS_OF_GPU: usize = 256;
const MIN_OWNERS: usize = 4;

/// A pod of Kubernetes, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `k8s.pod.uid`.
    pub uid: Option<String>,
    /// `k8s.namespace.name`.
    pub namespace: Option<String>,
    /// `k8s.pod.name`.
    pub name: Option<String>,
}

impl Pod {
    fn full_name(&self) -> Option<(&str, &str)> {
        self.namespace.as_deref().zip(self.name.as_deref())
    }
}

/// Attributes of a resource that identify GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceIdentity<'a> {
    /// `hw.id`.
    pub hw_id: Option<&'a str>,
    /// `process.pid`.
    pub pid: Option<u32>,
    /// Its pod.
    pub pod: Option<&'a Pod>,
    /// `host.name`.
    pub host: Option<&'a str>,
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
}

/// The owners of a GPU: the keys of each, oldest first.
#[derive(Clone, Debug, Default)]
struct Owners {
    order: VecDeque<[Option<u64>; 2]>,
    known: HashSet<[Option<u64>; 2]>,
}

/// The GPUs with one key.
#[derive(Clone, Debug, Default)]
struct Members {
    /// How often each has it.
    counts: BTreeMap<usize, u32>,
    listed: Arc<[usize]>,
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
        self.gpus.push(Gpu { host: host.map(str::to_owned), owners: Owners::default() });
        self.add(&Key::HwId(hw_id), gpu);
        if let Some(host) = host {
            self.add(&Key::Host(host), gpu);
        }
    }

    /// A process uses a GPU.
    pub fn add_process(&mut self, gpu: usize, pid: u32) {
        let key = self.hasher.hash_one(Key::Process(pid));
        self.add_owner(gpu, [Some(key), None]);
    }

    /// A GPU is assigned to a pod.
    pub fn add_pod(&mut self, gpu: usize, pod: &Pod) {
        let has_uid = pod.uid.is_some();
        let uid = pod.uid.as_deref().map(|uid| self.hasher.hash_one(Key::PodUid(uid)));
        let name = pod.full_name();
        let name = name.map(|name| self.hasher.hash_one(Key::PodName { name, has_uid }));
        self.add_owner(gpu, [uid, name]);
    }

    /// The GPUs of a resource, by the first attribute that identifies any: `hw.id`, `process.pid`, its pod,
    /// `host.name`. All, if none does. A process is one of its host.
    #[must_use]
    pub fn gpus_of(&self, resource: &ResourceIdentity<'_>) -> GpuSet {
        let found = self
            .by_hw_id(resource)
            .or_else(|| self.by_process(resource))
            .or_else(|| self.by_pod(resource.pod?))
            .or_else(|| self.listed(&Key::Host(resource.host?)));
        found.map_or(GpuSet::All, GpuSet::Listed)
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

    /// Two pods are the same by their UIDs, if both are known, else by namespace and name.
    fn by_pod(&self, pod: &Pod) -> Option<Arc<[usize]>> {
        let named =
            |has_uid| pod.full_name().and_then(|name| self.listed(&Key::PodName { name, has_uid }));
        let exact = match pod.uid.as_deref() {
            Some(uid) => self.listed(&Key::PodUid(uid)),
            None => named(true),
        };
        union(exact, named(false))
    }

    fn listed(&self, key: &Key<'_>) -> Option<Arc<[usize]>> {
        let members = self.members.get(&self.hasher.hash_one(key))?;
        Some(Arc::clone(&members.listed))
    }

    fn add(&mut self, key: &Key<'_>, gpu: usize) {
        let key = self.hasher.hash_one(key);
        self.members.entry(key).or_default().add(gpu);
    }

    fn add_owner(&mut self, gpu: usize, keys: [Option<u64>; 2]) {
        let most = (MAX_OWNERS / self.gpus.len().max(1)).clamp(MIN_OWNERS, MAX_OWNERS_OF_GPU);
        let Some(Gpu { owners, .. }) = self.gpus.get_mut(gpu) else { return };
        if keys == [None, None] || !owners.known.insert(keys) {
            return;
        }
        owners.order.push_back(keys);
        for key in keys.into_iter().flatten() {
            self.members.entry(key).or_default().add(gpu);
        }
        while owners.order.len() > most
            && let Some(oldest) = owners.order.pop_front()
        {
            owners.known.remove(&oldest);
            for key in oldest.into_iter().flatten() {
                let is_empty = self.members.get_mut(&key).is_some_and(|it| it.remove(gpu));
                if is_empty {
                    self.members.remove(&key);
                }
            }
        }
    }
}

impl Members {
    fn add(&mut self, gpu: usize) {
        let count = self.counts.entry(gpu).or_default();
        *count += 1;
        if *count == 1 {
            self.list();
        }
    }

    /// Returns whether none is left.
    fn remove(&mut self, gpu: usize) -> bool {
        if let Some(count) = self.counts.get_mut(&gpu) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&gpu);
                self.list();
            }
        }
        self.counts.is_empty()
    }

    fn list(&mut self) {
        self.listed = self.counts.keys().copied().collect();
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
mod tests {
    use super::*;

    fn pod(uid: &str) -> Pod {
        Pod { uid: Some(uid.to_owned()), ..Pod::default() }
    }

    fn directory(gpus: &[(&str, &str, &[u32], &str)]) -> Directory {
        let mut directory = Directory::default();
        for (gpu, (id, host, pids, uid)) in gpus.iter().enumerate() {
            directory.add_gpu(id, Some(host));
            pids.iter().for_each(|pid| directory.add_process(gpu, *pid));
            directory.add_pod(gpu, &pod(uid));
        }
        directory
    }

    #[test]
    fn first_attribute_that_identifies_gpus_counts() {
        let gpus = directory(&[
            ("A", "h1", &[7], "p"),
            ("B", "h1", &[7, 8], "q"),
            ("h2:0", "h2", &[7], "q"),
        ]);
        let listed = |gpus: &[usize]| GpuSet::Listed(gpus.into());
        let none = ResourceIdentity::default();
        let (q, x) = (pod("q"), pod("x"));
        for (resource, expected) in [
            (none, GpuSet::All),
            (ResourceIdentity { hw_id: Some("B"), pid: Some(7), ..none }, listed(&[1])),
            (ResourceIdentity { hw_id: Some("0"), host: Some("h2"), ..none }, listed(&[2])),
            (ResourceIdentity { hw_id: Some("0"), host: Some("h1"), ..none }, listed(&[0, 1])),
            (ResourceIdentity { pid: Some(7), ..none }, listed(&[0, 1, 2])),
            (ResourceIdentity { pid: Some(7), host: Some("h1"), ..none }, listed(&[0, 1])),
            (ResourceIdentity { pid: Some(9), pod: Some(&q), ..none }, listed(&[1, 2])),
            (ResourceIdentity { pod: Some(&x), host: Some("h2"), ..none }, listed(&[2])),
            (ResourceIdentity { host: Some("h3"), ..none }, GpuSet::All),
        ] {
            assert_eq!(gpus.gpus_of(&resource), expected, "{resource:?}");
        }
    }

    #[test]
    fn pod_is_identified_by_uid_or_else_by_namespace_and_name() {
        let of = |[uid, namespace, name]: [&str; 3]| {
            let known = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Pod { uid: known(uid), namespace: known(namespace), name: known(name) }
        };
        for (left, right, expected) in [
            (["u", "ml", "train-0"], ["u", "", ""], true),
            (["u", "ml", "train-0"], ["v", "ml", "train-0"], false),
            (["u", "ml", "train-0"], ["", "ml", "train-0"], true),
            (["", "ml", "train-0"], ["", "web", "train-0"], false),
            (["", "", "train-0"], ["", "", "train-0"], false),
            (["", "", ""], ["", "", ""], false),
        ] {
            for (known, asked) in [(left, right), (right, left)] {
                let mut directory = Directory::default();
                directory.add_gpu("A", None);
                directory.add_pod(0, &of(known));
                let pod = of(asked);
                let resource = ResourceIdentity { pod: Some(&pod), ..Default::default() };
                let is_found = directory.gpus_of(&resource) != GpuSet::All;
                assert_eq!(is_found, expected, "{known:?} {asked:?}");
            }
        }
    }

    /// Guarantee: however many pods a sender names, their number is limited, the newest are known, and a GPU
    /// that others have, too, remains theirs.
    #[test]
    fn owners_are_limited_and_the_oldest_forgotten() {
        let mut directory = Directory::default();
        let gpus = 1_000;
        (0..gpus).for_each(|gpu| directory.add_gpu(&gpu.to_string(), None));
        directory.add_pod(1, &pod("kept"));
        for n in 0..MAX_OWNERS {
            directory.add_pod(0, &pod(&n.to_string()));
            directory.add_pod(0, &pod(&n.to_string()));
        }
        directory.add_pod(0, &pod("kept"));
        let owners: usize = directory.gpus.iter().map(|gpu| gpu.owners.order.len()).sum();
        assert_eq!(owners, MAX_OWNERS / gpus + 1);
        assert_eq!(directory.members.len(), gpus + MAX_OWNERS / gpus);
        let find = |uid: &str| {
            directory.gpus_of(&ResourceIdentity { pod: Some(&pod(uid)), ..Default::default() })
        };
        assert_eq!(find("kept"), GpuSet::Listed([0, 1].into()));
        assert_eq!(find("0"), GpuSet::All);
        assert_eq!(find(&(MAX_OWNERS - 1).to_string()), GpuSet::Listed([0].into()));
    }
}
