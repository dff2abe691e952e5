//! Spans of which a reader can work out the cost.

use phasemeter_attribution::{
    Attribution, ChosenSpan, GpuSet, HolderKeys, Limits, RejectReason, Release, SpanCost,
};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;

use crate::limits;
use crate::script::{
    Outcome, SECONDS, Scripted, ScriptedGpu, TICK, UNDIVIDED, at, chosen, run, slice,
};

fn one_gpu(cost: i128, delay: u64) -> [ScriptedGpu; 1] {
    let seconds = SECONDS as usize;
    [ScriptedGpu { costs: vec![cost; seconds], delay, parts: vec![UNDIVIDED; seconds] }]
}

fn span(id: u8, parent: Option<u8>, from: u64, to: u64, weight: Option<f64>) -> Scripted {
    let arrives = to.div_ceil(TICK);
    let (ends, is_begun, again, chosen) = (true, false, false, true);
    let gpus = vec![0];
    let (threshold, holder) = (None, None);
    Scripted {
        id,
        parent,
        from,
        to,
        ends,
        weight,
        threshold,
        gpus,
        holder,
        is_begun,
        arrives,
        again,
        chosen,
    }
}

fn cost(outcome: &Outcome, id: u8) -> i128 {
    outcome.spans[&id].cost.0
}

#[test]
fn deepest_active_span_is_charged() {
    // An epoch of ten seconds with two steps of three; between them, what is not chosen.
    let mut between = span(2, Some(1), 0, 1_000, None);
    between.chosen = false;
    let spans = [
        span(1, None, 0, 1_000, None),
        between,
        span(3, Some(2), 100, 400, None),
        span(4, Some(1), 500, 800, None),
    ];
    let outcome = run(&one_gpu(1_000, 0), &spans, limits());
    assert_eq!([1, 3, 4].map(|id| cost(&outcome, id)), [4_000, 3_000, 3_000]);
    assert_eq!(outcome.unattributed.cost, NanoUsd(20_000));
}

#[test]
fn weight_is_divided_by_duration() {
    // 100 tokens in one second beside 100 tokens in four: four to one while both are active.
    let spans = [span(1, None, 0, 100, Some(100.0)), span(2, None, 0, 400, Some(100.0))];
    let outcome = run(&one_gpu(1_000, 0), &spans, limits());
    assert_eq!((cost(&outcome, 1), cost(&outcome, 2)), (800, 3_200));
}

#[test]
fn unusable_weights_take_the_mean() {
    for unusable in [None, Some(f64::NAN), Some(-1.0), Some(f64::INFINITY)] {
        let spans = [
            span(1, None, 0, 100, Some(30.0)),
            span(2, None, 0, 100, Some(10.0)),
            span(3, None, 0, 100, unusable),
        ];
        let outcome = run(&one_gpu(600, 0), &spans, limits());
        assert_eq!([1, 2, 3].map(|id| cost(&outcome, id)), [300, 100, 200], "{unusable:?}");
    }
}

/// Scenario: 40 requests every three seconds, of which each takes six; every second one has three times the tokens of
/// the others. A part of them is sampled, by one threshold or two.
/// Guarantee: a sampled request costs what it costs if all are sent, to 1 in 4,000. What the others cost is on its own.
#[test]
fn sampled_span_costs_what_it_costs_beside_all() {
    let request = |id: u8, threshold: Option<&'static str>| {
        let (from, is_large) = (u64::from(id / 40) * 3 * TICK, id.is_multiple_of(2));
        let weight = if is_large { 300.0 } else { 100.0 };
        Scripted { threshold, ..span(id, None, from, from + 6 * TICK, Some(weight)) }
    };
    let run = |spans: &[Scripted]| run(&one_gpu(10_000_000, 0), spans, limits());
    let all: Vec<_> = (0..200).map(|id| request(id, None)).collect();
    let of_all = run(&all);
    assert_eq!(of_all.unsampled, SpanCost::default());
    // The first of each 40, in each part as many large ones as small ones, or each by its own threshold.
    let tenth = |place: u8| (place < 4).then_some("e6666666666668");
    let quarter = |place: u8| (place < 10).then_some("c");
    let mixed = |place: u8| match place % 2 {
        0 => (place < 10).then_some("c"),
        _ => (place < 20).then_some("8"),
    };
    let always = |_| Some("0");
    let samplings: [&dyn Fn(u8) -> Option<&'static str>; 4] = [&tenth, &quarter, &mixed, &always];
    for (sampling, count) in samplings.into_iter().zip([20, 50, 75, 200]) {
        let sampled = (0..200).filter_map(|id| Some(request(id, Some(sampling(id % 40)?))));
        let sampled: Vec<_> = sampled.collect();
        assert_eq!(sampled.len(), count);
        let outcome = run(&sampled);
        for span in &sampled {
            let [expected, found] = [&of_all, &outcome].map(|it| cost(it, span.id) as f64);
            assert!(
                (found - expected).abs() < expected / 4_000.0,
                "{}: {found} {expected}",
                span.id
            );
        }
        assert_eq!(outcome.unattributed, of_all.unattributed);
        let sum = outcome.attributed.cost + outcome.unsampled.cost;
        assert_eq!(sum, of_all.attributed.cost, "to the nano-dollar");
    }
}

#[test]
fn span_that_arrives_late_gets_time_without_a_span() {
    // The epoch arrives long after its step was priced.
    let mut epoch = span(1, None, 0, 500, None);
    epoch.arrives = 20;
    let spans = [epoch, span(2, Some(1), 100, 200, None)];
    let outcome = run(&one_gpu(1_000, 0), &spans, limits());
    assert_eq!((cost(&outcome, 1), cost(&outcome, 2)), (4_000, 1_000));
}

