//! A pass over the starts and ends of spans, which share the time between two of them.
//!
//! What a unit of weight has received up to an instant is one number for all active spans, as in fair
//! queueing: a span has its weight × the difference between its start and its end. So an event costs the same
//! however many spans are active, and a time slice the same however many spans it is divided among. Amounts
//! are rounded once, at the end.

use phasemeter_meter::apportion::apportion;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;

use crate::adjusted_count::AdjustedCount;
use crate::candidate::{Candidate, Event};
use crate::cost::{CostSlice, SpanCost};

/// The most bits after the point of an amount that is being divided.
const MAX_FRACTION_BITS: u32 = 60;

/// Bits of the sum of whole parts that an amount is divided by.
const PART_BITS: u32 = 62;

/// The largest weight; others are relative to it.
const FULL_WEIGHT: f64 = 4_294_967_296.0;

/// Amounts of observed time, other time, cost, utilized time and energy.
pub(crate) type Amounts = [u128; 5];

fn amounts(of: &SpanCost) -> Amounts {
    let SpanCost { cost, time, observed, weighted, energy } = *of;
    let other = time.0.saturating_sub(observed.0);
    [observed.0.into(), other.into(), cost.0.unsigned_abs(), weighted, energy]
}

fn span_cost([observed, other, cost, weighted, energy]: Amounts) -> SpanCost {
    let nanos = |amount: u128| u64::try_from(amount).unwrap_or(u64::MAX);
    SpanCost {
        cost: NanoUsd(i128::try_from(cost).unwrap_or(i128::MAX)),
        time: Nanos(nanos(observed).saturating_add(nanos(other))),
        observed: Nanos(nanos(observed)),
        weighted,
        energy,
    }
}

/// What a unit of weight, a span without a weight, and any span beside weights of zero have received, each
/// with the fraction bits of its amount, per unit of an [`AdjustedCount`].
#[derive(Clone, Copy, Debug, Default)]
struct Shares {
    per_weight: Amounts,
    by_mean: Amounts,
    by_zero: Amounts,
}

/// A candidate during the sweep.
#[derive(Clone, Debug, Default)]
struct Progress {
    weight: Option<u64>,
    is_active: bool,
    /// Active candidates nested in it.
    nested: u32,
    /// Its place among the leaves.
    leaf: Option<usize>,
    /// What it has, with the fraction bits of each amount, once it has ceased to be a leaf; modulo 2^128 until then.
    exact: Amounts,
}

pub(crate) struct Sweep<'a> {
    candidates: &'a [Candidate],
    progress: Vec<Progress>,
    /// The candidates that are charged: active, with no active one nested in them.
    leaves: Vec<usize>,
    /// The spans that the leaves represent, in units of an [`AdjustedCount`]: all, and those with a weight;
    /// and the sum of their weights.
    counted: u128,
    weighted: u128,
    weights: u128,
    shares: Shares,
    /// What the leaves receive, since they last changed.
    pending: Amounts,
    fraction_bits: [u32; 5],
}

impl<'a> Sweep<'a> {
    /// Of slices with this total, so that no product of an amount and a number of spans exceeds 128 bits.
    pub(crate) fn new(candidates: &'a [Candidate], total: SpanCost) -> Self {
        let rates = candidates.iter().filter_map(|candidate| candidate.rate);
        let max = rates.fold(0.0, f64::max);
        let weight = |candidate: &Candidate| candidate.rate.map(|rate| scaled(rate, max));
        let progress = |candidate| Progress { weight: weight(candidate), ..Progress::default() };
        let free =
            (u128::BITS - 2).saturating_sub(bits(candidates.iter().map(Candidate::units).sum()));
        Self {
            candidates,
            progress: candidates.iter().map(progress).collect(),
            leaves: Vec::new(),
            counted: 0,
            weighted: 0,
            weights: 0,
            shares: Shares::default(),
            pending: Amounts::default(),
            fraction_bits: amounts(&total)
                .map(|amount| free.saturating_sub(bits(amount)).min(MAX_FRACTION_BITS)),
        }
    }

    /// Whether no candidate is active.
    pub(crate) const fn is_idle(&self) -> bool {
        self.leaves.is_empty()
    }

    /// A candidate starts or ends.
    pub(crate) fn apply(&mut self, event: Event) {
        self.settle();
        let Event { index, is_start, .. } = event;
        let candidates = self.candidates;
        self.progress[index].is_active = is_start;
        for &ancestor in &candidates[index].ancestors {
            let nested = &mut self.progress[ancestor].nested;
            *nested = if is_start { *nested + 1 } else { nested.saturating_sub(1) };
            self.update(ancestor);
        }
        self.update(index);
    }

    /// Adds a candidate to the leaves, or removes it, if that has changed.
    fn update(&mut self, index: usize) {
        let Progress { is_active, nested, leaf, weight, .. } = self.progress[index];
        let is_leaf = is_active && nested == 0;
        let units = self.candidates[index].units();
        match leaf {
            None if is_leaf => {
                self.count(index, u128::wrapping_sub);
                self.progress[index].leaf = Some(self.leaves.len());
                self.leaves.push(index);
                self.counted += units;
                if let Some(weight) = weight {
                    self.weighted += units;
                    self.weights += u128::from(weight) * units;
                }
            }
            Some(place) if !is_leaf => {
                self.count(index, u128::wrapping_add);
                self.progress[index].leaf = None;
                self.leaves.swap_remove(place);
                if let Some(&moved) = self.leaves.get(place) {
                    self.progress[moved].leaf = Some(place);
                }
                self.counted -= units;
                if let Some(weight) = weight {
                    self.weighted -= units;
                    self.weights -= u128::from(weight) * units;
                }
            }
            _ => {}
        }
    }

