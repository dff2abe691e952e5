//! Spans + unattributed = bill, and each span has what hindsight gives it.
//!
//! The oracle decides each millisecond of each GPU by itself, knowing everything that ever arrived. Must
//! not use the division of the crate.

#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::float_cmp)]
#![allow(clippy::cast_sign_loss, clippy::unwrap_used, reason = "a test, with small numbers")]

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_attribution::{
    Attribution, ChosenSpan, CostSlice, GpuSet, Limits, RejectReason, Release, SpanCost, SpanKey,
};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use proptest::prelude::*;

/// One cell of the oracle: 10 ms.
const CELL: u64 = 10_000_000;
/// Cells of a second, the time between two advances.
const TICK: u64 = 100;
const SECONDS: u64 = 30;
const LATENESS: u64 = 3;

fn at(cell: u64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + cell * CELL).unwrap()
}

/// A span of the script, in cells.
#[derive(Clone, Debug)]
struct Scripted {
    id: u8,
    parent: Option<u8>,
    from: u64,
    to: u64,
    ends: bool,
    weight: Option<f64>,
    gpus: Vec<usize>,
    /// Whether its begin is reported, and then its end.
    is_begun: bool,
    /// The tick at which it arrives, and whether it arrives again later.
    arrives: u64,
    again: bool,
    chosen: bool,
}

/// A GPU of the script: nano-dollars per second, and how many seconds its time is late.
#[derive(Clone, Debug)]
struct ScriptedGpu {
    costs: Vec<i128>,
    delay: u64,
}

fn key(id: u8) -> SpanKey {
    SpanKey { trace: [9; 16], span: [id; 8] }
}

fn gpus() -> impl Strategy<Value = Vec<ScriptedGpu>> {
    let gpu = (prop::collection::vec(0..3_000_000_i128, SECONDS as usize), 0..6_u64);
    prop::collection::vec(gpu.prop_map(|(costs, delay)| ScriptedGpu { costs, delay }), 1..4)
}

fn weight() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        Just(None),
        Just(Some(f64::NAN)),
        Just(Some(-3.0)),
        Just(Some(0.0)),
        (1..2_000_u32).prop_map(|tokens| Some(f64::from(tokens))),
    ]
}

fn spans() -> impl Strategy<Value = Vec<Scripted>> {
    let end = SECONDS * TICK;
    let span = (
        (0..end, 1..6 * TICK, 0..8_u64, weight()),
        prop::option::of(any::<u8>()),
        prop::collection::vec(any::<bool>(), 3),
        (0..10_u8, 0..6_u8, 0..4_u8, 0..4_u8),
    );
    prop::collection::vec(span, 0..25).prop_map(move |spans| {
        let spans = spans.into_iter().zip(0_u8..);
        spans
            .map(
                |(
                    ((from, length, late, weight), parent, gpus, (never, again, chosen, begun)),
                    id,
                )| {
                    let to = (from + length).min(end);
                    let gpus: Vec<_> = (0..3).filter(|&gpu| gpus[gpu]).collect();
                    let is_begun = begun == 0 && chosen > 0;
                    Scripted {
                        id,
                        parent: parent.filter(|_| id > 0).map(|parent| parent % id.max(1)),
                        from,
                        to,
                        ends: never > 0,
                        weight: weight.filter(|_| !is_begun),
                        gpus,
                        is_begun,
                        arrives: to.div_ceil(TICK) + if is_begun { 0 } else { late },
                        again: again == 0 && !is_begun,
                        chosen: chosen > 0,
                    }
                },
            )
            .collect()
    })
}

impl Scripted {
    /// The tick at which it becomes known.
    fn known_at(&self) -> u64 {
        if self.is_begun { self.from.div_ceil(TICK).max(1) } else { self.arrives }
    }

    /// Whether it is active, as far as it becomes known at all.
    fn covers(&self, cell: u64) -> bool {
        let ends_later = if self.ends { cell < self.to } else { self.is_begun };
        self.chosen && self.from <= cell && ends_later
    }
}

/// What the product gave each span, and its sums.
struct Outcome {
    spans: BTreeMap<u8, SpanCost>,
    attributed: SpanCost,
    unattributed: SpanCost,
    left_unpriced: usize,
    rejected: Vec<(RejectReason, u8)>,
}

fn chosen(span: &Scripted, gpus: usize) -> ChosenSpan {
    let listed: Vec<_> = span.gpus.iter().copied().filter(|&gpu| gpu < gpus).collect();
    ChosenSpan {
        key: key(span.id),
        parent: span.parent.map(|parent| key(parent).span),
        from: at(span.from),
        to: span.ends.then(|| at(span.to)),
        weight: span.weight,
        gpus: if listed.is_empty() { GpuSet::All } else { GpuSet::Listed(listed.into()) },
    }
}