#[test]
fn repeated_span_is_priced_once() {
    let mut step = span(1, None, 0, 100, None);
    step.again = true;
    let outcome = run(&one_gpu(1_000, 0), &[step], limits());
    assert_eq!(cost(&outcome, 1), 1_000);
    assert_eq!(outcome.rejected, [(RejectReason::Duplicate, 1)]);
}

#[test]
fn cost_follows_a_span_that_left_without_it() {
    // Readings of the GPU are five seconds late; spans wait for two.
    let limits = Limits { max_wait: Nanos::from_secs(2), ..limits() };
    let outcome = run(&one_gpu(1_000, 5), &[span(1, None, 0, 150, None)], limits);
    assert_eq!((cost(&outcome, 1), outcome.left_unpriced), (1_500, 1));
}

/// Two GPUs, of which the second one never reports. Returns what leaves after a span of both.
fn beside_silent_gpu(finalize: bool) -> Vec<Release<u8>> {
    let mut attribution = Attribution::new(limits());
    let [first, silent] = [attribution.add_gpu(), attribution.add_gpu()];
    let mut released = Vec::new();
    let gpus = one_gpu(1_000, 0);
    attribution.charge(first, HolderKeys::NOBODY, slice(&gpus[0], 0));
    let both = ChosenSpan { gpus: GpuSet::All, ..chosen(&span(1, None, 0, TICK, None), 2) };
    let offered = attribution.offer(both, 1, 1_000, at(TICK), &mut |it| released.push(it));
    assert_eq!(offered, Ok(()));
    if finalize {
        attribution.finalize(silent, at(TICK));
    }
    attribution.advance(at(10 * TICK), &mut |it| released.push(it));
    released
}

#[test]
fn span_waits_for_a_gpu_until_that_is_finalized() {
    assert_eq!(beside_silent_gpu(false), []);
    let [Release::Priced(1, cost)] = beside_silent_gpu(true)[..] else { panic!() };
    assert_eq!(cost.cost, NanoUsd(1_000));
}

#[test]
fn span_older_than_the_history_is_rejected() {
    let mut attribution = Attribution::new(limits());
    let old = chosen(&span(1, None, 0, TICK, None), 0);
    let now = at(TICK) + limits().history;
    let offered = attribution.offer(old, 1, 1_000, now, &mut |_| panic!("nothing leaves"));
    assert_eq!(offered, Err((RejectReason::Late, 1)));
}

/// Scenario: three spans of a second, of which one fits into the limit.
/// Guarantee: the first one waits and leaves with its cost, the others leave at once and their cost follows.
#[test]
fn span_beyond_the_limit_leaves_at_once_and_those_that_wait_keep_their_place() {
    let mut attribution = Attribution::new(Limits { max_bytes: 1_600, ..limits() });
    let gpu = attribution.add_gpu();
    let mut released = Vec::new();
    for id in 1..4 {
        let span = chosen(&span(id, None, 0, TICK, None), 1);
        let offered = attribution.offer(span, id, 1_000, at(TICK), &mut |it| released.push(it));
        assert_eq!(offered, Ok(()));
        assert!(attribution.bytes() <= 1_600);
    }
    assert_eq!(released, [Release::Unpriced(2), Release::Unpriced(3)]);
    attribution.charge(gpu, HolderKeys::NOBODY, slice(&one_gpu(900, 0)[0], 0));
    attribution.finish(&mut |it| released.push(it));
    let mut costs: Vec<_> = released[2..]
        .iter()
        .map(|release| match release {
            Release::Priced(id, cost) => (*id, true, cost.cost),
            Release::Cost(left, cost) => (left.key.span[0], false, cost.cost),
            Release::Unpriced(_) => panic!("{release:?}"),
        })
        .collect();
    costs.sort_unstable();
    let third = NanoUsd(300);
    assert_eq!(costs, [(1, true, third), (2, false, third), (3, false, third)]);
}

#[test]
fn span_is_a_duplicate_as_long_as_it_waits() {
    let mut attribution = Attribution::new(Limits { max_bytes: usize::MAX, ..limits() });
    let mut offer = |trace: u32| {
        let mut span = chosen(&span(1, None, 0, TICK, None), 0);
        span.key.trace[..4].copy_from_slice(&trace.to_le_bytes());
        attribution.offer(span, 1, 0, at(TICK), &mut |_| panic!("nothing leaves"))
    };
    // More than the links that are remembered.
    (0..140_000).for_each(|trace| assert_eq!(offer(trace), Ok(())));
    assert_eq!(offer(0), Err((RejectReason::Duplicate, 1)));
}

/// Scenario: two pods hold three quarters and a quarter of a GPU. Both have a request of two seconds at once, one of
/// them with a call within; a third second has a request of the first pod and a span of the whole GPU.
/// Guarantee: a request has what its pod pays only, and a span of the GPU shares both.
#[test]
fn span_of_a_holder_shares_what_the_holder_pays() {
    let mut gpus = one_gpu(1_000, 0);
    gpus[0].parts.fill([0, 3, 1, 0]);
    let of = |holder, span: Scripted| Scripted { holder, ..span };
    let spans = [
        of(Some(1), span(1, None, 0, 200, None)),
        of(Some(2), span(2, None, 0, 200, None)),
        of(Some(2), span(3, Some(2), 50, 150, None)),
        of(Some(1), span(4, None, 200, 300, None)),
        of(None, span(5, None, 200, 300, None)),
    ];
    let outcome = run(&gpus, &spans, limits());
    let costs = [1, 2, 3, 4, 5].map(|id| cost(&outcome, id));
    assert_eq!(costs, [1_500, 250, 250, 375, 375 + 250]);
    assert_eq!(outcome.spans[&1].time, Nanos::from_millis(1_500), "time of a whole GPU");
}
