//! Which GPUs a span is charged for, by the attributes of its resource: looked up by key, however many GPUs,
//! pods and processes are known.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash, RandomState};
use std::ops::Range;
use std::sync::Arc;

use phasemeter_meter::units::Timestamp;

use crate::assignments::{Assignments, PodKeys};

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
    const fn is_named(&self) -> bool {
        self.uid.is_some() || self.name.is_some()
    }

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
    /// The pods among them, over time.
    pods: Assignments,
}

/// What the attributes of a resource name.
#[derive(Clone, Debug)]
pub enum NamedGpus {
    /// These GPUs, at any time.
    Fixed(Arc<[usize]>),
    /// A pod.
    Pod(PodGpus),
}

/// A pod, and the GPUs that may have it.
#[derive(Clone, Debug)]
pub struct PodGpus {
    keys: PodKeys,
    /// Those that it has had at any time.
    gpus: Arc<[usize]>,
    /// Those of its host.
    of_host: Arc<[usize]>,
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
        let (owners, pods) = (Owners::default(), Assignments::default());
        self.gpus.push(Gpu { host: host.map(str::to_owned), owners, pods });
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

    /// A point of a GPU at this instant names its pod, or none.
    pub fn see_pod(&mut self, gpu: usize, at: Timestamp, pod: Option<&Pod>) {
        let keys = pod.map(|pod| {
            let has_uid = pod.uid.is_some();
            let uid = pod.uid.as_deref().map(|uid| self.hasher.hash_one(Key::PodUid(uid)));
            let name = pod.full_name();
            [uid, name.map(|name| self.hasher.hash_one(Key::PodName { name, has_uid }))]
        });
        let most = self.most_owners();
        if let Some(gpu) = self.gpus.get_mut(gpu) {
            gpu.pods.see(at, keys, most);
        }
        keys.into_iter().for_each(|keys| self.add_owner(gpu, keys));
    }

    /// What a resource names, by the most specific attribute that it has: `hw.id`; `process.pid`, if it is that of
    /// a known process; its pod; `host.name`. A process is one of its host.
    #[must_use]
    pub fn named(&self, resource: &ResourceIdentity<'_>) -> NamedGpus {
        if resource.hw_id.is_some() {
            return NamedGpus::Fixed(self.by_hw_id(resource).unwrap_or_default());
        }
        if let Some(gpus) = self.by_process(resource) {
            return NamedGpus::Fixed(gpus);
        }
        let of_host = resource.host.and_then(|host| self.listed(&Key::Host(host)));
        let of_host = of_host.unwrap_or_default();
        match resource.pod.filter(|pod| pod.is_named()) {
            Some(pod) => NamedGpus::Pod(self.pod_gpus(pod, of_host)),
            None => NamedGpus::Fixed(of_host),
        }
    }

