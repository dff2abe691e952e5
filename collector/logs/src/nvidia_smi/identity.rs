//! Compares, finds and merges GPU identities.

use std::collections::HashMap;
use std::hash::Hash;

use phasemeter_meter::reading::GpuIdentity;

/// Whether both are the same GPU, by the most reliable ID that both have: UUID, then PCI bus ID,
/// then index, both within a host. False if they share none.
pub(super) fn same_gpu(a: &GpuIdentity, b: &GpuIdentity) -> bool {
    agree(&a.uuid, &b.uuid)
        .or_else(|| (a.host() != b.host()).then_some(false))
        .or_else(|| agree(&a.bus_id, &b.bus_id))
        .or_else(|| agree(&a.index, &b.index))
        .unwrap_or(false)
}

/// Finds GPUs by ID. Of several GPUs with the same ID, the newest counts: an index may have moved.
#[derive(Debug, Default)]
pub(super) struct IdMap {
    by_uuid: HashMap<String, usize>,
    by_bus_id: HashMap<(Option<String>, String), usize>,
    by_index: HashMap<(Option<String>, u32), usize>,
}

impl IdMap {
    /// Adds the IDs of the GPU at this position of a list.
    pub(super) fn insert(&mut self, position: usize, gpu: &GpuIdentity) {
        if let Some(uuid) = &gpu.uuid {
            insert_newest(&mut self.by_uuid, uuid, position);
        }
        if let Some(bus_id) = &gpu.bus_id {
            insert_newest(&mut self.by_bus_id, &(host(gpu), bus_id.clone()), position);
        }
        if let Some(index) = &gpu.index {
            insert_newest(&mut self.by_index, &(host(gpu), *index), position);
        }
    }

    /// The position of this GPU in the list, whose identities `known` returns.
    pub(super) fn find<'a>(
        &self,
        gpu: &GpuIdentity,
        known: impl Fn(usize) -> Option<&'a GpuIdentity>,
    ) -> Option<usize> {
        let candidates = [
            gpu.uuid.as_ref().and_then(|uuid| self.by_uuid.get(uuid)),
            gpu.bus_id.clone().and_then(|bus_id| self.by_bus_id.get(&(host(gpu), bus_id))),
            gpu.index.and_then(|index| self.by_index.get(&(host(gpu), index))),
        ];
        let is_same = |position: &usize| known(*position).is_some_and(|known| same_gpu(known, gpu));
        candidates.into_iter().flatten().copied().find(is_same)
    }
}

fn host(gpu: &GpuIdentity) -> Option<String> {
    gpu.host().map(str::to_owned)
}

fn insert_newest<K: Clone + Eq + Hash>(map: &mut HashMap<K, usize>, id: &K, position: usize) {
    let newest = map.entry(id.clone()).or_insert(position);
    *newest = position.max(*newest);
}

/// Fills in values that only `other` has; returns whether there were any.
pub(super) fn merge(known: &mut GpuIdentity, other: &GpuIdentity) -> bool {
    let attributes = known.attributes.len();
    for (name, value) in &other.attributes {
        known.attributes.entry(name.clone()).or_insert_with(|| value.clone());
    }
    let added = [
        known.attributes.len() > attributes,
        fill(&mut known.uuid, &other.uuid),
        fill(&mut known.bus_id, &other.bus_id),
        fill(&mut known.index, &other.index),
        fill(&mut known.model, &other.model),
        fill(&mut known.memory_total, &other.memory_total),
        fill(&mut known.power_limit, &other.power_limit),
    ];
    added.contains(&true)
}

fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> Option<bool> {
    Some(a.as_ref()? == b.as_ref()?)
}

fn fill<T: Clone>(known: &mut Option<T>, other: &Option<T>) -> bool {
    let added = known.is_none() && other.is_some();
    if added {
        known.clone_from(other);
    }
    added
}
