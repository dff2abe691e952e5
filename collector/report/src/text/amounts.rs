//! The bill and its parts as printed: one amount is printed alike in all places, and parts sum to their
//! total.

use phasemeter_meter::money::NanoUsd;

use super::format::Dollars;
use crate::model::{PhaseTotals, Report};
use crate::value::Usd;

/// The bill as printed, split in two ways: by account, and by how much of it was used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bill {
    /// The bill.
    pub(super) total: Dollars,
    /// Idle: the three after it sum to it.
    pub(super) idle: Dollars,
    pub(super) held: Dollars,
    /// The part of it that was allocated and never touched.
    pub(super) never_touched: Dollars,
    pub(super) free: Dollars,
    pub(super) unknown: Dollars,
    pub(super) underutilized: Dollars,
    pub(super) productive: Dollars,
    pub(super) compute_bound: Dollars,
    pub(super) unobserved: Dollars,
    pub(super) utilized: Dollars,
    /// Waste: the three categories sum to it.
    pub(super) waste: Dollars,
    pub(super) starvation: Dollars,
    pub(super) idle_waste: Dollars,
    pub(super) underload: Dollars,
    /// Waste by what is to be done about it: sums to it, too.
    pub(super) coverage: Option<[Dollars; 4]>,
    /// What all recommendations are expected to save together.
    saved: Option<Dollars>,
}

impl Bill {
    /// `None` if no GPU has a price.
    pub(super) fn of(report: &Report) -> Option<Self> {
        let (cost, phases) = (&report.cost, &report.fleet.phases);
        let of = |totals: PhaseTotals| totals.cost_usd.map_or(NanoUsd::ZERO, |Usd(cost)| cost);
        let or_zero = |usd: Option<Usd>| usd.map_or(NanoUsd::ZERO, |Usd(usd)| usd);
        let total = Dollars::of(cost.total_usd?.0);
        let unobserved = or_zero(cost.unobserved_usd);
        let accounts = [phases.idle, phases.underutilized, phases.productive, phases.compute_bound];
        let [idle, underutilized, productive, compute_bound] = accounts.map(of);
        let [idle, underutilized, productive, compute_bound, unobserved] =
            total.split([idle, underutilized, productive, compute_bound, unobserved], &[]);
        let [held, free] =
            [phases.idle_held, phases.idle_free].map(|it| it.map_or(NanoUsd::ZERO, of));
        let [held, free, unknown] = idle.split([held, free, of(phases.idle_unknown)], &[]);
        let untouched = phases.idle_never_touched.map_or(NanoUsd::ZERO, of);
        let rest = held.exact() - untouched;
        let [never_touched, _] = held.split([untouched, rest], &[]);
        let accounts = [idle, underutilized, productive, compute_bound, unobserved];
        let used = [cost.utilized_usd, cost.waste_usd, cost.unobserved_usd].map(or_zero);
        let [utilized, waste, _] = total.split(used, &accounts);
        let categories = cost.waste_by_category_usd;
        let categories =
            [categories.starvation, categories.idle, categories.underload].map(or_zero);
        let [starvation, idle_waste, underload] = waste.split(categories, &accounts);
        let coverage = report.waste_coverage.map(|it| {
            let parts =
                [it.advised_usd, it.trial_usd, it.uncovered_usd, it.minor_usd].map(|Usd(usd)| usd);
            waste.split(parts, &[starvation, idle_waste, underload])
        });
        Some(Self {
            coverage,
            total,
            idle,
            held,
            never_touched,
            free,
            unknown,
            underutilized,
            productive,
            compute_bound,
            unobserved,
            utilized,
            waste,
            starvation,
            idle_waste,
            underload,
            saved: report.savings.as_ref().map(|it| Dollars::of(it.total_usd.expected.0)),
        })
    }

    /// Amounts of one row, all with the decimals of the largest, and as they are printed elsewhere.
    pub(super) fn alike<const N: usize>(
        bill: Option<&Self>,
        amounts: [NanoUsd; N],
    ) -> [Dollars; N] {
        let known = bill.map(Self::all).unwrap_or_default();
        Dollars::alike(amounts).map(|usd| usd.as_among(&known))
    }

    /// An amount as it is printed elsewhere.
    pub(super) fn printed(bill: Option<&Self>, exact: NanoUsd) -> Dollars {
        Dollars::of(exact).as_among(&bill.map(Self::all).unwrap_or_default())
    }

    /// What is named by its amount in other places.
    fn all(&self) -> Vec<Dollars> {
        let parts = [self.total, self.waste, self.starvation, self.idle_waste, self.underload];
        parts.into_iter().chain(self.saved).collect()
    }
}
