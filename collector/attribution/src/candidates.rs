//! The spans among which the time of each GPU is divided, and how they are nested.

use std::collections::HashMap;

use phasemeter_meter::units::Timestamp;

use crate::gpu_cost::GpuCost;
use crate::holder_keys::HolderKeys;
use crate::links::Links;
use crate::span::{GpuSet, SpanKey};
use crate::sweep::Candidate;
use crate::waiting::{Record, WaitingSpans};

/// Spans nested deeper than this are treated as if those above had not been chosen.
const MAX_DEPTH: usize = 64;

/// The spans among which time is divided, by GPU.
#[derive(Debug, Default)]
pub(crate) struct ActiveSpans {
    all: Vec<SpanKey>,
    /// Indices of those that are charged for all GPUs.
    everywhere: Vec<u32>,
    /// Indices of those that are charged for all of a GPU, by GPU.
    listed: Vec<Vec<u32>>,
    /// Indices of those that are charged for what a holder pays, by GPU and each key of the holder.
    held: HashMap<(usize, u64), Vec<u32>>,
    /// The start of the first new span of all GPUs, and by GPU.
    new_everywhere: Option<Timestamp>,
    new: Vec<Option<Timestamp>>,
}

impl ActiveSpans {
    /// The spans among which the time of each GPU up to an instant is divided: those that are active from then
    /// on, and those that are new.
    pub(crate) fn of<T>(spans: &WaitingSpans<T>, gpus: &[GpuCost], until: &[Timestamp]) -> Self {
        let (listed, new) = (vec![Vec::new(); until.len()], vec![None; until.len()]);
        let mut active = Self { listed, new, ..Self::default() };
        let first = |known: Option<Timestamp>, it: &Record| match known {
            Some(known) if it.is_known || known <= it.from => Some(known),
            _ => (!it.is_known).then_some(it.from),
        };
        for (key, it) in spans.iter() {
            let is_active = |gpu: &usize| it.is_active(gpus[*gpu].divided_until, until[*gpu]);
            let mut gpus = it.gpus.among(until.len()).filter(is_active).peekable();
            if gpus.peek().is_none() {
                continue;
            }
            let index = u32::try_from(active.all.len()).unwrap_or(u32::MAX);
            active.all.push(*key);
            if let GpuSet::All = it.gpus {
                active.everywhere.push(index);
                active.new_everywhere = first(active.new_everywhere, it);
                continue;
            }
            for gpu in gpus {
                active.new[gpu] = first(active.new[gpu], it);
                match it.gpus.holder() {
                    None => active.listed[gpu].push(index),
                    Some(holder) => {
                        let keys = holder.iter().map(|key| (gpu, key));
                        keys.for_each(|key| active.held.entry(key).or_default().push(index));
                    }
                }
            }
        }
        active
    }

    /// The start of the first new span of a GPU; `None` if it has none.
    pub(crate) fn new_from(&self, gpu: usize) -> Option<Timestamp> {
        let of_gpu = self.new.get(gpu).copied().flatten();
        of_gpu.into_iter().chain(self.new_everywhere).min()
    }

    /// The spans among which is divided what a holder pays for a GPU.
    pub(crate) fn keys(&self, gpu: usize, holder: &HolderKeys) -> Vec<SpanKey> {
        let listed = self.listed.get(gpu).into_iter().flatten();
        let held = holder.iter().filter_map(|key| self.held.get(&(gpu, key))).flatten();
        let mut held: Vec<&u32> = held.collect();
        held.sort_unstable();
        held.dedup();
        let indices = self.everywhere.iter().chain(listed).chain(held);
        indices.filter_map(|index| self.all.get(*index as usize).copied()).collect()
    }
}

/// What the time of a GPU, or of a holder's part of it, is divided among, at least one span.
#[derive(Debug)]
pub(crate) struct Candidates {
    pub(crate) keys: Vec<SpanKey>,
    /// The same, as the division needs them.
    pub(crate) spans: Vec<Candidate>,
    /// Where the time begins: before what is divided, if a span is new.
    pub(crate) from: Timestamp,
}

impl Candidates {
    /// Those of these spans that have time of a GPU which is divided up to an instant.
    pub(crate) fn of<T>(
        keys: &[SpanKey],
        spans: &WaitingSpans<T>,
        links: &Links,
        divided: Timestamp,
        until: Timestamp,
    ) -> Option<Self> {
        let records = keys.iter().filter_map(|key| Some((key, spans.get(key)?)));
        let mut active: Vec<(&SpanKey, &Record)> =
            records.filter(|(_, it)| it.is_active(divided, until)).collect();
        active.sort_unstable_by_key(|(key, it)| (it.from, **key));
        let is_nested = active.iter().any(|(_, it)| it.parent.is_some());
        let indexed = if is_nested { &active[..] } else { &[] };
        let index: HashMap<SpanKey, usize> =
            indexed.iter().enumerate().map(|(index, (key, _))| (**key, index)).collect();
        let candidate = |(key, it): &(&SpanKey, &Record)| Candidate {
            from: it.from,
            to: it.to,
            rate: it.rate(),
            count: it.count,
            ancestors: ancestors(key, it.parent, &index, links),
        };
        let late = active.iter().filter(|(_, it)| !it.is_known).map(|(_, it)| it.from).min();
        let from = late.map_or(divided, |late| late.min(divided));
        let keys: Vec<SpanKey> = active.iter().map(|(key, _)| **key).collect();
        let spans = active.iter().map(candidate).collect();
        (!keys.is_empty()).then_some(Self { keys, spans, from })
    }
}

/// Indices of the spans that this one is nested in.
fn ancestors(
    own: &SpanKey,
    mut parent: Option<[u8; 8]>,
    index: &HashMap<SpanKey, usize>,
    links: &Links,
) -> Vec<usize> {
    let index_of_own = index.get(own);
    let mut found = Vec::new();
    for _ in 0..MAX_DEPTH {
        let Some(key) = parent.map(|parent| own.sibling(parent)) else { break };
        if let Some(&ancestor) = index.get(&key)
            && Some(&ancestor) != index_of_own
            && !found.contains(&ancestor)
        {
            found.push(ancestor);
        }
        parent = links.get(&key).and_then(|link| link.parent);
    }
    found
}
