//! The MIG instances of one GPU at one instant, which make up the GPU by their slices.
//!
//! An instance is a part of its GPU, which is billed as a whole: its share is the larger of its compute and memory
//! slices, so that what no other instance can have is its own. Slices left over are idle and nobody's.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Grant, Holder, Share};
use phasemeter_meter::mig::MigLayout;
use phasemeter_meter::reading::{Basis, GpuIdentity};
use phasemeter_meter::units::{Bytes, Utilization};

use super::agreed::{Agreed, Origin};
use super::holder::ShareKey;
use super::holding::{Used, Uses};
use super::identity::MigInstance;
use super::mig_allocations::{HolderPart, MigAllocations, equal_parts};
use super::names::Names;
use super::shared::{Comparison, Shared};
use super::smallest::Smallest;
use super::value::Value;

/// Maximum number of instances at a time: GPUs have at most seven.
const MAX_INSTANCES: usize = 16;

/// The instances, by their IDs, and those that holders were allocated.
#[derive(Clone, Debug, Default)]
pub(super) struct MigInstances {
    instances: BTreeMap<String, Instance>,
    allocated: MigAllocations,
}

/// An instance, and those that hold it.
struct Held<'m> {
    profile: Option<&'m str>,
    /// `None` if it was allocated, and no point is of it.
    instance: Option<&'m Instance>,
    holders: Vec<HolderPart>,
    /// Whether it is known to be theirs, not another one of the same profile.
    is_certain: bool,
}

#[derive(Clone, Debug, Default)]
struct Instance {
    profile: Option<String>,
    holders: Smallest<Holder, ()>,
    utilization: Vec<(Basis, Agreed<Utilization>)>,
    /// Those that were sent in its place, and cannot be read.
    unreadable: Vec<Basis>,
    memory_used: Shared<Bytes>,
    memory_total: Option<Bytes>,
}

impl MigInstances {
    pub(super) fn is_empty(&self) -> bool {
        self.instances.is_empty() && self.allocated.is_empty()
    }

    /// Adds that a holder was allocated an instance with this UUID.
    pub(super) fn allocate(&mut self, instance: &MigInstance, holder: &Holder) {
        self.allocated.add(instance, holder);
    }

    /// Adds that an instance is there, and its holder.
    pub(super) fn note(&mut self, instance: &MigInstance, holder: Option<&Holder>) {
        if self.instances.len() >= MAX_INSTANCES && !self.instances.contains_key(&instance.id) {
            return;
        }
        let known = self.instances.entry(instance.id.clone()).or_default();
        if known.profile.is_none() {
            known.profile.clone_from(&instance.profile);
        }
        if let Some(holder) = holder {
            known.holders.insert(holder);
        }
    }

    /// The holders of instances.
    pub(super) fn named(&self) -> impl Iterator<Item = &Holder> + Clone {
        let of_instances = self.instances.values().flat_map(|it| it.holders.keys());
        of_instances.chain(self.allocated.named())
    }

    /// Completes the names of holders.
    pub(super) fn complete(&mut self, names: &Names) {
        for instance in self.instances.values_mut() {
            instance.holders.rename(|holder| names.complete(holder).cloned(), |(), ()| ());
            instance.holders.take(|holder| names.is_of_any(holder));
            instance.memory_used.complete(names);
        }
        self.allocated.complete(names);
    }

    /// Removes holders of instances.
    pub(super) fn remove_holders(&mut self, is_removed: impl Fn(&Holder) -> bool) {
        for instance in self.instances.values_mut() {
            instance.holders.take(&is_removed);
            instance.memory_used.give_back(&is_removed);
        }
    }

    /// Adds a value of an instance that is there, or the share of a holder of it. Returns how many points are refused,
    /// since they differ.
    pub(super) fn add(
        &mut self,
        id: &str,
        share: Option<&ShareKey>,
        value: Value,
        origin: Origin,
    ) -> u32 {
        let Some(instance) = self.instances.get_mut(id) else { return 0 };
        match value {
            Value::Utilization(basis, used) => {
                let mut all = instance.utilization.iter_mut();
                match all.find(|(known, _)| *known == basis) {
                    Some((_, agreed)) => agreed.add(origin, used),
                    None => {
                        instance.utilization.push((basis, Agreed::new(origin, used)));
                        0
                    }
                }
            }
            Value::MemoryUsed(used) => instance.memory_used.add(share, origin, used),
            Value::MemoryTotal(total) => {
                instance.memory_total = instance.memory_total.max(Some(total));
                0
            }
            _ => 0,
        }
    }

