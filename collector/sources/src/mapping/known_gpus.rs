//! The GPUs that points are of: their numbers by name, in the order of first appearance, up to a limit.
//!
//! Labels come from anywhere, and each GPU takes memory for good.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use phasemeter_meter::gpu_specs::driver_name;
use phasemeter_meter::reading::{GpuIdentity, HOST};

use super::identity::GpuLabels;

/// Senders with so many GPUs get none of the last places: more than a host has.
pub(super) const MANY_OF_SENDER: usize = 128;

/// Maximum number of GPUs over the limit that are counted one by one.
const MAX_COUNTED: usize = 65_536;

/// The GPUs that have a number.
#[derive(Debug)]
pub(super) struct KnownGpus {
    limit: usize,
    /// Places that are left to senders with few GPUs.
    reserved: usize,
    /// The number of GPUs by the sender of their first value, as a hash.
    by_sender: HashMap<u64, usize>,
    hasher: RandomState,
    numbers: HashMap<String, usize>,
    identities: Vec<GpuIdentity>,
    over_limit: GpusOverLimit,
}

/// GPUs that are not read, since there was no place for them.
#[derive(Debug, Default)]
pub struct GpusOverLimit {
    names: BTreeSet<String>,
    values: u64,
}

impl GpusOverLimit {
    /// How many there are, up to 65,536.
    #[must_use]
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// The number of their values, which were dropped.
    #[must_use]
    pub const fn values(&self) -> u64 {
        self.values
    }

    /// Counts a value. Returns whether it is the first of its GPU.
    fn add(&mut self, name: String) -> bool {
        self.values += 1;
        self.names.len() < MAX_COUNTED && self.names.insert(name)
    }
}

/// The number of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// It has had this one.
    Known(usize),
    /// From now on it has this one, the next.
    New(usize),
    /// It has none.
    OverLimit {
        /// Whether this is its first value.
        is_first: bool,
    },
}

impl KnownGpus {
    /// No GPUs yet, and at most so many.
    pub(super) fn up_to(limit: usize) -> Self {
        let (by_sender, hasher) = Default::default();
        let (numbers, identities, over_limit) = Default::default();
        Self { limit, reserved: 0, by_sender, hasher, numbers, identities, over_limit }
    }

    /// The last quarter of the places is for senders that have few GPUs: one of many names keeps none of theirs out.
    pub(super) fn with_reserved_places(self) -> Self {
        Self { reserved: self.limit / 4, ..self }
    }

    /// Takes a place for a GPU of this sender; returns whether there was one.
    fn take_place(&mut self, sender: Option<&str>) -> bool {
        let free = self.limit.saturating_sub(self.identities.len());
        let sender = self.hasher.hash_one(sender);
        let of_sender = self.by_sender.get(&sender).copied().unwrap_or_default();
        let is_free = free > self.reserved || free > 0 && of_sender < MANY_OF_SENDER;
        if is_free {
            self.by_sender.insert(sender, of_sender + 1);
        }
        is_free
    }

    /// Whether there is no place for any sender.
    pub(super) fn is_full(&self) -> bool {
        self.identities.len() >= self.limit
    }

    pub(super) fn identities(&self) -> &[GpuIdentity] {
        &self.identities
    }

    pub(super) fn identity_mut(&mut self, gpu: usize) -> Option<&mut GpuIdentity> {
        self.identities.get_mut(gpu)
    }

    pub(super) const fn over_limit(&self) -> &GpusOverLimit {
        &self.over_limit
    }

    /// The number of the GPU with this name, if it has one.
    pub(super) fn number(&self, name: &str) -> Option<usize> {
        self.numbers.get(name).copied()
    }

    /// The number of a GPU, which gets one if it is new, and what its labels add to its identity.
    pub(super) fn note(&mut self, labels: &GpuLabels) -> Number {
        let GpuLabels { id, index, bus_id, model, host, .. } = labels;
        let name = id.name();
        let number = match self.number(&name) {
            Some(gpu) => Number::Known(gpu),
            None if !self.take_place(labels.sender()) => {
                return Number::OverLimit { is_first: self.over_limit.add(name) };
            }
            None => {
                let gpu = self.identities.len();
                self.numbers.insert(name.clone(), gpu);
                let uuid = id.as_uuid().map(str::to_owned);
                self.identities.push(GpuIdentity { name, uuid, ..GpuIdentity::default() });
                Number::New(gpu)
            }
        };
        let (Number::Known(gpu) | Number::New(gpu)) = number else { return number };
        let Some(identity) = self.identities.get_mut(gpu) else { return number };
        if identity.bus_id.is_none() {
            identity.bus_id.clone_from(bus_id);
        }
        let own_index = || id.as_uuid().map_or_else(|| id.id().parse().ok(), |_| None);
        identity.index = identity.index.or(*index).or_else(own_index);
        if identity.model.is_none() {
            identity.model = model.as_deref().map(driver_name).map(str::to_owned);
        }
        if let Some(host) = host
            && !identity.attributes.contains_key(HOST)
        {
            identity.attributes.insert(HOST.to_owned(), host.clone());
        }
        number
    }
}
