//! Spans and costs of GPUs as scripts, and what the product makes of one.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_attribution::{
    AdjustedCount, Attribution, ChosenSpan, CostSlice, GpuSet, HolderKeys, Limits, RejectReason,
    Release, SpanCost, SpanKey,
};
use phasemeter_meter::apportion::apportion;
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::{Nanos, Timestamp};
use proptest::prelude::*;

/// One cell of the oracle: 10 ms.
pub(crate) const CELL: u64 = 10_000_000;
/// Cells of a second, the time between two advances.
pub(crate) const TICK: u64 = 100;
pub(crate) const SECONDS: u64 = 30;
pub(crate) const LATENESS: u64 = 3;

pub(crate) fn at(cell: u64) -> Timestamp {
    Timestamp::from_nanos(1_700_000_000_000_000_000 + cell * CELL).unwrap()
}

/// A span of the script, in cells.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    pub(crate) id: u8,
    pub(crate) parent: Option<u8>,
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) ends: bool,
    pub(crate) weight: Option<f64>,
    /// Hexadecimal digits of its sampling threshold.
    pub(crate) threshold: Option<&'static str>,
    pub(crate) gpus: Vec<usize>,
    /// Whose span it is: of all of its GPUs, or of what this holder pays of them.
    pub(crate) holder: Option<usize>,
    /// Whether its begin is reported, and then its end.
    pub(crate) is_begun: bool,
    /// The tick at which it arrives, and whether it arrives again later.
    pub(crate) arrives: u64,
    pub(crate) again: bool,
    pub(crate) chosen: bool,
}

/// A GPU of the script: nano-dollars per second, how many seconds its time is late, and how each second is divided.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedGpu {
    pub(crate) costs: Vec<i128>,
    pub(crate) delay: u64,
    /// In proportion to these, of which the first is nobody's.
    pub(crate) parts: Vec<Parts>,
}

/// Nobody, and three holders.
pub(crate) type Parts = [u64; 4];

/// All of it is nobody's.
pub(crate) const UNDIVIDED: Parts = [1, 0, 0, 0];

pub(crate) fn key(id: u8) -> SpanKey {
    SpanKey { trace: [9; 16], span: [id; 8] }
}

/// The keys of a holder: of each place in [`Parts`] but the first.
pub(crate) fn keys(holder: usize) -> HolderKeys {
    if holder == 0 {
        return HolderKeys::NOBODY;
    }
    HolderKeys::new([Some(holder as u64), Some(holder as u64 + 100)])
}

pub(crate) fn gpus() -> impl Strategy<Value = Vec<ScriptedGpu>> {
    let parts = prop_oneof![
        Just(UNDIVIDED),
        Just([0, 1, 0, 0]),
        prop::array::uniform4(prop_oneof![Just(0), 0..1_000_u64]),
    ];
    let gpu = (
        prop::collection::vec(0..3_000_000_i128, SECONDS as usize),
        0..6_u64,
        prop::collection::vec(parts, SECONDS as usize),
    );
    let gpu = gpu.prop_map(|(costs, delay, parts)| ScriptedGpu { costs, delay, parts });
    prop::collection::vec(gpu, 1..4)
}

pub(crate) fn weight() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        Just(None),
        Just(Some(f64::NAN)),
        Just(Some(-3.0)),
        Just(Some(0.0)),
        (1..2_000_u32).prop_map(|tokens| Some(f64::from(tokens))),
    ]
}

/// Most spans are not known to be sampled.
fn threshold() -> impl Strategy<Value = Option<&'static str>> {
    prop_oneof![
        3 => Just(None),
        2 => prop::sample::select(vec!["0", "8", "c", "e", "fa"]).prop_map(Some),
    ]
}

