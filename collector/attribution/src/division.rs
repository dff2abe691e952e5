//! Divides the time of one GPU, or of a holder's part of it, among spans.

use phasemeter_meter::units::Timestamp;

use crate::candidate::{Candidate, Event};
use crate::cost::{CostSlice, SpanCost};
use crate::sweep::Sweep;

/// What was divided.
#[derive(Debug)]
pub(crate) struct Division {
    /// What each candidate has.
    pub(crate) costs: Vec<SpanCost>,
    /// What the other spans have that candidates represent.
    pub(crate) unsampled: SpanCost,
    /// The slices that no candidate has.
    pub(crate) open: Vec<CostSlice>,
}

/// Divides the slices, which are in time order, among the candidates.
pub(crate) fn divide(slices: &[CostSlice], candidates: &[Candidate]) -> Division {
    let mut events: Vec<Event> = Vec::with_capacity(2 * candidates.len());
    for (index, candidate) in candidates.iter().enumerate() {
        if candidate.from < candidate.to {
            events.push(Event { at: candidate.from, is_start: true, index });
            events.push(Event { at: candidate.to, is_start: false, index });
        }
    }
    events.sort_unstable();
    let mut sweep = Sweep::new(candidates, slices.iter().map(CostSlice::total).sum());
    let mut events = events.into_iter().peekable();
    let mut charged = SpanCost::default();
    let mut open = Vec::new();
    for slice in slices {
        while let Some(event) = events.next_if(|event| event.at <= slice.from) {
            sweep.apply(event);
        }
        if sweep.is_idle() && events.peek().is_none_or(|event| event.at >= slice.to) {
            open.push(*slice);
            continue;
        }
        let mut at = slice.from;
        let mut gaps: Vec<(Timestamp, Timestamp)> = Vec::new();
        let mut density = None;
        while at < slice.to {
            let next = events.peek().map_or(slice.to, |event| event.at.min(slice.to));
            if sweep.is_idle() {
                match gaps.last_mut() {
                    Some((_, to)) if *to == at => *to = next,
                    _ if next > at => gaps.push((at, next)),
                    _ => {}
                }
            } else {
                sweep.advance(slice, next.since(at), &mut density);
            }
            at = next;
            while let Some(event) = events.next_if(|event| event.at <= at && at < slice.to) {
                sweep.apply(event);
            }
        }
        charged += slice.total();
        for (from, to) in gaps {
            let gap = slice.part(from, to);
            charged = charged - gap.total();
            open.push(gap);
        }
    }
    let (costs, unsampled) = sweep.finish(charged);
    Division { costs, unsampled, open }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::money::NanoUsd;
    use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos};

    use super::*;
    use crate::adjusted_count::AdjustedCount;
    use crate::sweep::STEPS;

    fn at(nanos: u64) -> Timestamp {
        Timestamp::from_nanos(nanos).unwrap()
    }

    fn slices(seconds: u64) -> Vec<CostSlice> {
        let slice = |second: u64| CostSlice {
            from: at(second * NANOS_PER_SECOND),
            to: at((second + 1) * NANOS_PER_SECOND),
            time: Nanos(NANOS_PER_SECOND),
            cost: NanoUsd(1_111_111),
            weighted: 700_000 * u128::from(NANOS_PER_SECOND),
            is_observed: !second.is_multiple_of(3),
            energy: 650_000_000,
        };
        (0..seconds).map(slice).collect()
    }

    /// Spans whose starts and ends differ, each almost as long as the time.
    fn candidates(count: u64, seconds: u64) -> Vec<Candidate> {
        let candidate = |index: u64| Candidate {
            from: at(index),
            to: at(seconds * NANOS_PER_SECOND - index),
            rate: index.is_multiple_of(2).then_some(0.5),
            count: AdjustedCount::ONE,
            ancestors: Vec::new(),
        };
        (0..count).map(candidate).collect()
    }

    /// Guarantee: the steps are linear in spans plus slices, and not in their product.
    #[test]
    fn steps_grow_with_spans_and_slices_alone() {
        let steps = |spans: u64, seconds: u64| {
            STEPS.set(0);
            let (slices, candidates) = (slices(seconds), candidates(spans, seconds));
            let Division { costs, open, .. } = divide(&slices, &candidates);
            let mut sum: SpanCost = costs.into_iter().sum();
            sum += open.iter().map(CostSlice::total).sum();
            assert_eq!(sum, slices.iter().map(CostSlice::total).sum());
            STEPS.get()
        };
        for (spans, seconds) in [(10, 3_600), (1_000, 3_600), (4_000, 60), (4_000, 3_600)] {
            let linear = 6 * spans + seconds + 10;
            let steps = steps(spans, seconds);
            assert!(steps <= linear, "{spans} spans, {seconds} slices: {steps} steps");
        }
    }
}
