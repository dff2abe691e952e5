//! The shapes of real workloads: an LLM server and a training loop, at 1, 10 and 100 times the load.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "../../../tests/llm/mod.rs"]
mod llm;

use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, HolderKeys, Limits, Release, SpanCost, SpanKey,
};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{NANOS_PER_SECOND, Nanos, Timestamp};

use crate::llm::llm_requests;

const START: u64 = 1_700_000_000 * NANOS_PER_SECOND;
const GPUS: usize = 2;

fn at(nanos: u64) -> Timestamp {
    Timestamp::from_nanos(START + nanos).unwrap()
}

fn span(id: u64, from: u64, to: u64, weight: Option<f64>) -> ChosenSpan {
    let mut trace = [1; 16];
    trace[..8].copy_from_slice(&id.to_le_bytes());
    let key = SpanKey { trace, span: [2; 8] };
    ChosenSpan {
        key,
        parent: None,
        from: at(from),
        to: Some(at(to)),
        weight,
        adjusted_count: None,
        gpus: GpuSet::All,
    }
}

/// What spans and the rest cost.
struct Metered {
    /// Spans with a cost, and those of them that left before it was final.
    priced: usize,
    left: usize,
    sum: SpanCost,
    unattributed: SpanCost,
    bill: SpanCost,
}

/// Meters `seconds` of GPUs beside these spans.
fn meter(mut spans: Vec<(u64, ChosenSpan)>, seconds: u64) -> Metered {
    spans.sort_by_key(|(end, _)| std::cmp::Reverse(*end));
    let mut attribution = Attribution::new(Limits::default());
    // Costs that differ from second to second.
    let mut state = 7_u64;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % limit
    };
    let (mut sum, mut bill) = (SpanCost::default(), SpanCost::default());
    let (mut priced, mut left) = (0, 0);
    let mut emit = |release| match release {
        Release::Priced((), cost) | Release::Cost(_, cost) => {
            priced += 1;
            sum += cost;
        }
        Release::Unpriced(()) => left += 1,
    };
    for _ in 0..GPUS {
        attribution.add_gpu();
    }
    for second in 0..seconds {
        let now = at((second + 1) * NANOS_PER_SECOND);
        for gpu in 0..GPUS {
            let slice = CostSlice {
                from: at(second * NANOS_PER_SECOND),
                to: now,
                time: Nanos(NANOS_PER_SECOND),
                // About $4 per hour.
                cost: NanoUsd(1_111_111 + i128::from(below(2))),
                weighted: u128::from(below(1_000_000)) * u128::from(NANOS_PER_SECOND),
                is_observed: true,
                energy: u128::from(below(700_000_000)),
            };
            bill += slice.total();
            attribution.charge(gpu, HolderKeys::NOBODY, slice);
        }
        while let Some((_, span)) = spans.pop_if(|(end, _)| at(*end) <= now) {
            attribution.offer(span, (), 500, now, &mut emit).unwrap();
        }
        attribution.advance(now, &mut emit);
    }
    attribution.finish(&mut emit);
    assert_eq!(attribution.attributed(), sum);
    Metered { priced, left, sum, unattributed: attribution.unattributed(), bill }
}

#[test]
fn request_costs_and_unattributed_sum_to_bill_at_any_load() {
    for load in [1, 10, 100] {
        let seconds = 60;
        // One after another, of 2 to 12 s.
        let durations = 2 * NANOS_PER_SECOND..12 * NANOS_PER_SECOND;
        let requests = llm_requests(200 * load, &durations, seconds * NANOS_PER_SECOND);
        let spans = requests
            .iter()
            .zip(0..)
            .map(|(it, id)| (it.to, span(id, it.from, it.to, Some(f64::from(it.tokens)))));
        let spans: Vec<_> = spans.collect();
        let count = spans.len();
        let started = std::time::Instant::now();
        let Metered { priced, left, sum, unattributed, bill } = meter(spans, seconds);
        let took = started.elapsed();
        println!("load {load}: {count} requests, {left} priced after they left, in {took:?}");
        assert_eq!(priced, count);
        let mut all = sum;
        all += unattributed;
        assert_eq!(all, bill, "load {load}");
        assert!(sum.cost > NanoUsd(bill.cost.0 / 2), "most of the cost is that of requests");
        // Of 20,000 at once, 80,000 wait in half a minute, which is more than 64 MiB.
        assert_eq!(left > 0, load == 100, "{left}");
        assert!(left < count / 4, "only what exceeds the limit leaves without its cost: {left}");
    }
}

#[test]
fn step_costs_and_unattributed_sum_to_bill_at_any_rate() {
    for load in [1, 10, 100] {
        // A step of 0.4 s, ten or a hundred times as often, with a pause for the data.
        let (seconds, step, pause) = (120, 400_000_000 / load, 100_000_000 / load);
        let mut spans = Vec::new();
        let mut from = 3 * NANOS_PER_SECOND;
        while from + step < (seconds - 3) * NANOS_PER_SECOND {
            let id = spans.len() as u64;
            spans.push((from + step, span(id, from, from + step, None)));
            from += step + pause;
        }
        let count = spans.len();
        let Metered { priced, left, sum, unattributed, bill } = meter(spans, seconds);
        assert_eq!((priced, left), (count, 0));
        let mut all = sum;
        all += unattributed;
        assert_eq!(all, bill, "load {load}");
        // Alone on the GPUs, a step has all of their time.
        assert_eq!(sum.time.0, count as u64 * step * GPUS as u64);
    }
}
