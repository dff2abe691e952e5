//! The series of one metric.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::names::Kind;
use super::value::SeriesValue;

/// What a series costs beside its labels and value: nodes of a tree, and what the allocator adds.
const OVERHEAD: usize = 128;

/// A metric.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) kind: Kind,
    pub(super) help: String,
    /// By labels, as they are written.
    pub(super) series: BTreeMap<String, Series>,
}

/// A series.
#[derive(Debug)]
pub(super) struct Series {
    /// When it was exported last.
    seen: Instant,
    pub(super) value: SeriesValue,
}

impl Family {
    pub(super) const fn new(kind: Kind, help: String) -> Self {
        Self { kind, help, series: BTreeMap::new() }
    }

    /// Stores the value of a series. Returns the bytes that are used in addition; `None` if it would be more than
    /// `free`.
    pub(super) fn set(
        &mut self,
        labels: String,
        mut value: SeriesValue,
        is_delta: bool,
        now: Instant,
        free: usize,
    ) -> Option<usize> {
        if let Some(known) = self.series.get_mut(&labels) {
            if is_delta {
                value.add(&known.value);
            }
            *known = Series { seen: now, value };
            return Some(0);
        }
        let bytes = bytes(&labels, &value);
        (bytes <= free).then(|| {
            self.series.insert(labels, Series { seen: now, value });
            bytes
        })
    }

    /// Removes series that were last exported longer ago. Returns the bytes that are free again.
    pub(super) fn expire(&mut self, now: Instant, after: Duration) -> usize {
        let mut freed = 0;
        self.series.retain(|labels, series| {
            let is_current = now.saturating_duration_since(series.seen) <= after;
            freed += if is_current { 0 } else { bytes(labels, &series.value) };
            is_current
        });
        freed
    }
}

fn bytes(labels: &str, value: &SeriesValue) -> usize {
    labels.len() + value.bytes() + OVERHEAD
}