pub(crate) fn spans() -> impl Strategy<Value = Vec<Scripted>> {
    let end = SECONDS * TICK;
    let span = (
        (0..end, 1..6 * TICK, 0..8_u64, weight()),
        prop::option::of(any::<u8>()),
        prop::collection::vec(any::<bool>(), 3),
        (0..10_u8, 0..6_u8, 0..4_u8, 0..4_u8, threshold()),
        prop::option::of(1..4_usize),
    );
    prop::collection::vec(span, 0..25).prop_map(move |spans| {
        let spans = spans.into_iter().zip(0_u8..);
        spans
            .map(
                |(
                    (
                        (from, length, late, weight),
                        parent,
                        gpus,
                        (never, again, chosen, begun, threshold),
                        holder,
                    ),
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
                        threshold,
                        gpus,
                        holder,
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
    pub(crate) fn known_at(&self) -> u64 {
        if self.is_begun { self.from.div_ceil(TICK).max(1) } else { self.arrives }
    }

    /// How many spans it represents.
    pub(crate) fn count(&self) -> f64 {
        match self.threshold {
            Some(digits) => {
                let all = 1_u64 << (4 * digits.len());
                all as f64 / (all - u64::from_str_radix(digits, 16).unwrap()) as f64
            }
            None => 1.0,
        }
    }

    /// Whether it is active, as far as it becomes known at all.
    pub(crate) fn covers(&self, cell: u64) -> bool {
        let ends_later = if self.ends { cell < self.to } else { self.is_begun };
        self.chosen && self.from <= cell && ends_later
    }
}

/// What the product gave each span, and its sums.
pub(crate) struct Outcome {
    pub(crate) spans: BTreeMap<u8, SpanCost>,
    pub(crate) attributed: SpanCost,
    pub(crate) unsampled: SpanCost,
    pub(crate) unattributed: SpanCost,
    pub(crate) left_unpriced: usize,
    pub(crate) rejected: Vec<(RejectReason, u8)>,
}

pub(crate) fn chosen(span: &Scripted, gpus: usize) -> ChosenSpan {
    let listed: Vec<_> = span.gpus.iter().copied().filter(|&gpu| gpu < gpus).collect();
    let held = |holder: usize| {
        let of = if listed.is_empty() { (0..gpus).collect() } else { listed.clone() };
        // Either of its keys is enough.
        let either = [[Some(holder as u64), None], [Some(99), Some(holder as u64 + 100)]];
        GpuSet::held(of.into(), HolderKeys::new(either[usize::from(span.id % 2)]))
    };
    let of_all = || match listed.is_empty() {
        true => GpuSet::All,
        false => GpuSet::listed(listed.clone().into()),
    };
    ChosenSpan {
        key: key(span.id),
        parent: span.parent.map(|parent| key(parent).span),
        from: at(span.from),
        to: span.ends.then(|| at(span.to)),
        weight: span.weight,
        adjusted_count: span
            .threshold
            .map(|digits| AdjustedCount::from_trace_state(&format!("ot=th:{digits}")).unwrap()),
        gpus: span.holder.map_or_else(of_all, held),
    }
}

pub(crate) fn slice(gpu: &ScriptedGpu, second: u64) -> CostSlice {
    let cost = gpu.costs[second as usize];
    CostSlice {
        from: at(second * TICK),
        to: at((second + 1) * TICK),
        time: Nanos(TICK * CELL),
        cost: NanoUsd(cost),
        weighted: cost.unsigned_abs() * 1_000,
        is_observed: cost % 3 > 0,
        energy: cost.unsigned_abs() / 7,
    }
}

/// What each pays for a second.
pub(crate) fn shares(gpu: &ScriptedGpu, second: u64) -> Vec<(usize, CostSlice)> {
    let whole = slice(gpu, second);
    let parts = gpu.parts[second as usize];
    let divide = |total: u128| apportion(total, &parts).unwrap_or_else(|| vec![total, 0, 0, 0]);
    let [cost, time, weighted, energy] =
        [whole.cost.0.unsigned_abs(), whole.time.0.into(), whole.weighted, whole.energy]
            .map(divide);
    let share = |holder: usize| {
        let slice = CostSlice {
            cost: NanoUsd(cost[holder] as i128),
            time: Nanos(time[holder] as u64),
            weighted: weighted[holder],
            energy: energy[holder],
            ..whole
        };
        (holder, slice)
    };
    (0..parts.len()).map(share).collect()
}

pub(crate) fn run(gpus: &[ScriptedGpu], spans: &[Scripted], limits: Limits) -> Outcome {
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
                for (holder, share) in shares(gpu, second) {
                    attribution.charge(number, keys(holder), share);
                }
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
        unsampled: attribution.unsampled(),
        unattributed: attribution.unattributed(),
        left_unpriced: left.len(),
        rejected,
    }
}

pub(crate) fn bill(gpus: &[ScriptedGpu]) -> SpanCost {
    let slices = gpus.iter().flat_map(|gpu| (0..SECONDS).map(|second| slice(gpu, second)));
    slices.map(|slice| slice.total()).sum()
}