    /// A utilization of an instance was sent that cannot be read.
    pub(super) fn set_unreadable(&mut self, id: &str, basis: Basis) {
        let instance = self.instances.get_mut(id);
        if let Some(instance) = instance.filter(|it| !it.unreadable.contains(&basis)) {
            instance.unreadable.push(basis);
        }
    }

    /// The instances with this utilization.
    pub(super) fn measured(&self, basis: Basis) -> impl Iterator<Item = &String> {
        let all = self.instances.iter();
        all.filter(move |(_, it)| it.used(basis).is_some()).map(|(id, _)| id)
    }

    /// Leaves out the instances that lack this utilization and had it lately. Returns how many are left out.
    pub(super) fn leave_out(&mut self, basis: Basis, had_it: impl Fn(&str) -> bool) -> usize {
        for (id, instance) in &mut self.instances {
            if !instance.unreadable.contains(&basis) && had_it(id) {
                instance.unreadable.push(basis);
            }
        }
        self.instances.values().filter(|it| it.is_left_out(basis)).count()
    }

    /// Whether any instance has this utilization.
    pub(super) fn has_any(&self, basis: Basis) -> bool {
        self.instances.values().any(|it| it.utilization.iter().any(|(known, _)| *known == basis))
    }

    /// The utilization of the GPU: the mean of that of its instances and of slices left over, which are idle, by their
    /// sizes. Instances whose value cannot be read are no part of it. `None` if it is unknown of another one, or of all.
    pub(super) fn utilization(&self, gpu: &GpuIdentity, basis: Basis) -> Option<Utilization> {
        let held = self.held();
        let (weights, all) = weights(&held, gpu)?;
        mean(&held, &weights, all, basis)
    }

    /// The memory in use, of those instances of which it is known.
    pub(super) fn memory_used(&self) -> Option<Bytes> {
        let used = self.instances.values().filter_map(Instance::memory_in_use);
        let sum = used.map(Bytes::get).reduce(u64::saturating_add)?;
        Bytes::new(sum)
    }

    /// What each holder was granted, in the order of their names. An instance without one is a holder by name.
    pub(super) fn grants(&self, gpu: &GpuIdentity) -> Vec<Grant> {
        let held = self.held();
        let weights = weights(&held, gpu);
        let mut parts: BTreeMap<Holder, Vec<Option<Share>>> = BTreeMap::new();
        for (place, it) in held.into_iter().enumerate() {
            for (holder, of) in it.holders {
                let share = weights.as_ref().and_then(|(weights, all)| {
                    let of = all.checked_mul(of)?;
                    Share::reduced((*weights.get(place)?).into(), of.into())
                });
                parts.entry(holder).or_default().push(share);
            }
        }
        let share =
            |parts: Vec<Option<Share>>| Share::sum(parts.into_iter().collect::<Option<Vec<_>>>()?);
        parts.into_iter().map(|(holder, parts)| Grant { holder, share: share(parts) }).collect()
    }

    /// What each holder uses of the GPU; `None` if it is unknown of any instance, or whose an instance is. Holders of
    /// one instance use equal parts. An instance whose value cannot be read is taken to do what the rest of the GPU does:
    /// so the others use what they do without it, and its holder pays for no more than it was granted.
    pub(super) fn uses(&self, gpu: &GpuIdentity, basis: Basis) -> Option<Uses> {
        let held = self.held();
        let (weights, all) = weights(&held, gpu)?;
        let mean = mean(&held, &weights, all, basis)?;
        let mut uses: BTreeMap<Holder, (u32, Option<Utilization>)> = BTreeMap::new();
        for (it, weight) in held.into_iter().zip(weights) {
            let own = it.instance.filter(|_| it.is_certain)?.used(basis);
            let used = u64::from(own.unwrap_or(mean).ppm()) * weight;
            for (holder, of) in it.holders {
                let used = used.checked_div(all.checked_mul(of)?)?;
                let sum = uses.entry(holder).or_default();
                *sum = (sum.0 + u32::try_from(used).ok()?, sum.1.max(own));
            }
        }
        let uses = uses.into_iter().map(|(holder, (ppm, own))| {
            Some((holder, Used { utilization: Utilization::from_ppm(ppm)?, own }))
        });
        uses.collect()
    }

