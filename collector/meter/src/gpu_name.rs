//! What GPUs are called in text: by index; if they are of several hosts, by pod or host, and index.
//!
//! A UUID is whole, or cut beside its host or pod: alone, its beginning tells little.

use std::collections::{BTreeMap, BTreeSet};

use crate::reading::GpuIdentity;

/// Before an index.
pub const GPU: &str = "GPU ";

/// What tells a GPU from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedGpu<'a> {
    /// Its ID: UUID, bus ID or index, of a log if there are several.
    pub id: &'a str,
    /// Its index on its host.
    pub index: Option<u32>,
    /// Its host, or the log that it is from if there are several.
    pub node: Option<&'a str>,
    /// Its pod.
    pub pod: Option<&'a str>,
}

impl<'a> From<&'a GpuIdentity> for NamedGpu<'a> {
    fn from(gpu: &'a GpuIdentity) -> Self {
        Self { id: &gpu.name, index: gpu.index, node: gpu.node(), pod: gpu.pod() }
    }
}

impl NamedGpu<'_> {
    /// The name of a GPU that may be one of several hosts: `node17 GPU 5`. `shorten` elides long hosts, pods
    /// and IDs.
    #[must_use]
    pub fn qualified(&self, shorten: &dyn Fn(&str) -> String) -> String {
        match self.pod.or(self.node) {
            Some(place) => format!("{} {}", shorten(place), self.local(shorten)),
            None => self.local(&str::to_owned),
        }
    }

    /// The name on its host.
    fn local(&self, shorten: &dyn Fn(&str) -> String) -> String {
        match self.index {
            Some(index) => format!("{GPU}{index}"),
            // A UUID reads as one of a GPU, a bus ID does not.
            None if self.id.starts_with(GPU.trim_end()) => shorten(self.id),
            None => format!("{GPU}{}", shorten(self.id)),
        }
    }
}

