//! The parts of a GPU: what each of its holders had of it, and what nobody had.
//!
//! Reports have the accounts of holders over their whole time. So a part of it within one day or month has their share
//! by time.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::{Nanos, Timestamp};

use crate::amount::part;
use crate::holder::Holder;
use crate::report::Gpu;

/// A part of a GPU. The parts of a GPU sum to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// Who had it; `None` for what nobody had.
    pub(crate) holder: Option<&'a Holder>,
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// GPU time.
    pub(crate) time: Nanos,
    /// The part of the GPU that was granted, over time.
    pub(crate) granted: Nanos,
    /// Σ utilization × time.
    pub(crate) effective: Nanos,
    pub(crate) cost: NanoUsd,
    pub(crate) utilized: NanoUsd,
    pub(crate) unobserved: NanoUsd,
    /// Granted and not used, and never touched.
    pub(crate) unused: [NanoUsd; 2],
}

/// The parts of a GPU, that of nobody last; none if it was not divided among holders.
pub(crate) fn parts_of(gpu: &Gpu) -> Vec<Part<'_>> {
    let (Some((holders, nobody)), Some(span)) = (gpu.division(), gpu.span()) else {
        return Vec::new();
    };
    let mut parts: Vec<Part<'_>> = holders
        .iter()
        .map(|holder| {
            let [utilized, unused @ ..] = holder.accounts();
            let (start, end) = (holder.start.unwrap_or(span.0), holder.end.unwrap_or(span.1));
            let held = (start.max(span.0), end.min(span.1));
            let (from, to) = if held.0 < held.1 { held } else { span };
            Part {
                holder: Some(holder),
                from,
                to,
                time: holder.time(),
                granted: holder.granted(),
                effective: holder.used_seconds.0,
                cost: holder.cost(),
                utilized,
                unobserved: holder.unobserved(),
                unused,
            }
        })
        .collect();
    let sum = |value: fn(&Part<'_>) -> NanoUsd| parts.iter().map(value).sum::<NanoUsd>();
    let unobserved =
        gpu.periods.iter().map(|period| period.accounts.cost(Account::Unobserved)).sum::<NanoUsd>();
    let unobserved = (unobserved - sum(|part| part.unobserved))
        .clamp(NanoUsd::ZERO, nobody.not_wasted().max(NanoUsd::ZERO));
    let effective: Nanos = gpu.periods.iter().map(|period| period.effective_seconds.0).sum();
    let used: Nanos = parts.iter().map(|part| part.effective).sum();
    parts.push(Part {
        holder: None,
        from: span.0,
        to: span.1,
        time: nobody.seconds.0,
        granted: Nanos::ZERO,
        effective: Nanos(effective.0.saturating_sub(used.0)),
        cost: nobody.cost(),
        utilized: nobody.not_wasted() - unobserved,
        unobserved,
        unused: [NanoUsd::ZERO; 2],
    });
    parts.retain(|part| part.time > Nanos::ZERO || part.cost != NanoUsd::ZERO);
    parts
}

impl Part<'_> {
    /// What of it falls between two instants of its time.
    pub(crate) fn between(self, from: Timestamp, to: Timestamp) -> Self {
        let length = self.to.since(self.from);
        let [begin, end] = [from, to].map(|at| at.since(self.from));
        let money = |NanoUsd(all)| NanoUsd(part(all, begin, end, length));
        let time = |Nanos(all): Nanos| {
            Nanos(u64::try_from(part(all.into(), begin, end, length)).unwrap_or(all))
        };
        // Each amount is rounded, and their sum is the cost.
        let (cost, unused) = (money(self.cost), self.unused.map(money));
        let all_unused = self.unused.into_iter().sum::<NanoUsd>();
        let others = money(self.cost - self.utilized - all_unused);
        Self {
            holder: self.holder,
            from,
            to,
            time: time(self.time),
            granted: time(self.granted),
            effective: time(self.effective),
            cost,
            utilized: cost - unused.into_iter().sum::<NanoUsd>() - others,
            unobserved: money(self.unobserved),
            unused,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Wherever a part is cut, its cost is what it used and what it did not use, to the nano-dollar, and so is the
        /// sum of the ranges.
        #[test]
        fn ranges_of_a_part_add_up(
            costs in prop::array::uniform3(0_i128..10_000_000_000),
            length in 1_u64..100_000,
            cuts in prop::array::uniform2(0_u64..100_000),
        ) {
            let [used, unused, never_touched] = costs.map(NanoUsd);
            let at = |nanos: u64| Timestamp::EPOCH + Nanos(nanos);
            let holder = Holder::default();
            let part = Part {
                holder: Some(&holder),
                from: at(0),
                to: at(length),
                time: Nanos(length),
                granted: Nanos(length),
                effective: Nanos::ZERO,
                cost: used + unused + never_touched,
                utilized: used,
                unobserved: NanoUsd::ZERO,
                unused: [unused, never_touched],
            };
            let mut cuts = cuts.map(|cut| cut % (length + 1));
            cuts.sort_unstable();
            let mut sums = (NanoUsd::ZERO, NanoUsd::ZERO);
            for (from, to) in [(0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], length)] {
                let range = part.between(at(from), at(to));
                prop_assert_eq!(range.utilized + range.unused[0] + range.unused[1], range.cost);
                sums = (sums.0 + range.cost, sums.1 + range.utilized);
            }
            prop_assert_eq!(sums, (part.cost, part.utilized));
        }
    }
}
