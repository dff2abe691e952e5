//! The cost of one GPU that no span has yet, by holder: what each pays is divided apart.

use std::collections::BTreeMap;

use phasemeter_meter::units::Timestamp;

use crate::cost::{CostSlice, SpanCost};
use crate::holder_keys::HolderKeys;
use crate::open_cost::OpenCost;

/// The open cost of one GPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuCost {
    /// What each holder pays, and nobody. Without those that have nothing open.
    by_holder: BTreeMap<HolderKeys, OpenCost>,
    /// Everything before is final: the end of the last slice added, unless it was finalized later.
    until: Timestamp,
    /// Up to here, time that has a span has been divided.
    pub(crate) divided_until: Timestamp,
}

impl GpuCost {
    /// Adds the next slice of a holder. Its containers may have one each.
    pub(crate) fn push(&mut self, holder: HolderKeys, slice: CostSlice) {
        self.until = self.until.max(slice.to);
        if slice.total() != SpanCost::default() {
            self.by_holder.entry(holder).or_default().push(slice);
        }
    }

    /// Nothing before this instant is to come.
    pub(crate) fn finalize(&mut self, until: Timestamp) {
        self.until = self.until.max(until);
    }

    /// The end of its time so far.
    pub(crate) const fn until(&self) -> Timestamp {
        self.until
    }

    /// The sum of all.
    pub(crate) fn total(&self) -> SpanCost {
        self.by_holder.values().map(OpenCost::total).sum()
    }

    /// The holders that pay for any of this time that is open.
    pub(crate) fn holders(&self, from: Timestamp, to: Timestamp) -> Vec<HolderKeys> {
        let open = self.by_holder.iter().filter(|(_, cost)| cost.is_open(from, to));
        open.map(|(holder, _)| *holder).collect()
    }

    /// Whether any of this time is open, or still to come: of a holder, or of all.
    pub(crate) fn is_open(
        &self,
        holder: Option<&HolderKeys>,
        from: Timestamp,
        to: Timestamp,
    ) -> bool {
        let is_of = |keys: &HolderKeys| holder.is_none_or(|holder| holder.are_of(keys));
        let mut costs = self.by_holder.iter().filter(|(keys, _)| is_of(keys));
        to > self.until || costs.any(|(_, cost)| cost.is_open(from, to))
    }

    /// What a holder pays that is open.
    pub(crate) fn of_mut(&mut self, holder: HolderKeys) -> &mut OpenCost {
        self.by_holder.entry(holder).or_default()
    }

    /// Removes the slices that end before `at`, and the oldest ones beyond `max`. Returns their sum.
    pub(crate) fn expire(&mut self, at: Timestamp, max: usize) -> SpanCost {
        let mut expired: SpanCost = self.by_holder.values_mut().map(|cost| cost.expire(at)).sum();
        let slices: usize = self.by_holder.values().map(OpenCost::len).sum();
        if let Some(excess) = slices.checked_sub(max).filter(|excess| *excess > 0) {
            // Only divided time expires early: the rest has not been offered to any span.
            let ends = self.by_holder.values().flat_map(|cost| cost.ends().take(excess));
            let mut ends: Vec<_> = ends.filter(|end| *end <= self.divided_until).collect();
            let last = excess.min(ends.len());
            if last > 0 {
                let (_, oldest, _) = ends.select_nth_unstable(last - 1);
                let at = *oldest;
                expired += self.by_holder.values_mut().map(|cost| cost.expire(at)).sum();
            }
        }
        self.by_holder.retain(|_, cost| cost.len() > 0);
        expired
    }
}
