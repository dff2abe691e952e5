//! Holders of a GPU as the labels of a point name them, and their parts, if the labels state them.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use phasemeter_meter::holder::{Grant, Holder, Share};
use phasemeter_meter::units::{Bytes, PPM};

use super::names::Names;
use super::smallest::Smallest;

/// A holder of a GPU or of a part of it, by the labels of a point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabeledHolder {
    /// The holder, and the replica that it has of a shared device.
    pub key: ShareKey,
    /// Its part.
    pub part: Part,
}

/// What distinguishes values of one GPU and instant that are parts of one: a holder may have several replicas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShareKey {
    /// The holder.
    pub holder: Holder,
    /// The replica of the device; empty if it has none.
    pub replica: String,
}

impl ShareKey {
    /// The same with the complete name of the holder, if it has another one.
    pub(super) fn complete(&self, names: &Names) -> Option<Self> {
        let holder = names.complete(&self.holder)?.clone();
        Some(Self { holder, replica: self.replica.clone() })
    }
}

/// The part of a GPU that a holder was granted, if labels state it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// They do not: it is the whole GPU, if no other holder has a part.
    #[default]
    Unstated,
    /// One of an unknown number of replicas.
    Replica,
    /// One of this number of replicas.
    ReplicaOf(NonZeroU32),
    /// This part, in ppm.
    Fraction(u32),
    /// As much as this is of the memory.
    Memory(Bytes),
}

impl LabeledHolder {
    /// A holder without a stated part.
    #[must_use]
    pub const fn of(holder: Holder) -> Self {
        Self { key: ShareKey { holder, replica: String::new() }, part: Part::Unstated }
    }
}

/// What each holder of one instant was granted of a GPU with this memory, in the order of their names. `was_shared`: it
/// had several lately, so that one that is alone may have neighbors of which a line is missing.
pub(super) fn grants(
    holders: &Smallest<ShareKey, Part>,
    memory_total: Option<Bytes>,
    was_shared: bool,
) -> Vec<Grant> {
    let mut parts: BTreeMap<&Holder, Vec<Part>> = BTreeMap::new();
    for (ShareKey { holder, .. }, part) in holders.iter() {
        parts.entry(holder).or_default().push(*part);
    }
    for parts in parts.values_mut() {
        // Not all points of a holder need have its replica.
        if parts.iter().any(|part| *part != Part::Unstated) {
            parts.retain(|part| *part != Part::Unstated);
        }
    }
    let is_only = parts.len() == 1;
    let share = |parts: &[Part]| match parts {
        [Part::Unstated] if is_only && !was_shared => Some(Share::WHOLE),
        _ => share_of(parts, memory_total),
    };
    let grants = parts.into_iter().map(|(holder, parts)| (holder.clone(), share(&parts)));
    grants.map(|(holder, share)| Grant { holder, share }).collect()
}

/// The share of a holder with these parts; `None` if any is unknown.
fn share_of(parts: &[Part], memory_total: Option<Bytes>) -> Option<Share> {
    let shares = parts.iter().map(|part| match part {
        Part::Unstated | Part::Replica => None,
        Part::ReplicaOf(replicas) => Share::new(1, replicas.get()),
        Part::Fraction(ppm) => Share::new(*ppm, PPM),
        Part::Memory(granted) => memory_share(*granted, memory_total?),
    });
    let shares = shares.collect::<Option<Vec<Share>>>()?;
    // More than the whole is all of it.
    Some(Share::sum(shares).unwrap_or(Share::WHOLE))
}

/// The part of the memory of a GPU; all of it at most.
pub(super) fn memory_share(granted: Bytes, total: Bytes) -> Option<Share> {
    let ppm = u128::from(granted.get()) * u128::from(PPM);
    let ppm = ppm.checked_div(total.get().into())?.min(u128::from(PPM));
    Share::new(u32::try_from(ppm).ok()?, PPM)
}