fn slice(gpu: &ScriptedGpu, second: u64) -> CostSlice {
    let cost = gpu.costs[second as usize];
    CostSlice {
        from: at(second * TICK),
        to: at((second + 1) * TICK),
        cost: NanoUsd(cost),
        weighted: cost.unsigned_abs() * 1_000,
        is_observed: cost % 3 > 0,
        energy: cost.unsigned_abs() / 7,
    }
}

fn run(gpus: &[ScriptedGpu], spans: &[Scripted], limits: Limits) -> Outcome {
    let mut attribution = Attribution::new(limits);
    for _ in gpus {
        attribution.add_gpu();
    }
    let mut released = Vec::new();
    let mut rejected = Vec::new();
    let last = SECONDS + 20;
    for tick in 1..=last {
        let now = at(tick * TICK);
        for (number, gpu) in gpus.iter().enumerate() {
            // The second that becomes final now.
            if let Some(second) = tick.checked_sub(gpu.delay + 1)
                && second < SECONDS
            {
                attribution.charge(number, slice(gpu, second));
            }
        }
        for span in spans.iter().filter(|span| span.is_begun) {
            let begun = ChosenSpan { to: None, ..chosen(span, gpus.len()) };
            if span.known_at() == tick {
                let result = attribution.begin(begun, span.id, 1_000, now);
                rejected.extend(result.err());
            }
            if span.ends && span.arrives == tick {
                attribution.end(key(span.id), at(span.to), now);
            }
        }
        for span in spans.iter().filter(|span| !span.is_begun) {
            let times = [Some(span.arrives), span.again.then_some(span.arrives + 1)];
            for _ in times.into_iter().flatten().filter(|&arrives| arrives == tick) {
                if span.chosen {
                    let chosen = chosen(span, gpus.len());
                    let result =
                        attribution.offer(chosen, span.id, 1_000, now, &mut |it| released.push(it));
                    rejected.extend(result.err());
                    assert!(attribution.bytes() <= limits.max_bytes);
                } else {
                    attribution.note(key(span.id), span.parent.map(|parent| key(parent).span));
                }
            }
        }
        attribution.advance(now, &mut |it| released.push(it));
    }
    attribution.finish(&mut |it| released.push(it));
    assert_eq!(attribution.waiting(), 0);
    assert_eq!(attribution.bytes(), 0);
    assert_eq!(attribution.open(), SpanCost::default());
    let mut spans = BTreeMap::new();
    let mut left = BTreeSet::new();
    for release in released {
        let (id, cost) = match release {
            Release::Priced(id, cost) => (id, cost),
            Release::Unpriced(id) => {
                assert!(left.insert(id), "span {id} left twice");
                continue;
            }
            Release::Cost(span, cost) => {
                let id = span.key.span[0];
                assert!(left.contains(&id), "the cost of span {id} precedes it");
                (id, cost)
            }
        };
        assert!(spans.insert(id, cost).is_none(), "span {id} was priced twice");
    }
    Outcome {
        spans,
        attributed: attribution.attributed(),
        unattributed: attribution.unattributed(),
        left_unpriced: left.len(),
        rejected,
    }
}

/// The spans above this one, as far as known at a tick.
fn ancestors(span: &Scripted, spans: &[Scripted], tick: u64) -> BTreeSet<u8> {
    let mut found = BTreeSet::new();
    let mut parent = span.parent;
    while let Some(id) = parent
        && found.insert(id)
    {
        let Some(next) = spans.iter().find(|other| other.id == id) else { break };
        // The parent of a span is known once the span was received.
        parent = next.parent.filter(|_| next.known_at() <= tick);
    }
    found.remove(&span.id);
    found
}