    /// The holders that have memory of their own in use, which only a process has.
    pub(super) fn users_of_memory(&self) -> Vec<Holder> {
        let measured = self.instances.values().map(|it| &it.memory_used).filter(|memory| {
            memory.measured_at(None).is_some() || memory.compare() == Comparison::Different
        });
        let used = measured.flat_map(|memory| memory.by_holder().0);
        used.filter(|(_, used)| used.get() > 0).map(|(holder, _)| holder.clone()).collect()
    }

    /// All instances with their holders. Of those that were allocated, the profile tells which they are.
    fn held(&self) -> Vec<Held<'_>> {
        let free = self.instances.values().filter(|it| it.holders.is_empty());
        let groups = self.allocated.by_profile(free.map(|it| it.profile.as_deref()));
        let mut held = Vec::new();
        for (id, instance) in &self.instances {
            let profile = instance.profile.as_deref();
            let group = groups.get(&profile).filter(|_| instance.holders.is_empty());
            let (holders, is_certain) = match group {
                None => (equal_parts(&instance.holders(id), 1), true),
                Some(group) if group.is_incomplete() => continue,
                Some(group) => (group.holders(), group.is_certain()),
            };
            held.push(Held { profile, instance: Some(instance), holders, is_certain });
        }
        for (profile, group) in groups.iter().filter(|(_, group)| group.is_incomplete()) {
            held.extend(group.each().map(|holders| Held {
                profile: *profile,
                instance: None,
                holders: equal_parts(&holders, 1),
                is_certain: true,
            }));
        }
        held
    }
}

/// See [`MigInstances::utilization`].
fn mean(held: &[Held<'_>], weights: &[u64], all: u64, basis: Basis) -> Option<Utilization> {
    let (mut sum, mut rest) = (None, all);
    for (it, weight) in held.iter().zip(weights) {
        let instance = it.instance?;
        match instance.used(basis) {
            Some(used) => *sum.get_or_insert(0) += u64::from(used.ppm()) * weight,
            None if instance.is_left_out(basis) => rest = rest.saturating_sub(*weight),
            None => return None,
        }
    }
    u32::try_from(sum?.checked_div(rest)?).ok().and_then(Utilization::from_ppm)
}

/// The weight of each instance, and that of the GPU.
fn weights(held: &[Held<'_>], gpu: &GpuIdentity) -> Option<(Vec<u64>, u64)> {
    let layout = gpu.model.as_deref().and_then(MigLayout::of).unwrap_or_else(MigLayout::usual);
    let weight = |it: &Held<'_>| {
        let memory = it.instance.and_then(|it| it.memory_total);
        layout.weight(it.profile, memory.zip(gpu.memory_size()))
    };
    let weights: Vec<u64> = held.iter().map(weight).collect::<Option<_>>()?;
    let all = layout.all(&weights);
    (!weights.is_empty()).then_some((weights, all))
}

impl Instance {
    /// Its memory in use, else the sum of what its holders use. Those that have the same have copies.
    fn memory_in_use(&self) -> Option<Bytes> {
        match self.memory_used.compare() {
            Comparison::Equal(used) => Some(used),
            _ => match self.memory_used.divided() {
                Some(shares) => Bytes::new(shares.map(Bytes::get).reduce(u64::saturating_add)?),
                None => self.memory_used.undivided(),
            },
        }
    }

    fn used(&self, basis: Basis) -> Option<Utilization> {
        let known = self.utilization.iter().find(|(known, _)| *known == basis);
        known.and_then(|(_, agreed)| agreed.get())
    }

    /// Whether it has a utilization that cannot be read.
    fn is_left_out(&self, basis: Basis) -> bool {
        let differs = |(known, _): &(Basis, _)| *known == basis;
        self.used(basis).is_none()
            && (self.unreadable.contains(&basis) || self.utilization.iter().any(differs))
    }

    /// Its holders; itself by name, if a scheduler allocated it to nobody that is known.
    fn holders(&self, id: &str) -> BTreeSet<Holder> {
        if !self.holders.is_empty() {
            return self.holders.keys().cloned().collect();
        }
        let name = ["MIG", self.profile.as_deref().unwrap_or_default(), id];
        let name: Vec<_> = name.into_iter().filter(|part| !part.is_empty()).collect();
        [Holder::Named(name.join(" "))].into()
    }
}
