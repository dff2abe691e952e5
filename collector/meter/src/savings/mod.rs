//! Savings: what advice from many policies saves together, counted so that no dollar is saved
//! twice.
//!
//! All is worked out a GPU, and dollars are then summed. Two levers on one pool recover the same
//! waste, so of them the larger counts; different pools are different waste, so what is left after
//! one is left to the next: 1 − ∏(1 − f). Then the same with throughput, where tensor activity was
//! measured, and with the rate. This room must not know what the advice says in words.

pub mod advice;
pub mod estimate;
pub mod fraction;
pub mod waterfall;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use self::advice::{Advice, Saving, Target};
use self::estimate::Estimate;
use self::fraction::Fraction;
use self::waterfall::{Gpu, Step, Waterfall};
use crate::money::NanoUsd;
use crate::pool::Pool;
use crate::projection::Projection;

/// What a fleet saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Savings {
    /// What there is to save by better use.
    pub waste: NanoUsd,
    /// One a GPU, in the order they were given.
    pub gpus: Vec<Waterfall>,
    /// What each pool saves on its own, in the order of [`Pool::ALL`].
    pub pools: [(Pool, Saved); Pool::ALL.len()],
    /// What all pools save together: never more than the waste.
    pub utilization: Saved,
    /// What the throughput axis saves on its own.
    pub throughput: Saved,
    /// What the rate axis saves on its own.
    pub rate: Saved,
    /// What all of it saves together: never more than the bill.
    pub total: Saved,
    /// The same in a month of 24 × 30 hours, in which every GPU is kept.
    pub monthly_usd: Estimate<NanoUsd>,
    /// Whether any advice promised more than there is to save.
    pub capped: bool,
    /// The expected fractions of all advice, added up: may be more than one. Not used.
    pub naive_sum: Fraction,
    /// Whether each piece of advice saves anything on any GPU, in the order they were given.
    pub counted: Vec<bool>,
}

/// What something saves of the bill of a fleet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    /// The advice that counts: its places in the advice given, rising.
    pub from: Vec<usize>,
    /// The sum over GPUs.
    pub usd: Estimate<NanoUsd>,
    /// Of the bill of all GPUs, rounded down.
    pub fraction: Saving,
}

impl Savings {
    /// What `advice` saves on `gpus`, each of which has a name of its own. `None` where they cost
    /// nothing: there is no bill to save a part of.
    #[must_use]
    pub fn of(gpus: &[Gpu<'_>], advice: &[Advice<'_>]) -> Option<Self> {
        let fleet = Fleet::of(gpus, advice)?;
        let on = |target| fleet.saved(|step| step.target == target, |gpu| gpu.on(target));
        let is_pool = |step: &Step| matches!(step.target, Target::Pool(_));
        let total = fleet.saved(|_| true, Waterfall::total);
        let monthly = |gpu: &Waterfall| {
            let cost = Projection::of(gpu.rate.hourly()).monthly;
            gpu.total().map(|fraction| fraction.part_of(cost))
        };
        let capped = fleet.steps().any(Step::capped);
        Some(Self {
            waste: gpus.iter().map(|gpu| gpu.waste.sum()).sum(),
            pools: Pool::ALL.map(|pool| (pool, on(Target::Pool(pool)))),
            utilization: fleet.saved(is_pool, Waterfall::utilization),
            throughput: on(Target::Throughput),
            rate: on(Target::Rate),
            monthly_usd: sum(fleet.gpus.iter().map(monthly)),
            capped,
            naive_sum: fleet.mean(|gpu| Estimate::of(gpu.naive_sum)).expected,
            counted: (0..advice.len())
                .map(|place| total.from.binary_search(&place).is_ok())
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
    fn of(gpus: &[Gpu<'_>], advice: &[Advice<'_>]) -> Option<Self> {
        let mut naming: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for (place, advice) in advice.iter().enumerate() {
            for gpu in advice.gpus {
                naming.entry(gpu).or_default().push((place, advice));
            }
        }
        let naming = |id| naming.get(id).map(Vec::as_slice).unwrap_or_default();
        let bill = gpus.iter().map(|gpu| gpu.bill).sum();
        let gpus = gpus.iter().map(|gpu| Waterfall::of(gpu, naming(gpu.id))).collect();
        (bill > NanoUsd::ZERO).then_some(Self { gpus, bill })
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.gpus.iter().flat_map(|gpu| &gpu.steps)
    }

    /// What some steps save: `fraction` of each GPU's bill.
    fn saved(
        &self,
        steps: impl Fn(&Step) -> bool,
        fraction: impl Fn(&Waterfall) -> Saving,
    ) -> Saved {
        let counted = self.steps().filter(|step| step.saves() && steps(step));
        let from: BTreeSet<_> = counted.map(|step| step.advice).collect();
        let usd = |gpu: &Waterfall| fraction(gpu).map(|fraction| fraction.part_of(gpu.bill));
        Saved {
            from: from.into_iter().collect(),
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
