//! The spans among which the time of each GPU is divided, and how they are nested.

use std::collections::HashMap;

use phasemeter_meter::units::Timestamp;

pub(crate) use super::active_spans::ActiveSpans;
use crate::candidate::Candidate;
use crate::links::Links;
use crate::span::SpanKey;
use crate::waiting::{Record, WaitingSpans};

/// Spans nested deeper than this are treated as if those above had not been chosen.
const MAX_DEPTH: usize = 64;

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