    /// The GPUs that are named during this time: none, if none of them is known, so that no span pays for GPUs of
    /// others. A pod without a GPU has those of its host that no pod has.
    #[must_use]
    pub fn gpus_of(&self, named: &NamedGpus, during: &Range<Timestamp>) -> Arc<[usize]> {
        let PodGpus { keys, gpus, of_host } = match named {
            NamedGpus::Fixed(gpus) => return Arc::clone(gpus),
            NamedGpus::Pod(pod) => pod,
        };
        let has = |gpu: &usize| self.gpus.get(*gpu).is_some_and(|it| it.pods.have(*keys, during));
        let found = filtered(gpus, has);
        if !found.is_empty() {
            return found;
        }
        let is_free = |gpu: &usize| self.gpus.get(*gpu).is_some_and(|it| !it.pods.have_any(during));
        filtered(of_host, is_free)
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
    fn pod_gpus(&self, pod: &Pod, of_host: Arc<[usize]>) -> PodGpus {
        let named = |has_uid| {
            pod.full_name().map(|name| self.hasher.hash_one(Key::PodName { name, has_uid }))
        };
        let exact = match pod.uid.as_deref() {
            Some(uid) => Some(self.hasher.hash_one(Key::PodUid(uid))),
            None => named(true),
        };
        let keys = [exact, named(false)];
        let [exact, named] = keys.map(|key| self.with_key(key?));
        PodGpus { keys, gpus: union(exact, named).unwrap_or_default(), of_host }
    }

    fn with_key(&self, key: u64) -> Option<Arc<[usize]>> {
        self.members.get(&key).map(|members| Arc::clone(&members.listed))
    }

    fn listed(&self, key: &Key<'_>) -> Option<Arc<[usize]>> {
        self.with_key(self.hasher.hash_one(key))
    }

    fn add(&mut self, key: &Key<'_>, gpu: usize) {
        let key = self.hasher.hash_one(key);
        self.members.entry(key).or_default().add(gpu);
    }

    /// How many owners of a GPU are known.
    fn most_owners(&self) -> usize {
        (MAX_OWNERS / self.gpus.len().max(1)).clamp(MIN_OWNERS, MAX_OWNERS_OF_GPU)
    }

    fn add_owner(&mut self, gpu: usize, keys: [Option<u64>; 2]) {
        let most = self.most_owners();
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

/// The GPUs of a list that fit, which usually are all.
fn filtered(gpus: &Arc<[usize]>, fits: impl Fn(&usize) -> bool) -> Arc<[usize]> {
    if gpus.iter().all(&fits) {
        Arc::clone(gpus)
    } else {
        gpus.iter().copied().filter(fits).collect()
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

    fn second(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000).unwrap()
    }

    /// The GPUs of a resource in the second second.
    fn found(directory: &Directory, resource: &ResourceIdentity<'_>) -> Arc<[usize]> {
        directory.gpus_of(&directory.named(resource), &(second(1)..second(2)))
    }

    /// GPUs with a pod each, if it has a name.
    fn directory(gpus: &[(&str, &str, &[u32], &str)]) -> Directory {
        let mut directory = Directory::default();
        for (gpu, (id, host, pids, uid)) in gpus.iter().enumerate() {
            directory.add_gpu(id, Some(host));
            pids.iter().for_each(|pid| directory.add_process(gpu, *pid));
            let pod = (!uid.is_empty()).then(|| pod(uid));
            directory.see_pod(gpu, second(0), pod.as_ref());
        }
        directory
    }

    /// Guarantee: the most specific attribute counts, and what names nothing known pays for nothing.
    #[test]
    fn most_specific_attribute_counts() {
        let gpus = directory(&[
            ("A", "h1", &[7], "p"),
            ("B", "h1", &[7, 8], "q"),
            ("C", "h2", &[7], "q"),
            ("D", "h2", &[], ""),
            ("h2:0", "h2", &[], "r"),
        ]);
        let none = ResourceIdentity::default();
        let (q, x) = (pod("q"), pod("x"));
        for (resource, expected) in [
            (none, &[][..]),
            (ResourceIdentity { hw_id: Some("B"), pid: Some(7), ..none }, &[1]),
            (ResourceIdentity { hw_id: Some("0"), host: Some("h2"), ..none }, &[4]),
            (ResourceIdentity { hw_id: Some("Z"), host: Some("h1"), pod: Some(&q), ..none }, &[]),
            (ResourceIdentity { pid: Some(7), ..none }, &[0, 1, 2]),
            (ResourceIdentity { pid: Some(7), host: Some("h1"), ..none }, &[0, 1]),
            (ResourceIdentity { pid: Some(9), pod: Some(&q), ..none }, &[1, 2]),
            (ResourceIdentity { pid: Some(9), ..none }, &[]),
            (ResourceIdentity { pod: Some(&q), host: Some("h3"), ..none }, &[1, 2]),
            (ResourceIdentity { pod: Some(&x), host: Some("h2"), ..none }, &[3]),
            (ResourceIdentity { pod: Some(&x), host: Some("h1"), ..none }, &[]),
            (ResourceIdentity { pod: Some(&x), ..none }, &[]),
            (ResourceIdentity { host: Some("h1"), ..none }, &[0, 1]),
            (ResourceIdentity { host: Some("h3"), ..none }, &[]),
        ] {
            assert_eq!(&*found(&gpus, &resource), expected, "{resource:?}");
        }
    }

    /// Guarantee: a pod that moved, by name or with its UID, has the GPU that it has then.
    #[test]
    fn pod_has_the_gpus_of_its_time() {
        let mut gpus = directory(&[("A", "h1", &[], ""), ("B", "h2", &[], "")]);
        let stateful =
            Pod { namespace: Some("ml".to_owned()), name: Some("train-0".to_owned()), uid: None };
        for seconds in (15..=120).step_by(15) {
            let (is_first, other) = (seconds <= 60, pod("other"));
            let pods =
                if is_first { [Some(&stateful), None] } else { [Some(&other), Some(&stateful)] };
            for (gpu, pod) in pods.into_iter().enumerate() {
                gpus.see_pod(gpu, second(seconds), pod);
            }
        }
        let with_uid = Pod { uid: Some("u".to_owned()), ..stateful.clone() };
        for pod in [&stateful, &with_uid] {
            let named = gpus.named(&ResourceIdentity { pod: Some(pod), ..Default::default() });
            let at = |from| gpus.gpus_of(&named, &(second(from)..second(from + 5))).to_vec();
            assert_eq!([at(30), at(80), at(115)], [vec![0], vec![1], vec![1]]);
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
                directory.see_pod(0, second(0), Some(&of(known)));
                let pod = of(asked);
                let resource = ResourceIdentity { pod: Some(&pod), ..Default::default() };
                let is_found = !found(&directory, &resource).is_empty();
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
        directory.see_pod(1, second(0), Some(&pod("kept")));
        for n in 0..MAX_OWNERS {
            directory.see_pod(0, second(0), Some(&pod(&n.to_string())));
            directory.see_pod(0, second(0), Some(&pod(&n.to_string())));
        }
        directory.see_pod(0, second(0), Some(&pod("kept")));
        let owners: usize = directory.gpus.iter().map(|gpu| gpu.owners.order.len()).sum();
        assert_eq!(owners, MAX_OWNERS / gpus + 1);
        assert_eq!(directory.members.len(), gpus + MAX_OWNERS / gpus);
        let find = |uid: &str| {
            found(&directory, &ResourceIdentity { pod: Some(&pod(uid)), ..Default::default() })
        };
        assert_eq!(*find("kept"), [0, 1]);
        assert!(find("0").is_empty());
        assert_eq!(*find(&(MAX_OWNERS - 1).to_string()), [0]);
    }
}
