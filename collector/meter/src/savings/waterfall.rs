//! The savings of one GPU, step by step: what is left of its bill after each piece of advice that
//! counts.
//!
//! Advice on one target competes: the largest expected saving counts, whole and alone. Each pool
//! is capped by its own waste, and what several pools save together is never more than the sum of
//! what each does: so all of them stay below all waste without another cap. This room must not
//! know of other GPUs.

use std::cmp::Reverse;

use super::advice::{Advice, Saving, Target};
use super::estimate::Estimate;
use super::fraction::Fraction;
use crate::money::{NanoUsd, Rate};
use crate::pool::Pools;
use crate::summary::Summary;

/// A GPU whose bill could be smaller. One without a price has no bill to save a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu<'a> {
    /// Its name in advice.
    pub id: &'a str,
    /// What it costs now.
    pub rate: Rate,
    /// What it cost, observed or not.
    pub bill: NanoUsd,
    /// What of that was wasted.
    pub waste: Pools,
    /// Whether the activity of its tensor cores was measured. Without that nobody knows what
    /// throughput there is to gain.
    pub tensor_measured: bool,
}

impl<'a> Gpu<'a> {
    /// From what is known of it; `None` where it has no price.
    #[must_use]
    pub fn new(id: &'a str, summary: &Summary, tensor_measured: bool) -> Option<Self> {
        let bill = summary.accounts.all().cost;
        Some(Self { id, rate: summary.rate?, bill, waste: summary.pools, tensor_measured })
    }

    /// The most that can be saved on a target; `None` where it is not counted at all.
    fn cap(&self, target: Target) -> Option<Fraction> {
        match target {
            Target::Pool(pool) => Fraction::of(self.waste[pool], self.bill),
            Target::Throughput => self.tensor_measured.then_some(Fraction::ONE),
            Target::Rate => Some(Fraction::ONE),
        }
    }
}

/// What the advice on one target adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it acts on.
    pub target: Target,
    /// Which advice counts: its place in the advice given.
    pub advice: usize,
    /// What that promises.
    pub promised: Saving,
    /// What of it counts: at most the waste that there is.
    pub counted: Saving,
    /// What this step and those before it save of the bill.
    pub fraction: Saving,
    /// The same in dollars, each rounded down.
    pub usd: Estimate<NanoUsd>,
}

impl Step {
    /// Whether more was promised than there is to save.
    #[must_use]
    pub fn capped(&self) -> bool {
        self.counted != self.promised
    }

    /// Whether anything was saved at all.
    pub(super) fn saves(&self) -> bool {
        self.counted.high > Fraction::ZERO
    }
}

/// The savings of one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waterfall {
    /// The GPU.
    pub gpu: String,
    /// What it cost.
    pub bill: NanoUsd,
    /// What it costs now.
    pub rate: Rate,
    /// One step for each target with advice, in the order of [`Target::ALL`].
    pub steps: Vec<Step>,
    /// The expected savings of all its advice, added up as if each saved on its own. Not used:
    /// beside the total it shows what that would have claimed.
    pub naive_sum: Fraction,
}

impl Waterfall {
    /// `advice`: what names this GPU, each with its place in the advice given.
    pub(super) fn of(gpu: &Gpu<'_>, advice: &[(usize, &Advice<'_>)]) -> Self {
        let mut steps = Vec::new();
        let mut saved = Saving::default();
        for target in Target::ALL {
            let Some(cap) = gpu.cap(target) else { continue };
            let Some((place, best)) = best(advice, target) else { continue };
            let counted = best.saving.map(|fraction| fraction.min(cap));
            saved = saved.zip(counted, Fraction::and);
            let usd = saved.map(|fraction| fraction.part_of(gpu.bill));
            let promised = best.saving;
            steps.push(Step { target, advice: place, promised, counted, fraction: saved, usd });
        }
        let all = advice.iter().map(|(_, advice)| advice.saving.expected);
        let naive_sum = all.fold(Fraction::ZERO, Fraction::plus);
        Self { gpu: gpu.id.to_owned(), bill: gpu.bill, rate: gpu.rate, steps, naive_sum }
    }

    /// What one target saves of the bill on its own.
    #[must_use]
    pub fn on(&self, target: Target) -> Saving {
        let step = self.steps.iter().find(|step| step.target == target);
        step.map(|step| step.counted).unwrap_or_default()
    }

    /// What all pools save of the bill together: never more than the waste.
    #[must_use]
    pub fn utilization(&self) -> Saving {
        let pools = |step: &&Step| matches!(step.target, Target::Pool(_));
        self.steps.iter().rfind(pools).map(|step| step.fraction).unwrap_or_default()
    }

    /// What all steps save of the bill together.
    #[must_use]
    pub fn total(&self) -> Saving {
        self.steps.last().map(|step| step.fraction).unwrap_or_default()
    }
}

/// The advice on a target that counts: the largest expected saving; of equals the first code, then
/// the first policy, then the largest at worst and at best.
fn best<'a>(advice: &[(usize, &'a Advice<'a>)], target: Target) -> Option<(usize, &'a Advice<'a>)> {
    let candidates = advice.iter().filter(|(_, advice)| advice.target == target).copied();
    candidates.min_by_key(|(_, advice)| {
        let Saving { low, expected, high } = advice.saving;
        (Reverse(expected), advice.code, advice.policy, Reverse(low), Reverse(high))
    })
}