    /// Adds what a candidate would have received since the beginning, or subtracts it: a leaf has the
    /// difference between its end and its start.
    fn count(&mut self, index: usize, change: fn(u128, u128) -> u128) {
        step();
        let Shares { per_weight, by_mean, by_zero } = &self.shares;
        let Progress { weight, exact, .. } = &mut self.progress[index];
        for (amount, exact) in exact.iter_mut().enumerate() {
            let received = match weight {
                Some(weight) => per_weight[amount]
                    .wrapping_mul(u128::from(*weight))
                    .wrapping_add(by_zero[amount]),
                None => by_mean[amount],
            };
            *exact = change(*exact, received << AdjustedCount::UNIT_BITS);
        }
    }

    /// Gives this much of the time of a slice to the leaves. `density` is what a nanosecond of the slice has.
    pub(crate) fn advance(
        &mut self,
        slice: &CostSlice,
        time: Nanos,
        density: &mut Option<Amounts>,
    ) {
        step();
        let total = || {
            let mut total = amounts(&slice.total());
            for (amount, bits) in total.iter_mut().zip(self.fraction_bits) {
                *amount <<= bits;
            }
            total
        };
        let length = slice.length();
        let (part, factor) = if time == length {
            (total(), 1)
        } else {
            let length = u128::from(length.0.max(1));
            (*density.get_or_insert_with(|| total().map(|amount| amount / length)), time.0.into())
        };
        for (pending, part) in self.pending.iter_mut().zip(part) {
            *pending = pending.saturating_add(part.saturating_mul(factor));
        }
    }

    /// Divides what is pending among the leaves, before they change.
    fn settle(&mut self) {
        step();
        let Self { counted, weighted, weights, .. } = *self;
        let Shares { per_weight, by_mean, by_zero } = &mut self.shares;
        for (amount, pending) in self.pending.iter_mut().enumerate() {
            let exact = std::mem::take(pending);
            if exact == 0 || counted == 0 {
                continue;
            }
            if weighted < counted {
                by_mean[amount] = by_mean[amount].saturating_add(exact / counted);
            }
            if weighted > 0 && weights == 0 {
                by_zero[amount] = by_zero[amount].saturating_add(exact / counted);
            } else if weighted > 0 {
                // All without a weight together have the mean weight times their number.
                let part = exact.saturating_mul(weighted) / counted / weights;
                per_weight[amount] = per_weight[amount].saturating_add(part);
            }
        }
    }

    /// What each candidate has of what was charged, and what the spans have that they represent beside
    /// themselves, in whole amounts, by largest remainder.
    pub(crate) fn finish(mut self, charged: SpanCost) -> (Vec<SpanCost>, SpanCost) {
        self.settle();
        for place in 0..self.leaves.len() {
            self.count(self.leaves[place], u128::wrapping_add);
        }
        let of_any = |it: &Progress| it.exact.iter().any(|exact| *exact > 0);
        let indices: Vec<usize> =
            (0..self.progress.len()).filter(|&index| of_any(&self.progress[index])).collect();
        let others = |index: &usize| self.candidates[*index].units() - Candidate::UNITS;
        let mut unsampled = Amounts::default();
        for (amount, total) in amounts(&charged).into_iter().enumerate() {
            let exact = indices.iter().map(|&index| self.progress[index].exact[amount]);
            let of_others =
                indices.iter().zip(exact.clone()).fold(0, |sum: u128, (index, exact)| {
                    sum.saturating_add(
                        exact.saturating_mul(others(index)) >> AdjustedCount::UNIT_BITS,
                    )
                });
            let exact = exact.chain(Some(of_others).filter(|exact| *exact > 0));
            let sum = exact.clone().fold(0, u128::saturating_add);
            let excess = bits(sum).saturating_sub(PART_BITS);
            let parts: Vec<u64> =
                exact.map(|exact| u64::try_from(exact >> excess).unwrap_or_default()).collect();
            // Without any part, the first takes all.
            let shares = apportion(total, &parts);
            let shares = shares.unwrap_or_else(|| vec![total; parts.len().min(1)]);
            unsampled[amount] = shares.get(indices.len()).copied().unwrap_or_default();
            // In place: there may be as many candidates as fit into memory.
            for (&index, share) in indices.iter().zip(shares) {
                self.progress[index].exact[amount] = share;
            }
        }
        (self.progress.iter().map(|it| span_cost(it.exact)).collect(), span_cost(unsampled))
    }
}

/// Counts a step of the sweep, in tests.
#[cfg_attr(not(test), expect(clippy::missing_const_for_fn, reason = "it counts in tests"))]
#[inline]
fn step() {
    #[cfg(test)]
    STEPS.set(STEPS.get() + 1);
}

#[cfg(test)]
thread_local! {
    pub(crate) static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Length of a number in bits.
const fn bits(number: u128) -> u32 {
    u128::BITS - number.leading_zeros()
}

/// A rate relative to the largest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "at most FULL_WEIGHT, and not negative"
)]
fn scaled(rate: f64, max: f64) -> u64 {
    if max > 0.0 { (rate / max * FULL_WEIGHT).round() as u64 } else { 0 }
}
