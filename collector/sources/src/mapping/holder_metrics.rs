//! Metrics of the parts of a GPU that holders have, apart from those of the GPU: what each was granted and what it
//! uses.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::{Grant, Holder, Share};
use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::units::{Bytes, PPM, Utilization};

use super::holder::{ShareKey, memory_share};
use super::holding::{Used, Uses};
use super::names::Names;
use super::smallest::Smallest;

/// What a metric states about the holder that its labels name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderMetric {
    /// The part of the GPU that it was granted; zero if only its memory is limited.
    Share,
    /// The memory that it was granted.
    MemoryShare,
    /// The part of the GPU's utilization that is its own.
    Utilization,
    /// Its memory in use.
    MemoryUsed,
}

impl HolderMetric {
    /// Their names in mapping files.
    const ALL: [(&'static str, Self); 4] = [
        ("holder_share", Self::Share),
        ("holder_memory_share", Self::MemoryShare),
        ("holder_utilization", Self::Utilization),
        ("holder_memory_used", Self::MemoryUsed),
    ];

    pub(super) fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|(name, _)| *name)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, metric)| *metric)
    }

    /// The quantity of a GPU with the same unit and range.
    pub(super) const fn quantity(self) -> Quantity {
        match self {
            Self::Share | Self::Utilization => Quantity::SmActivity,
            Self::MemoryShare | Self::MemoryUsed => Quantity::MemoryUsed,
        }
    }

    /// The value of a number in the unit of its quantity; `None` if it is out of range.
    pub(super) fn value(self, number: f64) -> Option<HolderValue> {
        let share = || self.quantity().admit_nearest(number).and_then(Utilization::from_ppm);
        let bytes = || self.quantity().admit_nearest(number).and_then(Bytes::new);
        Some(match self {
            Self::Share => HolderValue::Share(share()?),
            Self::MemoryShare => HolderValue::MemoryShare(bytes()?),
            Self::Utilization => HolderValue::Utilization(share()?),
            Self::MemoryUsed => HolderValue::MemoryUsed(bytes()?),
        })
    }
}

/// A value of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderValue {
    /// The part of the GPU that it was granted; zero if only its memory is limited.
    Share(Utilization),
    /// The memory that it was granted.
    MemoryShare(Bytes),
    /// The part of the GPU's utilization that is its own.
    Utilization(Utilization),
    /// Its memory in use.
    MemoryUsed(Bytes),
}

/// Values by what has them: holder, rank of the metric, and replica.
type Parts = Smallest<(Holder, i32, String), u64>;

/// The values of the holders of one GPU at one instant. Those of replicas add up; of several metrics, and of several
/// values of one replica, the largest counts.
#[derive(Clone, Debug, Default)]
pub(super) struct HolderMetrics {
    shares: Parts,
    memory_shares: Parts,
    utilization: Parts,
    users_of_memory: Smallest<Holder, ()>,
}

impl HolderMetrics {
    pub(super) fn add(
        &mut self,
        ShareKey { holder, replica }: &ShareKey,
        rank: i32,
        value: HolderValue,
    ) {
        let (parts, value) = match value {
            HolderValue::Share(share) => (&mut self.shares, share.ppm().into()),
            HolderValue::MemoryShare(memory) => (&mut self.memory_shares, memory.get()),
            HolderValue::Utilization(used) => (&mut self.utilization, used.ppm().into()),
            HolderValue::MemoryUsed(used) => {
                if used.get() > 0 {
                    self.users_of_memory.insert(holder);
                }
                return;
            }
        };
        let key = (holder.clone(), rank, replica.clone());
        parts.upsert(&key, || value, |known| *known = value.max(*known));
    }

    /// The holders that it has values of.
    pub(super) fn named(&self) -> impl Iterator<Item = &Holder> + Clone {
        let parts = [&self.shares, &self.memory_shares, &self.utilization];
        let of_parts = parts.into_iter().flat_map(|parts| parts.keys().map(|(holder, ..)| holder));
        of_parts.chain(self.users_of_memory.keys())
    }

    /// Completes the names of holders.
    pub(super) fn complete(&mut self, names: &Names) {
        for parts in [&mut self.shares, &mut self.memory_shares, &mut self.utilization] {
            let complete = |(holder, rank, replica): &(Holder, i32, String)| {
                Some((names.complete(holder)?.clone(), *rank, replica.clone()))
            };
            parts.rename(complete, |known, value| *known = value.max(*known));
        }
        self.users_of_memory.rename(|holder| names.complete(holder).cloned(), |(), ()| ());
    }

    pub(super) fn is_empty(&self) -> bool {
        let parts = [&self.shares, &self.memory_shares, &self.utilization];
        parts.into_iter().all(Smallest::is_empty) && self.users_of_memory.is_empty()
    }

    /// What each was granted: the larger one of its part of the GPU and of its memory. `None` if no metric states it.
    pub(super) fn grants(&self, memory_total: Option<Bytes>) -> Option<Vec<Grant>> {
        let (shares, memory) = (by_holder(&self.shares), by_holder(&self.memory_shares));
        let holders: BTreeSet<&Holder> = shares.keys().chain(memory.keys()).copied().collect();
        let grant = |holder: &Holder| {
            let ppm = shares.get(holder).map(|ppm| (*ppm).min(PPM.into()));
            let memory = memory.get(holder).and_then(|memory| Bytes::new(*memory));
            let memory = memory.zip(memory_total);
            let memory = memory.and_then(|(memory, total)| memory_share(memory, total));
            let ppm = ppm.max(memory.map(|share| share.ratio().0.into()));
            let share = ppm.and_then(|ppm| u32::try_from(ppm).ok()).filter(|ppm| *ppm > 0);
            let share = share.and_then(|ppm| Share::new(ppm, PPM));
            Grant { holder: holder.clone(), share }
        };
        let grants: Vec<Grant> = holders.into_iter().map(grant).collect();
        (!grants.is_empty()).then_some(grants)
    }

    /// What each uses; `None` if no metric states it.
    pub(super) fn uses(&self) -> Option<Uses> {
        let uses = by_holder(&self.utilization).into_iter().map(|(holder, ppm)| {
            let ppm = u32::try_from(ppm).ok().and_then(Utilization::from_ppm);
            (holder.clone(), Used::of_gpu(ppm.unwrap_or(Utilization::FULL)))
        });
        (!self.utilization.is_empty()).then(|| uses.collect())
    }

    /// Those with memory in use, which only a process has.
    pub(super) fn users_of_memory(&self) -> impl Iterator<Item = &Holder> {
        self.users_of_memory.keys()
    }
}

/// The sum of each holder's replicas, by the metric with the largest.
fn by_holder(parts: &Parts) -> BTreeMap<&Holder, u64> {
    let mut sums: BTreeMap<(&Holder, i32), u64> = BTreeMap::new();
    for ((holder, rank, _), value) in parts.iter() {
        let sum = sums.entry((holder, *rank)).or_default();
        *sum = sum.saturating_add(*value);
    }
    let mut largest = BTreeMap::new();
    for ((holder, _), sum) in sums {
        let known = largest.entry(holder).or_default();
        *known = sum.max(*known);
    }
    largest
}
