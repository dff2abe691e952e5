//! The oracle: decides each cell of each holder's part of each GPU by itself, knowing everything that ever arrived.
//!
//! Must not use the division of the crate.

use std::collections::{BTreeMap, BTreeSet};

use crate::script::{LATENESS, SECONDS, Scripted, ScriptedGpu, TICK, shares};

/// The spans above this one, as far as known at a tick.
pub(crate) fn ancestors(span: &Scripted, spans: &[Scripted], tick: u64) -> BTreeSet<u8> {
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

/// The nano-dollars of each span, of spans that were not sampled, and of none, in hindsight.
pub(crate) fn hindsight(gpus: &[ScriptedGpu], spans: &[Scripted]) -> (BTreeMap<u8, f64>, [f64; 2]) {
    let mut costs = BTreeMap::new();
    let [mut unsampled, mut unattributed] = [0.0; 2];
    for (number, gpu) in gpus.iter().enumerate() {
        for cell in 0..SECONDS * TICK {
            for (holder, share) in shares(gpu, cell / TICK) {
                let cost = share.cost.0 as f64 / TICK as f64;
                let covering: Vec<_> = spans
                    .iter()
                    .filter(|span| span.covers(cell))
                    .filter(|span| span.holder.is_none_or(|own| own == holder))
                    .filter(|span| {
                        let listed = span.gpus.iter().any(|&listed| listed < gpus.len());
                        !listed || span.gpus.contains(&number)
                    })
                    .collect();
                // The first tick at which the cell is final, and the first span has arrived.
                let is_final =
                    (cell / TICK + 1 + gpu.delay).max((cell + 1).div_ceil(TICK) + LATENESS);
                let Some(first) = covering.iter().map(|span| span.known_at()).min() else {
                    unattributed += cost;
                    continue;
                };
                let tick = is_final.max(first);
                let known: Vec<_> =
                    covering.into_iter().filter(|span| span.known_at() <= tick).collect();
                let above: BTreeSet<_> =
                    known.iter().flat_map(|span| ancestors(span, spans, tick)).collect();
                let leaves: Vec<_> =
                    known.iter().filter(|span| !above.contains(&span.id)).collect();
                let rate = |span: &Scripted| {
                    let weight = span.weight.filter(|weight| *weight >= 0.0)?;
                    Some(weight / (span.to - span.from) as f64)
                };
                let rated: Vec<_> =
                    leaves.iter().filter_map(|span| Some((rate(span)?, span.count()))).collect();
                let counts = rated.iter().map(|(_, count)| count).sum::<f64>();
                let sum = rated.iter().map(|(rate, count)| rate * count).sum::<f64>();
                let mean = if counts > 0.0 { sum / counts } else { 0.0 };
                let parts: Vec<_> = leaves.iter().map(|span| rate(span).unwrap_or(mean)).collect();
                let counts: f64 = leaves.iter().map(|span| span.count()).sum();
                let whole: f64 =
                    leaves.iter().zip(&parts).map(|(span, part)| span.count() * part).sum();
                for (span, part) in leaves.iter().zip(parts) {
                    let share = if whole > 0.0 { part / whole } else { 1.0 / counts };
                    unsampled += cost * share * (span.count() - 1.0);
                    *costs.entry(span.id).or_insert(0.0) += cost * share;
                }
            }
        }
    }
    (costs, [unsampled, unattributed])
}
