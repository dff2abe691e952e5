//! Divides the time of one GPU among spans, in one pass over their starts and ends.
//!
//! What a unit of weight has received up to an instant is one number for all active spans, as in fair
//! queueing: a span has its weight × the difference between its start and its end. So an event costs
//! the same however many spans are active. Must not depend on how spans wait.

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{NANOS_PER_HOUR, Nanos, Timestamp};

use crate::apportion::{apportion, round_up};
use crate::cost::{CostSlice, SpanCost};

/// Bits after the point of time that is being divided.
const FRACTION_BITS: u32 = 60;

/// The largest weight; others are relative to it.
const FULL_WEIGHT: f64 = 4_294_967_296.0;

/// A span that may be active.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) from: Timestamp,
    pub(crate) to: Timestamp,
    /// Weight ÷ duration; `None` if it takes the mean.
    pub(crate) rate: Option<f64>,
    /// Indices of the candidates that it is nested in.
    pub(crate) ancestors: Vec<usize>,
}

/// Divides the slices, which are in time order, among the candidates. Returns what each has, and the
/// slices that no candidate has.
pub(crate) fn divide(
    slices: &[CostSlice],
    candidates: &[Candidate],
) -> (Vec<SpanCost>, Vec<CostSlice>) {
    let mut events: Vec<Event> = Vec::with_capacity(2 * candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.from < candidate.to {
            events.push(Event { at: candidate.from, is_start: true, index });
            events.push(Event { at: candidate.to, is_start: false, index });
        }
    }
    events.sort_unstable();
    let mut sweep = Sweep::new(candidates);
    let mut events = events.into_iter().peekable();
    let mut costs = vec![SpanCost::default(); candidates.len()];
    let mut open = Vec::new();
    for slice in slices {
        while let Some(event) = events.next_if(|event| event.at <= slice.from) {
            sweep.apply(event);
        }
        let mut at = slice.from;
        let mut gaps: Vec<(Timestamp, Timestamp)> = Vec::new();
        while at < slice.to {
            let next = events.peek().map_or(slice.to, |event| event.at.min(slice.to));
            if sweep.leaves.is_empty() {
                match gaps.last_mut() {
                    Some((_, to)) if *to == at => *to = next,
                    _ if next > at => gaps.push((at, next)),
                    _ => {}
                }
            } else {
                sweep.advance(next.since(at));
            }
            at = next;
            while let Some(event) = events.next_if(|event| event.at <= at && at < slice.to) {
                sweep.apply(event);
            }
        }
        sweep.post(slice, &gaps, &mut costs, &mut open);
    }
    (costs, open)
}

/// The start or end of a candidate. Ends precede starts of the same instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Timestamp,
    is_start: bool,
    index: usize,
}

/// What a unit of weight, a span without a weight, and any span beside weights of zero have received, in
/// ns with [`FRACTION_BITS`].
#[derive(Clone, Copy, Debug, Default)]
struct Received {
    per_weight: u128,
    by_mean: u128,
    by_zero: u128,
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
    /// What had been received when it was last counted.
    since: Received,
    /// Its time in the current slice, with [`FRACTION_BITS`].
    time: u128,
    /// Whether it is charged in the current slice.
    is_charged: bool,
}

struct Sweep<'a> {
    candidates: &'a [Candidate],
    progress: Vec<Progress>,
    /// The candidates that are charged: active, with no active one nested in them.
    leaves: Vec<usize>,
    /// Of the leaves: how many have a weight, and the sum of these.
    weighted: u32,
    weights: u128,
    received: Received,
    /// The candidates that are charged in the current slice.
    charged: Vec<usize>,
}

impl<'a> Sweep<'a> {
    fn new(candidates: &'a [Candidate]) -> Self {
        let rates = candidates.iter().filter_map(|candidate| candidate.rate);
        let max = rates.fold(0.0, f64::max);
        let weight = |candidate: &Candidate| candidate.rate.map(|rate| scaled(rate, max));
        let progress = |candidate| Progress { weight: weight(candidate), ..Progress::default() };
        Self {
            candidates,
            progress: candidates.iter().map(progress).collect(),
            leaves: Vec::new(),
            weighted: 0,
            weights: 0,
            received: Received::default(),
            charged: Vec::new(),
        }
    }