/// The nano-dollars of each span, in hindsight.
fn hindsight(gpus: &[ScriptedGpu], spans: &[Scripted]) -> (BTreeMap<u8, f64>, f64) {
    let mut costs = BTreeMap::new();
    let mut unattributed = 0.0;
    for (number, gpu) in gpus.iter().enumerate() {
        for cell in 0..SECONDS * TICK {
            let cost = gpu.costs[(cell / TICK) as usize] as f64 / TICK as f64;
            let covering: Vec<_> = spans
                .iter()
                .filter(|span| span.covers(cell))
                .filter(|span| {
                    let listed = span.gpus.iter().any(|&listed| listed < gpus.len());
                    !listed || span.gpus.contains(&number)
                })
                .collect();
            // The first tick at which the cell is final, and the first span has arrived.
            let is_final = (cell / TICK + 1 + gpu.delay).max((cell + 1).div_ceil(TICK) + LATENESS);
            let Some(first) = covering.iter().map(|span| span.known_at()).min() else {
                unattributed += cost;
                continue;
            };
            let tick = is_final.max(first);
            let known: Vec<_> =
                covering.into_iter().filter(|span| span.known_at() <= tick).collect();
            let above: BTreeSet<_> =
                known.iter().flat_map(|span| ancestors(span, spans, tick)).collect();
            let leaves: Vec<_> = known.iter().filter(|span| !above.contains(&span.id)).collect();
            let rate = |span: &Scripted| {
                let weight = span.weight.filter(|weight| *weight >= 0.0)?;
                Some(weight / (span.to - span.from) as f64)
            };
            let rates: Vec<_> = leaves.iter().filter_map(|span| rate(span)).collect();
            let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
            let parts: Vec<_> = leaves.iter().map(|span| rate(span).unwrap_or(mean)).collect();
            let whole: f64 = parts.iter().sum();
            for (span, part) in leaves.iter().zip(parts) {
                let share = if whole > 0.0 { part / whole } else { 1.0 / leaves.len() as f64 };
                *costs.entry(span.id).or_insert(0.0) += cost * share;
            }
        }
    }
    (costs, unattributed)
}

fn bill(gpus: &[ScriptedGpu]) -> SpanCost {
    let slices = gpus.iter().flat_map(|gpu| (0..SECONDS).map(|second| slice(gpu, second)));
    slices.map(|slice| slice.total()).sum()
}

fn limits() -> Limits {
    Limits { allowed_lateness: Nanos::from_secs(LATENESS), ..Limits::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn spans_and_unattributed_sum_to_bill_and_match_hindsight(gpus in gpus(), spans in spans()) {
        let outcome = run(&gpus, &spans, limits());
        let mut sum: SpanCost = outcome.spans.values().copied().sum();
        prop_assert_eq!(sum, outcome.attributed);
        sum += outcome.unattributed;
        prop_assert_eq!(sum, bill(&gpus));
        prop_assert_eq!(outcome.left_unpriced, 0);
        for (reason, id) in &outcome.rejected {
            let is_expected = match reason {
                RejectReason::Duplicate => spans.iter().any(|span| span.id == *id && span.again),
                RejectReason::Late => true,
                RejectReason::NotEnded => spans.iter().any(|span| span.id == *id && !span.ends),
                RejectReason::NoDuration | RejectReason::InFuture | RejectReason::Full => false,
            };
            prop_assert!(is_expected, "span {}: {}", id, reason);
        }
        let (expected, unattributed) = hindsight(&gpus, &spans);
        // A nano-dollar for each second and GPU, and another for a nanosecond of time.
        let slack = 2.0 * (SECONDS as usize * gpus.len()) as f64;
        for span in &spans {
            let actual = outcome.spans.get(&span.id).map_or(0, |cost| cost.cost.0) as f64;
            let expected = expected.get(&span.id).copied().unwrap_or_default();
            prop_assert!((actual - expected).abs() <= slack, "span {}: {} ≠ {}", span.id, actual, expected);
        }
        let actual = outcome.unattributed.cost.0 as f64;
        prop_assert!((actual - unattributed).abs() <= slack * 25.0, "{actual} ≠ {unattributed}");
    }

    #[test]
    fn sums_are_exact_beyond_all_limits(gpus in gpus(), spans in spans()) {
        let limits = Limits {
            max_bytes: 6_000,
            max_wait: Nanos::from_secs(2),
            allowed_lateness: Nanos::from_secs(1),
            history: Nanos::from_secs(4),
            max_open_slices: 3,
        };
        let spans: Vec<_> = spans
            .into_iter()
            // Parents may form a circle.
            .map(|span| Scripted { parent: span.parent.map(|parent| parent ^ 1), ..span })
            .collect();
        let outcome = run(&gpus, &spans, limits);
        let mut sum: SpanCost = outcome.spans.values().copied().sum();
        sum += outcome.unattributed;
        prop_assert_eq!(sum, bill(&gpus));
    }
}

fn one_gpu(cost: i128, delay: u64) -> [ScriptedGpu; 1] {
    [ScriptedGpu { costs: vec![cost; SECONDS as usize], delay }]
}

fn span(id: u8, parent: Option<u8>, from: u64, to: u64, weight: Option<f64>) -> Scripted {
    let arrives = to.div_ceil(TICK);
    let (ends, is_begun, again, chosen) = (true, false, false, true);
    let gpus = vec![0];
    Scripted { id, parent, from, to, ends, weight, gpus, is_begun, arrives, again, chosen }
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
    attribution.charge(first, slice(&gpus[0], 0));
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
