//! The savings waterfall of one GPU: the remaining bill after each recommendation that counts.
//!
//! Recommendations for one target compete: only the one with the largest expected saving counts. So do
//! those that move the work to other GPUs, whatever their targets. The saving of each waste category
//! is capped by its waste. Several categories combine to at most the sum of their savings, and so to
//! at most all waste, without another cap.

use std::cmp::Reverse;

use super::estimate::Estimate;
use super::fraction::Fraction;
use super::recommendation::{Recommendation, Saving, Target};
use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::price::{PaymentPlan, Price};
use phasemeter_meter::projection::Projection;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::Nanos;
use phasemeter_meter::waste::WasteByCategory;

/// A GPU with a price. Without one there is no bill to save from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PricedGpu<'a> {
    /// Its ID in recommendations.
    pub id: &'a str,
    /// Its current rate.
    pub rate: Rate,
    /// Its bill, observed or not.
    pub bill: NanoUsd,
    /// Its bill at the lowest of the prices that an estimate was selected from; else the same.
    pub lowest_bill: NanoUsd,
    /// Its waste.
    pub waste: WasteByCategory,
    /// Whether tensor activity was measured. Without it the possible throughput gain is unknown.
    pub tensor_measured: bool,
    /// Whether its hours are paid for, used or not. Then using it less frees capacity and no money.
    pub committed: bool,
    /// Whether it was observed for a day. Less does not show which hours of a month are used.
    pub is_day_observed: bool,
}

/// Observed time from which savings are projected to a month.
const MONTH_AFTER: Nanos = Nanos::from_secs(24 * 3_600);

impl<'a> PricedGpu<'a> {
    /// From its summary and its current price; `None` if unpriced.
    #[must_use]
    pub fn new(
        id: &'a str,
        summary: &Summary,
        price: &Price,
        tensor_measured: bool,
    ) -> Option<Self> {
        let (bill, waste) = (summary.accounts.all().cost, summary.waste);
        let lowest =
            price.estimate.and_then(|range| Fraction::of(range.low.hourly(), price.rate.hourly()));
        Some(Self {
            id,
            rate: summary.rate?,
            bill,
            lowest_bill: lowest.map_or(bill, |lowest| lowest.min(Fraction::ONE).part_of(bill)),
            waste,
            tensor_measured,
            committed: price.plan.is_some_and(PaymentPlan::is_committed),
            is_day_observed: summary.accounts.observed().time >= MONTH_AFTER,
        })
    }

    /// Its lowest bill, relative to its bill.
    fn lowest_share(&self) -> Fraction {
        Fraction::of(self.lowest_bill, self.bill).unwrap_or(Fraction::ONE)
    }

    /// A saving in dollars, rounded down.
    #[must_use]
    pub fn usd(&self, saving: Saving) -> Estimate<NanoUsd> {
        usd(saving, self.bill, self.lowest_bill)
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
    /// Its bill at the lowest of the prices that an estimate was selected from; else the same.
    pub lowest_bill: NanoUsd,
    /// The combined saving of all steps per month of 24 × 30 hours, if it is kept; `None` if less than a day was
    /// observed.
    pub monthly_usd: Option<Estimate<NanoUsd>>,
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
        let all = recommendations.iter().filter(|(_, recommendation)| recommendation.is_saving);
        let all = all.map(|(_, recommendation)| recommendation.saving.expected);
        let naive_sum = all.fold(Fraction::ZERO, Fraction::plus);
        let mut steps = Vec::new();
        let mut saved = Saving::default();
        let recommendations = without_alternatives(gpu, recommendations);
        for target in Target::ALL {
            let Some(cap) = gpu.cap(target) else { continue };
            let Some((index, best)) = best(&recommendations, target) else { continue };
            let counted = best.saving.map(|fraction| fraction.min(cap));
            saved = saved.zip(counted, Fraction::and);
            steps.push(Step {
                target,
                recommendation: index,
                promised: best.saving,
                counted,
                fraction: saved,
                usd: gpu.usd(saved),
            });
        }
        let month = Projection::of(gpu.rate.hourly()).monthly;
        let monthly = || usd(saved, month, gpu.lowest_share().part_of(month));
        Self {
            id: gpu.id.to_owned(),
            bill: gpu.bill,
            lowest_bill: gpu.lowest_bill,
            monthly_usd: gpu.is_day_observed.then(monthly),
            steps,
            naive_sum,
        }
    }

    /// A saving in dollars, rounded down.
    pub(super) fn usd(&self, saving: Saving) -> Estimate<NanoUsd> {
        usd(saving, self.bill, self.lowest_bill)
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

/// A saving in dollars, rounded down. An estimated price promises no more than the lowest one.
fn usd(saving: Saving, bill: NanoUsd, lowest_bill: NanoUsd) -> Estimate<NanoUsd> {
    let all = saving.map(|fraction| fraction.part_of(bill));
    Estimate { low: saving.low.part_of(lowest_bill), ..all }
}

type Indexed<'a> = (usize, &'a Recommendation<'a>);

/// The same with at most one that moves the work: of those that would count, the one with the largest expected
/// saving, as far as waste caps it.
fn without_alternatives<'a>(gpu: &PricedGpu<'_>, all: &[Indexed<'a>]) -> Vec<Indexed<'a>> {
    let counting = Target::ALL.into_iter().filter_map(|target| {
        let cap = gpu.cap(target)?;
        let (index, it) = best(all, target)?;
        it.moves_work.then(|| (index, it.saving.expected.min(cap)))
    });
    let kept = counting.rev().max_by_key(|(_, saves)| *saves).map(|(index, _)| index);
    let is_kept = |(index, it): &&Indexed<'a>| !it.moves_work || Some(*index) == kept;
    all.iter().filter(is_kept).copied().collect()
}

/// The recommendation that counts for a target: the largest expected saving; ties go to the first
/// code, then the first policy, then the larger low and high.
fn best<'a>(recommendations: &[Indexed<'a>], target: Target) -> Option<Indexed<'a>> {
    let candidates = recommendations
        .iter()
        .filter(|(_, recommendation)| recommendation.is_saving && recommendation.target == target)
        .copied();
    candidates.min_by_key(|(_, recommendation)| {
        let Saving { low, expected, high } = recommendation.saving;
        (Reverse(expected), recommendation.code, recommendation.policy, Reverse(low), Reverse(high))
    })
}