    fn apply(&mut self, event: Event) {
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
        match leaf {
            None if is_leaf => {
                self.progress[index].leaf = Some(self.leaves.len());
                self.progress[index].since = self.received;
                self.leaves.push(index);
                if let Some(weight) = weight {
                    self.weighted += 1;
                    self.weights += u128::from(weight);
                }
            }
            Some(place) if !is_leaf => {
                self.count(index);
                self.progress[index].leaf = None;
                self.leaves.swap_remove(place);
                if let Some(&moved) = self.leaves.get(place) {
                    self.progress[moved].leaf = Some(place);
                }
                if let Some(weight) = weight {
                    self.weighted -= 1;
                    self.weights -= u128::from(weight);
                }
            }
            _ => {}
        }
    }

    /// Divides this time among the leaves.
    fn advance(&mut self, time: Nanos) {
        let mut rest = time.0;
        let leaves = self.leaves.len() as u128;
        while rest > 0 {
            // An hour with its fraction has 102 bits.
            let part = rest.min(NANOS_PER_HOUR);
            rest -= part;
            let exact = u128::from(part) << FRACTION_BITS;
            self.received.by_mean += exact / leaves;
            if self.weights == 0 {
                self.received.by_zero += exact / leaves;
            } else {
                // All without a weight together have the mean weight times their number.
                let weighted = u128::from(self.weighted);
                self.received.per_weight += exact * weighted / (leaves * self.weights);
            }
        }
    }

    /// Counts what a leaf has received since it was last counted.
    fn count(&mut self, index: usize) {
        let progress = &mut self.progress[index];
        let (since, now) = (progress.since, self.received);
        progress.time += match progress.weight {
            Some(weight) => {
                u128::from(weight) * (now.per_weight - since.per_weight)
                    + (now.by_zero - since.by_zero)
            }
            None => now.by_mean - since.by_mean,
        };
        progress.since = now;
        if !progress.is_charged {
            progress.is_charged = true;
            self.charged.push(index);
        }
    }

    /// Ends a slice: divides its cost among the charged candidates, and leaves the gaps open.
    fn post(
        &mut self,
        slice: &CostSlice,
        gaps: &[(Timestamp, Timestamp)],
        costs: &mut [SpanCost],
        open: &mut Vec<CostSlice>,
    ) {
        for place in 0..self.leaves.len() {
            self.count(self.leaves[place]);
        }
        let mut rest = slice.total();
        for &(from, to) in gaps {
            let gap = slice.part(from, to);
            rest = rest - gap.total();
            open.push(gap);
        }
        self.charged.sort_unstable();
        let charged = std::mem::take(&mut self.charged);
        let exact = charged.iter().map(|&index| {
            let progress = &mut self.progress[index];
            progress.is_charged = false;
            std::mem::take(&mut progress.time)
        });
        let exact: Vec<u128> = exact.collect();
        if rest.time > Nanos::ZERO {
            divide_slice(&rest, &exact, |place, cost| costs[charged[place]] += cost);
        }
    }
}

/// Divides the cost of one slice in proportion to these times, which have [`FRACTION_BITS`].
fn divide_slice(total: &SpanCost, exact: &[u128], mut emit: impl FnMut(usize, SpanCost)) {
    let mut times: Vec<u128> = exact.iter().map(|time| time >> FRACTION_BITS).collect();
    let fractions: Vec<u128> = exact.iter().map(|time| time & ((1 << FRACTION_BITS) - 1)).collect();
    let missing = u128::from(total.time.0).saturating_sub(times.iter().sum());
    round_up(&mut times, &fractions, missing);
    let times: Vec<u64> =
        times.into_iter().map(|time| u64::try_from(time).unwrap_or(u64::MAX)).collect();
    let costs = apportion(total.cost.0.unsigned_abs(), &times);
    let weighted = apportion(total.weighted, &times);
    let energy = apportion(total.energy, &times);
    let is_observed = total.observed > Nanos::ZERO;
    for (place, &time) in times.iter().enumerate() {
        let cost = NanoUsd(i128::try_from(costs[place]).unwrap_or(i128::MAX));
        let time = Nanos(time);
        let observed = if is_observed { time } else { Nanos::ZERO };
        let (weighted, energy) = (weighted[place], energy[place]);
        emit(place, SpanCost { cost, time, observed, weighted, energy });
    }
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