/// The names of the GPUs of a report, all of them distinct if their IDs are.
#[must_use]
pub fn gpu_names(gpus: &[NamedGpu<'_>], shorten: &dyn Fn(&str) -> String) -> Vec<String> {
    let nodes: BTreeSet<_> = gpus.iter().map(|gpu| gpu.node).collect();
    let local = |gpu: &NamedGpu<'_>| Some(format!("{GPU}{}", gpu.index?));
    let by_pod = |gpu: &NamedGpu<'_>| Some(gpu.qualified(shorten));
    let by_node = |gpu: &NamedGpu<'_>| Some(NamedGpu { pod: None, ..*gpu }.qualified(shorten));
    let in_full =
        |gpu: &NamedGpu<'_>| Some(NamedGpu { pod: None, ..*gpu }.qualified(&str::to_owned));
    let by_id = || gpus.iter().map(|gpu| NamedGpu { node: None, pod: None, index: None, ..*gpu });
    let index = if nodes.len() <= 1 { distinct(gpus, &local) } else { None };
    index
        .or_else(|| distinct(gpus, &by_pod))
        .or_else(|| distinct(gpus, &by_node))
        .or_else(|| distinct(gpus, &in_full))
        .or_else(|| distinct(gpus, &with_id(gpus, shorten)))
        .or_else(|| distinct(gpus, &with_id(gpus, &str::to_owned)))
        .unwrap_or_else(|| by_id().map(|gpu| gpu.local(&str::to_owned)).collect())
}

/// Names GPUs by host and index, and those with an index that another one of their host has had by their ID, too: a
/// GPU was replaced, or its host.
fn with_id<'a>(
    gpus: &'a [NamedGpu<'a>],
    shorten: &'a dyn Fn(&str) -> String,
) -> impl Fn(&NamedGpu<'_>) -> Option<String> + 'a {
    let mut uses: BTreeMap<_, usize> = BTreeMap::new();
    gpus.iter().for_each(|gpu| *uses.entry((gpu.node, gpu.index)).or_default() += 1);
    let is_one_host = gpus.iter().map(|gpu| gpu.node).collect::<BTreeSet<_>>().len() <= 1;
    move |gpu| {
        let node = gpu.node.filter(|_| !is_one_host);
        let name = NamedGpu { pod: None, node, ..*gpu }.qualified(shorten);
        let is_shared = uses.get(&(gpu.node, gpu.index)).is_some_and(|uses| *uses > 1);
        let id = Some(shorten(gpu.id)).filter(|_| is_shared && gpu.index.is_some());
        Some(id.map_or(name.clone(), |id| format!("{name} {id}")))
    }
}

/// The names of all GPUs, if each has one of its own.
fn distinct(
    gpus: &[NamedGpu<'_>],
    name: &dyn Fn(&NamedGpu<'_>) -> Option<String>,
) -> Option<Vec<String>> {
    let names: Option<Vec<_>> = gpus.iter().map(name).collect();
    names.filter(|names| names.iter().collect::<BTreeSet<_>>().len() == names.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "GPU-5a9a3bc4-7a6b-4e5b-9d3e-1f2a3b4c5d6e";

    fn gpu<'a>(id: &'a str, index: Option<u32>, node: &'a str, pod: &'a str) -> NamedGpu<'a> {
        let known = |text: &'a str| Some(text).filter(|text| !text.is_empty());
        NamedGpu { id, index, node: known(node), pod: known(pod) }
    }

    fn names(gpus: &[NamedGpu<'_>]) -> Vec<String> {
        gpu_names(gpus, &|text| text.chars().take(12).collect())
    }

    #[test]
    fn gpus_of_one_host_have_their_index() {
        let gpus = [gpu(UUID, Some(0), "node17", "train-0"), gpu("GPU-b", Some(5), "node17", "")];
        assert_eq!(names(&gpus), ["GPU 0", "GPU 5"]);
        assert_eq!(names(&[gpu("0", Some(0), "", "")]), ["GPU 0"]);
    }

    #[test]
    fn gpus_of_several_hosts_have_host_and_index_or_pod() {
        let gpus = [
            gpu(UUID, Some(5), "node17", ""),
            gpu("GPU-b", Some(5), "node18", ""),
            gpu("GPU-c", Some(6), "node18", "train-0"),
        ];
        assert_eq!(names(&gpus), ["node17 GPU 5", "node18 GPU 5", "train-0 GPU 6"]);
        let same_pod = [gpu("a", Some(0), "node17", "train"), gpu("b", Some(0), "node18", "train")];
        assert_eq!(names(&same_pod), ["node17 GPU 0", "node18 GPU 0"], "pods of two namespaces");
        let alike =
            [gpu("a", Some(0), "rack-1-node-17", ""), gpu("b", Some(0), "rack-1-node-18", "")];
        assert_eq!(names(&alike), ["rack-1-node-17 GPU 0", "rack-1-node-18 GPU 0"]);
    }

    #[test]
    fn gpus_with_one_index_after_another_have_their_id_beside_it() {
        let next = "GPU-77777777-7a6b-4e5b-9d3e-1f2a3b4c5d6e";
        let gpus =
            [gpu(UUID, Some(3), "a", ""), gpu(next, Some(3), "a", ""), gpu("x", Some(1), "a", "")];
        assert_eq!(names(&gpus), ["GPU 3 GPU-5a9a3bc4", "GPU 3 GPU-77777777", "GPU 1"]);
        let other = gpu("y", Some(3), "b", "");
        let names = names(&[gpus[0], gpus[1], other]);
        assert_eq!(names, ["a GPU 3 GPU-5a9a3bc4", "a GPU 3 GPU-77777777", "b GPU 3"]);
    }

    #[test]
    fn uuid_is_whole_or_beside_its_host() {
        assert_eq!(names(&[gpu(UUID, None, "", "")]), [UUID]);
        let gpus = [gpu(UUID, None, "node17", ""), gpu("00000000:01:00.0", None, "", "")];
        assert_eq!(names(&gpus), ["node17 GPU-5a9a3bc4", "GPU 00000000:01:00.0"]);
        let alike =
            [gpu("GPU-5a9a3bc4-1", None, "node17", ""), gpu("GPU-5a9a3bc4-2", None, "node17", "")];
        assert_eq!(names(&alike), ["node17 GPU-5a9a3bc4-1", "node17 GPU-5a9a3bc4-2"]);
    }
}
