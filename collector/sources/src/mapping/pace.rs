//! How often labels name the holders of a GPU.
//!
//! Of several exporters of a GPU only some may name its holders, and no label may tell whose an instant is. Each reports
//! at a pace of its own. So an instant without holders ends what was named only if those that name them should have
//! reported again by then, and have not: else it is another exporter's, and states nothing of holders.

use std::collections::{BTreeSet, VecDeque};

use phasemeter_meter::holder::Holder;
use phasemeter_meter::units::{Nanos, Timestamp};

/// A report may come this part of its pace earlier or later: a tenth.
const TOLERANCE: u64 = 10;

/// Number of gaps between instants with holders that are remembered, and that are looked ahead.
const MAX_GAPS: usize = 8;

/// The longest gap that counts, in times that a value is valid.
const MAX_GAP: u64 = 4;

/// An instant, and the holders that its labels name.
pub(super) type Named<'h> = (Timestamp, Vec<&'h Holder>);

/// When labels named holders of one GPU, from its instants in the order of time.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last: LastNamed,
    /// The last gaps between instants with the same holders.
    gaps: VecDeque<Nanos>,
    /// The time between two reports with holders.
    pace: Option<Nanos>,
}

/// The last instant with holders.
#[derive(Clone, Debug, Default)]
struct LastNamed {
    at: Timestamp,
    holders: Vec<Holder>,
    /// Whether instants without holders have followed.
    is_interrupted: bool,
}

impl Pace {
    /// Notes an instant; `later` are those that follow, as far as they have arrived. Returns whether it states who holds
    /// the GPU: it names holders, or those that were named have ended.
    pub(super) fn note<'h>(
        &mut self,
        named: &Named<'_>,
        later: impl Iterator<Item = Named<'h>>,
        stale_after: Nanos,
    ) -> bool {
        let (at, holders) = named;
        let (last, was_interrupted) = (self.last.at, self.last.is_interrupted);
        if let Some(gap) = self.last.see(named, stale_after) {
            self.gaps.truncate(MAX_GAPS - 1);
            self.gaps.push_front(gap);
        }
        let is_over = at.since(last) > stale_after.saturating_mul(MAX_GAP);
        if !holders.is_empty() || self.last.holders.is_empty() || is_over {
            // Up to here that counts which an instant in between has shown.
            if holders.is_empty() || !was_interrupted {
                self.pace = usual(self.gaps.iter().copied(), stale_after);
            }
            return true;
        }
        let mut ahead = self.last.clone();
        let until = *at + stale_after.saturating_mul(MAX_GAP);
        let later = later.take_while(|(at, _)| *at <= until);
        let gaps: Vec<_> = later
            .filter_map(|named| {
                let gap = ahead.see(&named, stale_after);
                (!named.1.is_empty()).then_some(gap)
            })
            .take(MAX_GAPS)
            .collect();
        let all = self.gaps.iter().copied().chain(gaps.iter().flatten().copied());
        self.pace = usual(all, stale_after);
        let Some(pace) = self.pace else { return true };
        let tolerance = Nanos(pace.0 / TOLERANCE);
        let next = gaps.first().copied().flatten();
        let goes_on = next.is_some_and(|gap| gap <= pace + tolerance);
        !goes_on && at.since(last) + tolerance >= pace
    }

    /// How long it is valid who holds the GPU: as long as a reading, and at least to the next report.
    pub(super) fn validity(&self, stale_after: Nanos) -> Nanos {
        let pace = self.pace.unwrap_or_default();
        stale_after.max(pace + Nanos(pace.0 / TOLERANCE))
    }
}

impl LastNamed {
    /// Notes the next instant. Returns how long after the last one with any of its holders it is, unless that is so long
    /// that they may have ended in between.
    fn see(&mut self, (at, named): &Named<'_>, stale_after: Nanos) -> Option<Nanos> {
        if named.is_empty() {
            self.is_interrupted = true;
            return None;
        }
        let gap = at.since(self.at);
        // Others have reported in a longer one.
        let longest = stale_after.saturating_mul(if self.is_interrupted { MAX_GAP } else { 1 });
        let before: BTreeSet<_> = self.holders.iter().map(subject).collect();
        let is_same = gap <= longest && named.iter().any(|it| before.contains(&subject(it)));
        if !self.holders.iter().eq(named.iter().copied()) {
            self.holders = named.iter().copied().cloned().collect();
        }
        (self.at, self.is_interrupted) = (*at, false);
        is_same.then_some(gap)
    }
}

/// What a name is of, complete or not: a pod, else itself.
fn subject(holder: &Holder) -> (Option<(&str, &str)>, Option<&Holder>) {
    match holder.container() {
        Some(it) => (Some((&it.namespace, &it.pod)), None),
        None => (None, Some(holder)),
    }
}

/// The second longest gap, since a longer one that is alone is an exception; the only one, unless that is long.
fn usual(gaps: impl Iterator<Item = Nanos>, stale_after: Nanos) -> Option<Nanos> {
    let mut gaps: Vec<Nanos> = gaps.collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    let only = || gaps.first().filter(|gap| **gap <= stale_after);
    gaps.get(1).or_else(only).copied()
}
