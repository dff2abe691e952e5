//! MIG instances as they were allocated, by UUID: points of instances have other IDs, so that the profile only tells
//! which one it may be.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::Holder;

use super::identity::MigInstance;
use super::names::Names;
use super::smallest::Smallest;

/// Maximum number of allocated instances at a time: GPUs have at most seven.
const MAX_INSTANCES: usize = 16;

/// The instances that holders were allocated, by UUID.
#[derive(Clone, Debug, Default)]
pub(super) struct MigAllocations(BTreeMap<String, Allocated>);

#[derive(Clone, Debug, Default)]
struct Allocated {
    profile: Option<String>,
    holders: Smallest<Holder, ()>,
}

/// A holder, and how many equal parts an instance has of which it has one.
pub(super) type HolderPart = (Holder, u64);

/// The allocated instances of one profile, and those of it that nobody is known to have.
#[derive(Debug, Default)]
pub(super) struct Candidates<'m> {
    allocated: Vec<&'m Allocated>,
    free: u64,
}

impl MigAllocations {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, instance: &MigInstance, holder: &Holder) {
        if self.0.len() >= MAX_INSTANCES && !self.0.contains_key(&instance.id) {
            return;
        }
        let allocated = self.0.entry(instance.id.clone()).or_default();
        if allocated.profile.is_none() {
            allocated.profile.clone_from(&instance.profile);
        }
        allocated.holders.insert(holder);
    }

    /// The holders of instances.
    pub(super) fn named(&self) -> impl Iterator<Item = &Holder> + Clone {
        self.0.values().flat_map(|it| it.holders.keys())
    }

    /// Completes the names of holders.
    pub(super) fn complete(&mut self, names: &Names) {
        for Allocated { holders, .. } in self.0.values_mut() {
            holders.rename(|holder| names.complete(holder).cloned(), |(), ()| ());
            holders.take(|holder| names.is_of_any(holder));
        }
    }

    /// The allocated instances by profile; `free` are the profiles of those that nobody is known to have.
    pub(super) fn by_profile<'m>(
        &'m self,
        free: impl Iterator<Item = Option<&'m str>>,
    ) -> BTreeMap<Option<&'m str>, Candidates<'m>> {
        let mut all: BTreeMap<_, Candidates<'_>> = BTreeMap::new();
        for allocated in self.0.values() {
            all.entry(allocated.profile.as_deref()).or_default().allocated.push(allocated);
        }
        for profile in free {
            if let Some(candidates) = all.get_mut(&profile) {
                candidates.free += 1;
            }
        }
        all
    }
}

impl Candidates<'_> {
    /// Whether more were allocated than there are points of: then it is unknown which of them those are.
    pub(super) fn is_incomplete(&self) -> bool {
        u64::try_from(self.allocated.len()).map_or(true, |allocated| allocated > self.free)
    }

    /// Whether it is known which instance is whose.
    pub(super) const fn is_certain(&self) -> bool {
        self.free == 1
    }

    /// Those that hold a free instance: each allocated one may be any of them.
    pub(super) fn holders(&self) -> Vec<HolderPart> {
        self.each().flat_map(|of| equal_parts(&of, self.free)).collect()
    }

    /// The holders of each allocated instance.
    pub(super) fn each(&self) -> impl Iterator<Item = BTreeSet<Holder>> {
        self.allocated.iter().map(|it| it.holders.keys().cloned().collect())
    }
}

/// Holders with equal parts of one of so many instances.
pub(super) fn equal_parts(holders: &BTreeSet<Holder>, instances: u64) -> Vec<HolderPart> {
    let of = u64::try_from(holders.len()).unwrap_or(u64::MAX).saturating_mul(instances);
    holders.iter().map(|holder| (holder.clone(), of)).collect()
}
