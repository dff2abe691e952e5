//! The use of a GPU, from the shares of its holders: they add up, unless they are copies of one value.
//!
//! Exporters of time-sliced GPUs that do not measure processes repeat the value of the GPU for each pod. Shares
//! differ sooner or later; copies never do.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::holder::Holder;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::units::{Bytes, Utilization};

use super::holder::ShareKey;
use super::holding::{Used, Uses};
use super::instant::{Instant, is_divisible};
use super::shared::{Comparison, Shared};
use super::value::Value;

/// Number of different values that all holders have had at once, from which on they are copies, unless holders
/// have ever had different ones.
const EQUAL_VALUES: usize = 3;

/// How values of the holders of one GPU make up those of the GPU.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// Whether holders have had different values at an instant.
    have_differed: bool,
    /// Values above zero that all holders had at an instant, up to [`EQUAL_VALUES`].
    equal: BTreeSet<Utilization>,
    /// How often the use of a holder could not be read beside that of others.
    pub(super) unreadable: usize,
    /// Whether shares were added up.
    pub(super) are_added: bool,
}

impl Shares {
    /// Compares the shares of an instant, as far as they have arrived.
    pub(super) fn compare(&mut self, instant: &Instant) {
        if self.have_differed {
            return;
        }
        self.have_differed = instant.memory_used.compare() == Comparison::Different;
        for (_, shared) in &instant.utilization {
            match shared.compare() {
                Comparison::Equal(value) if self.equal.len() < EQUAL_VALUES => {
                    if value > Utilization::ZERO {
                        self.equal.insert(value);
                    }
                }
                Comparison::Different => self.have_differed = true,
                Comparison::Equal(_) | Comparison::None => {}
            }
        }
    }

    /// Whether shares are copies of the value of the GPU.
    fn are_copies(&self) -> bool {
        !self.have_differed && self.equal.len() >= EQUAL_VALUES
    }

    /// The utilization of the GPU, at most 100%; `None` if it has none of this basis, or if a share of it cannot be
    /// read.
    pub(super) fn utilization(&mut self, instant: &Instant, basis: Basis) -> Option<Utilization> {
        let shared = instant.of(basis)?;
        let is_partial = is_divisible(basis) && shared.lacks_any(&instant.missing_shares);
        if is_partial { None } else { self.combined(shared, sum) }
    }

    /// The memory of the GPU in use, at most the total, which is set if it is unknown and follows from what is
    /// used and free. It lacks what the driver reserves.
    pub(super) fn memory_used(
        &mut self,
        instant: &Instant,
        total: &mut Option<Bytes>,
    ) -> Option<Bytes> {
        let sum = |a: Bytes, b: Bytes| Bytes::new(a.get().saturating_add(b.get())).unwrap_or(a);
        let used = self.combined(&instant.memory_used, sum)?;
        // It is unknown yet whether equal values are one.
        let is_certain = instant.memory_used.divided().is_none() || self.have_differed;
        if total.is_none() && is_certain {
            let mut values = instant.values();
            let free = values.find_map(|value| match value {
                Value::MemoryFree(free) => Some(free),
                _ => None,
            });
            *total = free.and_then(|free| Bytes::new(used.get().saturating_add(free.get())));
        }
        Some(total.map_or(used, |total| used.min(total)))
    }

    /// What holders use of the GPU, as far as it can be read; `None` if that is not measured: their values are copies,
    /// or there is only one.
    pub(super) fn uses(&mut self, instant: &Instant) -> Option<Uses> {
        let divided = instant.utilization.iter().filter(|(basis, _)| is_divisible(*basis));
        let mut by_holder: BTreeMap<&Holder, Utilization> = BTreeMap::new();
        for (holder, used) in
            divided.map(|(_, shared)| self.measured(shared)).find(|it| !it.is_empty())?
        {
            let known = by_holder.entry(holder).or_insert(Utilization::ZERO);
            *known = sum(*known, used);
        }
        let uses = by_holder.into_iter();
        let uses = uses.map(|(holder, used)| (holder.clone(), Used::of_gpu(used)));
        let uses: Vec<_> = uses.collect();
        let is_unknown = |key: &&ShareKey| uses.iter().all(|(holder, _)| *holder != key.holder);
        self.unreadable += instant.missing_shares.keys().filter(is_unknown).count();
        Some(uses)
    }

    /// The holders that have memory of their own in use, which only a process has.
    pub(super) fn users_of_memory<'a>(
        &self,
        instant: &'a Instant,
    ) -> impl Iterator<Item = &'a Holder> {
        let measured = self.measured(&instant.memory_used).into_iter();
        measured.filter(|(_, used)| used.get() > 0).map(|(holder, _)| holder)
    }

    /// The shares, if they are measured by holder.
    fn measured<'a, T: Copy + PartialEq>(&self, value: &'a Shared<T>) -> Vec<(&'a Holder, T)> {
        let (shares, has_whole) = value.by_holder();
        let shares: Vec<_> = shares.collect();
        let is_measured = has_whole || shares.len() > 1 && !self.are_copies();
        if is_measured { shares } else { Vec::new() }
    }

    fn combined<T: Copy + PartialEq>(
        &mut self,
        value: &Shared<T>,
        sum: impl Fn(T, T) -> T,
    ) -> Option<T> {
        let Some(mut shares) = value.divided() else { return value.undivided() };
        if self.are_copies() {
            return shares.next();
        }
        self.are_added = true;
        shares.reduce(sum)
    }
}

/// At most 100%.
fn sum(a: Utilization, b: Utilization) -> Utilization {
    Utilization::from_ppm(a.ppm().saturating_add(b.ppm())).unwrap_or(Utilization::FULL)
}
