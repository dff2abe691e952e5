//! The savings waterfall of one GPU: the remaining bill after each recommendation that counts.
//!
//! Recommendations for one target compete: only the one with the largest expected saving counts.
//! The saving of each waste category is capped by its waste. Several categories combine to at most
//! the sum of their savings, and so to at most all waste, without another cap. Must not depend on
//! other GPUs.

use std::cmp::Reverse;

use super::estimate::Estimate;
use super::fraction::Fraction;
use super::recommendation::{Recommendation, Saving, Target};
use crate::money::{NanoUsd, Rate};
use crate::price::Plan;
use crate::summary::Summary;
use crate::waste::WasteByCategory;

/// A GPU with a price. Without one there is no bill to save from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PricedGpu<'a> {
    /// Its ID in recommendations.
    pub id: &'a str,
    /// Its current rate.
    pub rate: Rate,
    /// Its bill, observed or not.
    pub bill: NanoUsd,
    /// Its waste.
    pub waste: WasteByCategory,
    /// Whether tensor activity was measured. Without it the possible throughput gain is unknown.
    pub tensor_measured: bool,
    /// Whether its hours are paid for, used or not. Then using it less frees capacity and no money.
    pub committed: bool,
}

impl<'a> PricedGpu<'a> {
    /// From its summary; `None` if unpriced.
    #[must_use]
    pub fn new(
        id: &'a str,
        summary: &Summary,
        plan: Option<Plan>,
        tensor_measured: bool,
    ) -> Option<Self> {
        let (bill, waste) = (summary.accounts.all().cost, summary.waste);
        let committed = plan.is_some_and(Plan::is_committed);
        Some(Self { id, rate: summary.rate?, bill, waste, tensor_measured, committed })
    }

    /// The maximum saving on a target; `None` if the target does not count.
    fn cap(&self, target: Target) -> Option<Fraction> {
        match target {
            _ if self.committed => None,
            Target::Waste(category) => Fraction::of(self.waste[category], self.bill),
            Target::Throughput => self.tensor_measured.then_some(Fraction::ONE),
            Target::Rate => Some(Fraction::ONE),
        }
    }
}

/// The saving of one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it acts on.
    pub target: Target,
    /// Index of the recommendation that counts.
    pub recommendation: usize,
    /// The saving it claims.
    pub promised: Saving,
    /// The saving that counts: capped by the waste.
    pub counted: Saving,
    /// Combined saving of this and all previous steps.
    pub fraction: Saving,
    /// The same in dollars, rounded down.
    pub usd: Estimate<NanoUsd>,
}

impl Step {
    /// Whether the saving was capped.
    #[must_use]
    pub fn capped(&self) -> bool {
        self.counted != self.promised
    }

    /// Whether it saves anything.
    pub(super) fn saves(&self) -> bool {
        self.counted.high > Fraction::ZERO
    }
}

/// The savings waterfall of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    /// Its ID.
    pub id: String,
    /// Its bill.
    pub bill: NanoUsd,
    /// Its current rate.
    pub rate: Rate,
    /// One step per target with a recommendation, in the order of [`Target::ALL`].
    pub steps: Vec<Step>,
    /// Sum of the expected savings of all its recommendations, for comparison only.
    pub naive_sum: Fraction,
}

impl Waterfall {
    /// `recommendations`: those for this GPU, with their index.
    pub(super) fn of(
        gpu: &PricedGpu<'_>,
        recommendations: &[(usize, &Recommendation<'_>)],
    ) -> Self {
        let mut steps = Vec::new();
        let mut saved = Saving::default();
        for target in Target::ALL {
            let Some(cap) = gpu.cap(target) else { continue };
            let Some((index, best)) = best(recommendations, target) else { continue };
            let counted = best.saving.map(|fraction| fraction.min(cap));
            saved = saved.zip(counted, Fraction::and);
            let usd = saved.map(|fraction| fraction.part_of(gpu.bill));
            let promised = best.saving;
            steps.push(Step {
                target,
                recommendation: index,
                promised,
                counted,
                fraction: saved,
                usd,
            });
        }
        let all = recommendations.iter().filter(|(_, recommendation)| recommendation.is_saving);
        let all = all.map(|(_, recommendation)| recommendation.saving.expected);
        let naive_sum = all.fold(Fraction::ZERO, Fraction::plus);
        Self { id: gpu.id.to_owned(), bill: gpu.bill, rate: gpu.rate, steps, naive_sum }
    }

    /// The saving of one target alone.
    #[must_use]
    pub fn on(&self, target: Target) -> Saving {
        let step = self.steps.iter().find(|step| step.target == target);
        step.map(|step| step.counted).unwrap_or_default()
    }

    /// The combined saving of all waste categories; at most the waste.
    #[must_use]
    pub fn utilization(&self) -> Saving {
        let is_waste = |step: &&Step| matches!(step.target, Target::Waste(_));
        self.steps.iter().rfind(is_waste).map(|step| step.fraction).unwrap_or_default()
    }

    /// The combined saving of all steps.
    #[must_use]
    pub fn total(&self) -> Saving {
        self.steps.last().map(|step| step.fraction).unwrap_or_default()
    }
}

/// The recommendation that counts for a target: the largest expected saving; ties go to the first
/// code, then the first policy, then the larger low and high.
fn best<'a>(
    recommendations: &[(usize, &'a Recommendation<'a>)],
    target: Target,
) -> Option<(usize, &'a Recommendation<'a>)> {
    let candidates = recommendations
        .iter()
        .filter(|(_, recommendation)| recommendation.is_saving && recommendation.target == target)
        .copied();
    candidates.min_by_key(|(_, recommendation)| {
        let Saving { low, expected, high } = recommendation.saving;
        (Reverse(expected), recommendation.code, recommendation.policy, Reverse(low), Reverse(high))
    })
}
