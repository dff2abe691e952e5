//! The spans among which the time of each GPU is divided, and how they are nested.

use std::collections::HashMap;

use phasemeter_meter::units::Timestamp;

use crate::links::Links;
use crate::open_cost::OpenCost;
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
    /// Indices of the others, by GPU.
    listed: Vec<Vec<u32>>,
}

impl ActiveSpans {
    /// The spans among which the time of each GPU up to an instant is divided: those that are active from then
    /// on, and those that are new.
    pub(crate) fn of<T>(spans: &WaitingSpans<T>, gpus: &[OpenCost], until: &[Timestamp]) -> Self {
        let mut active = Self { listed: vec![Vec::new(); until.len()], ..Self::default() };
        for (key, it) in spans.iter() {
            let is_active = |gpu: &usize| it.is_active(gpus[*gpu].divided_until, until[*gpu]);
            let mut gpus = it.gpus.among(until.len()).filter(is_active).peekable();
            if gpus.peek().is_none() {
                continue;
            }
            let index = u32::try_from(active.all.len()).unwrap_or(u32::MAX);
            active.all.push(*key);
            match it.gpus {
                GpuSet::All => active.everywhere.push(index),
                GpuSet::Listed(_) => gpus.for_each(|gpu| active.listed[gpu].push(index)),
            }
        }
        active
    }

    /// The spans of a GPU.
    pub(crate) fn keys(&self, gpu: usize) -> Vec<SpanKey> {
        let listed = self.listed.get(gpu).into_iter().flatten();
        let indices = self.everywhere.iter().chain(listed);
        indices.filter_map(|index| self.all.get(*index as usize).copied()).collect()
    }
}

/// What the time of a GPU is divided among, at least one span.
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
