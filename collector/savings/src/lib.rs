//! Savings: the combined saving of recommendations from several policies, without double counting.
//!
//! Savings are computed per GPU, and dollars are then summed. Two recommendations for one waste
//! category recover the same waste, so only the larger counts. Different categories are different
//! waste, so each applies to what the ones before leave: 1 − ∏(1 − f). Throughput (if tensor
//! activity was measured) and the rate follow in the same way.
//!
//! [`load`] keeps what a replay needs, from which recommendations that count in dollars are computed.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod coverage;
pub mod estimate;
pub mod fraction;
pub mod load;
pub mod recommendation;
pub mod trial;
pub mod waterfall;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use self::estimate::Estimate;
use self::fraction::Fraction;
use self::recommendation::{Recommendation, Saving, Target};
use self::waterfall::{PricedGpu, Step, Waterfall};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::waste::WasteCategory;

/// The savings of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savings {
    /// Total waste.
    pub waste: NanoUsd,
    /// One waterfall per GPU, in input order.
    pub gpus: Vec<Waterfall>,
    /// The saving of each waste category alone, in the order of [`WasteCategory::ALL`].
    pub by_category: [(WasteCategory, Saved); WasteCategory::ALL.len()],
    /// The combined saving of all waste categories; at most the waste.
    pub utilization: Saved,
    /// The saving of the throughput axis alone.
    pub throughput: Saved,
    /// The saving of the rate axis alone.
    pub rate: Saved,
    /// The combined saving; at most the bill.
    pub total: Saved,
    /// The combined saving per month of 24 × 30 hours of the GPUs that were observed for a day, if they are kept;
    /// `None` if none was.
    pub monthly_usd: Option<Estimate<NanoUsd>>,
    /// Whether any saving was capped.
    pub capped: bool,
    /// Sum of all expected fractions, which may exceed one. Shown for comparison only.
    pub naive_sum: Fraction,
    /// Whether each recommendation saves anything on any GPU, in input order.
    pub counted: Vec<bool>,
}

/// A saving of the bill of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// Indexes of the recommendations that count, ascending.
    pub sources: Vec<usize>,
    /// Sum over GPUs, in dollars.
    pub usd: Estimate<NanoUsd>,
    /// Fraction of the bill of all GPUs, rounded down.
    pub fraction: Saving,
}

impl Savings {
    /// The savings of recommendations on `gpus`, whose IDs are unique. `None` if the bill is zero.
    #[must_use]
    pub fn of(gpus: &[PricedGpu<'_>], recommendations: &[Recommendation<'_>]) -> Option<Self> {
        let fleet = Fleet::of(gpus, recommendations)?;
        let on = |target| fleet.saved(|step| step.target == target, |gpu| gpu.on(target));
        let is_waste = |step: &Step| matches!(step.target, Target::Waste(_));
        let total = fleet.saved(|_| true, Waterfall::total);
        let mut monthly = fleet.gpus.iter().filter_map(|gpu| gpu.monthly_usd).peekable();
        let monthly_usd = monthly.peek().is_some().then(|| sum(monthly));
        let capped = fleet.steps().any(Step::capped);
        Some(Self {
            waste: gpus.iter().map(|gpu| gpu.waste.sum()).sum(),
            by_category: WasteCategory::ALL.map(|category| (category, on(Target::Waste(category)))),
            utilization: fleet.saved(is_waste, Waterfall::utilization),
            throughput: on(Target::Throughput),
            rate: on(Target::Rate),
            monthly_usd,
            capped,
            naive_sum: fleet.mean(|gpu| Estimate::of(gpu.naive_sum)).expected,
            counted: (0..recommendations.len())
                .map(|index| total.sources.binary_search(&index).is_ok())
                .collect(),
            total,
            gpus: fleet.gpus,
        })
    }
}

/// GPUs with a bill.
struct Fleet {
    gpus: Vec<Waterfall>,
    bill: NanoUsd,
}

impl Fleet {
    fn of(gpus: &[PricedGpu<'_>], recommendations: &[Recommendation<'_>]) -> Option<Self> {
        let mut by_gpu: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (index, recommendation) in recommendations.iter().enumerate() {
            for gpu in recommendation.gpus {
                by_gpu.entry(gpu).or_default().push((index, recommendation));
            }
        }
        let for_gpu = |id| by_gpu.get(id).map(Vec::as_slice).unwrap_or_default();
        let bill = gpus.iter().map(|gpu| gpu.bill).sum();
        let gpus = gpus.iter().map(|gpu| Waterfall::of(gpu, for_gpu(gpu.id))).collect();
        (bill > NanoUsd::ZERO).then_some(Self { gpus, bill })
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.gpus.iter().flat_map(|gpu| &gpu.steps)
    }

    /// The saving of the given steps: `fraction` of each GPU's bill.
    fn saved(
        &self,
        steps: impl Fn(&Step) -> bool,
        fraction: impl Fn(&Waterfall) -> Saving,
    ) -> Saved {
        let counted = self.steps().filter(|step| step.saves() && steps(step));
        let sources: BTreeSet<_> = counted.map(|step| step.recommendation).collect();
        let usd = |gpu: &Waterfall| gpu.usd(fraction(gpu));
        Saved {
            sources: sources.into_iter().collect(),
            usd: sum(self.gpus.iter().map(usd)),
            fraction: self.mean(fraction),
        }
    }

    /// The fraction of the fleet's bill, rounded down once.
    fn mean(&self, fraction: impl Fn(&Waterfall) -> Saving) -> Saving {
        let weights = self.gpus.iter().map(|gpu| fraction(gpu).map(|part| part.weight(gpu.bill)));
        let sum =
            weights.fold(Estimate::default(), |sum, weight| sum.zip(weight, i128::saturating_add));
        sum.map(|weight| Fraction::ratio(weight, self.bill).unwrap_or_default())
    }
}

fn sum(all: impl Iterator<Item = Estimate<NanoUsd>>) -> Estimate<NanoUsd> {
    all.fold(Estimate::default(), |sum, each| sum.zip(each, NanoUsd::add))
}
