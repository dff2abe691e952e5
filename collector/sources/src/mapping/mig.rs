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
use super::identity::MigInstance;
use super::shared::MAX_SHARES;
use super::value::Value;

/// Maximum number of instances at a time: GPUs have at most seven.
const MAX_INSTANCES: usize = 16;

/// The instances, by their IDs.
#[derive(Clone, Debug, Default)]
pub(super) struct MigInstances(BTreeMap<String, Instance>);

#[derive(Clone, Debug, Default)]
struct Instance {
    profile: Option<String>,
    holders: BTreeSet<Holder>,
    utilization: Vec<(Basis, Agreed<Utilization>)>,
    memory_used: Option<Agreed<Bytes>>,
    memory_total: Option<Bytes>,
}

impl MigInstances {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds that an instance is there, and its holder.
    pub(super) fn note(&mut self, instance: &MigInstance, holder: Option<&Holder>) {
        if self.0.len() >= MAX_INSTANCES && !self.0.contains_key(&instance.id) {
            return;
        }
        let known = self.0.entry(instance.id.clone()).or_default();
        if known.profile.is_none() {
            known.profile.clone_from(&instance.profile);
        }
        if let Some(holder) = holder.filter(|_| known.holders.len() < MAX_SHARES)
            && !known.holders.contains(holder)
        {
            known.holders.insert(holder.clone());
        }
    }

    /// Adds a value of an instance that is there. Returns how many points are refused, since they differ.
    pub(super) fn add(&mut self, id: &str, value: Value, origin: Origin) -> u32 {
        let Some(instance) = self.0.get_mut(id) else { return 0 };
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
            Value::MemoryUsed(used) => match &mut instance.memory_used {
                Some(agreed) => agreed.add(origin, used),
                None => {
                    instance.memory_used = Some(Agreed::new(origin, used));
                    0
                }
            },
            Value::MemoryTotal(total) => {
                instance.memory_total = instance.memory_total.max(Some(total));
                0
            }
            _ => 0,
        }
    }

    /// Whether any instance has this utilization.
    pub(super) fn has_any(&self, basis: Basis) -> bool {
        self.0.values().any(|it| it.utilization.iter().any(|(known, _)| *known == basis))
    }

    /// The utilization of the GPU: of each instance in proportion to its share. `None` if it is unknown of any.
    pub(super) fn utilization(&self, gpu: &GpuIdentity, basis: Basis) -> Option<Utilization> {
        let (weights, all) = self.weights(gpu)?;
        let mut sum = 0_u64;
        for (instance, weight) in self.0.values().zip(weights) {
            sum += u64::from(instance.used(basis)?.ppm()) * weight;
        }
        u32::try_from(sum.checked_div(all)?).ok().and_then(Utilization::from_ppm)
    }

    /// The memory in use, of those instances of which it is known.
    pub(super) fn memory_used(&self) -> Option<Bytes> {
        let used = self.0.values().filter_map(|it| it.memory_used.as_ref()?.get());
        let sum = used.map(Bytes::get).reduce(u64::saturating_add)?;
        Bytes::new(sum)
    }

    /// What each holder was granted, in the order of their names. An instance without one is a holder by name.
    pub(super) fn grants(&self, gpu: &GpuIdentity) -> Vec<Grant> {
        let weights = self.weights(gpu);
        let mut parts: BTreeMap<Holder, Vec<Option<Share>>> = BTreeMap::new();
        for (place, (id, instance)) in self.0.iter().enumerate() {
            let holders = instance.holders(id);
            let share = weights.as_ref().and_then(|(weights, all)| {
                let of = all.checked_mul(u64::try_from(holders.len()).ok()?)?;
                Share::reduced((*weights.get(place)?).into(), of.into())
            });
            for holder in holders {
                parts.entry(holder).or_default().push(share);
            }
        }
        let share =
            |parts: Vec<Option<Share>>| Share::sum(parts.into_iter().collect::<Option<Vec<_>>>()?);
        parts.into_iter().map(|(holder, parts)| Grant { holder, share: share(parts) }).collect()
    }

    /// What each holder uses of the GPU; `None` if it is unknown of any instance. Holders of one instance use equal
    /// parts.
    pub(super) fn uses(
        &self,
        gpu: &GpuIdentity,
        basis: Basis,
    ) -> Option<Vec<(Holder, Utilization)>> {
        let (weights, all) = self.weights(gpu)?;
        let mut uses: BTreeMap<Holder, u32> = BTreeMap::new();
        for ((id, instance), weight) in self.0.iter().zip(weights) {
            let holders = instance.holders(id);
            let of = all.checked_mul(u64::try_from(holders.len()).ok()?)?;
            let used = u64::from(instance.used(basis)?.ppm()) * weight;
            let used = u32::try_from(used.checked_div(of)?).ok()?;
            for holder in holders {
                *uses.entry(holder).or_default() += used;
            }
        }
        let uses = uses.into_iter();
        uses.map(|(holder, ppm)| Some((holder, Utilization::from_ppm(ppm)?))).collect()
    }

    /// The holders of instances that are active, which only a process makes them.
    pub(super) fn active(&self) -> Vec<Holder> {
        let is_active = |instance: &&Instance| {
            let mut all = instance.utilization.iter().filter_map(|(_, agreed)| agreed.get());
            all.any(|used| used > Utilization::ZERO)
        };
        let active = self.0.iter().filter(|(_, instance)| is_active(instance));
        active.flat_map(|(id, instance)| instance.holders(id)).collect()
    }

    /// The weight of each instance, and that of the GPU.
    fn weights(&self, gpu: &GpuIdentity) -> Option<(Vec<u64>, u64)> {
        let layout = gpu.model.as_deref().and_then(MigLayout::of).unwrap_or_else(MigLayout::usual);
        let weight = |it: &Instance| {
            layout.weight(it.profile.as_deref(), it.memory_total.zip(gpu.memory_size()))
        };
        let weights: Vec<u64> = self.0.values().map(weight).collect::<Option<_>>()?;
        let all = layout.all(&weights);
        (!weights.is_empty()).then_some((weights, all))
    }
}

impl Instance {
    fn used(&self, basis: Basis) -> Option<Utilization> {
        let known = self.utilization.iter().find(|(known, _)| *known == basis);
        known.and_then(|(_, agreed)| agreed.get())
    }

    /// Its holders; itself by name, if a scheduler allocated it to nobody that is known.
    fn holders(&self, id: &str) -> Vec<Holder> {
        if !self.holders.is_empty() {
            return self.holders.iter().cloned().collect();
        }
        let name = ["MIG", self.profile.as_deref().unwrap_or_default(), id];
        let name: Vec<_> = name.into_iter().filter(|part| !part.is_empty()).collect();
        vec![Holder::Named(name.join(" "))]
    }
}
