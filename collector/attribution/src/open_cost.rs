//! The cost of one GPU that no span has yet.

use phasemeter_meter::units::Timestamp;

use crate::cost::{CostSlice, SpanCost};

/// The open cost of one GPU: time slices in time order, without what was divided.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCost {
    slices: Vec<CostSlice>,
    /// Everything before is final: the end of the last slice added, unless it was finalized later.
    until: Timestamp,
    /// Up to here, time that has a span has been divided.
    pub(crate) divided_until: Timestamp,
}

impl OpenCost {
    /// Adds the next slice.
    pub(crate) fn push(&mut self, slice: CostSlice) {
        self.until = self.until.max(slice.to);
        self.slices.push(slice);
    }

    /// Nothing before this instant is to come.
    pub(crate) fn finalize(&mut self, until: Timestamp) {
        self.until = self.until.max(until);
    }

    /// The end of its time so far.
    pub(crate) const fn until(&self) -> Timestamp {
        self.until
    }

    /// The sum of all.
    pub(crate) fn total(&self) -> SpanCost {
        self.slices.iter().map(CostSlice::total).sum()
    }

    /// Whether any of this time is open, or still to come.
    pub(crate) fn is_open(&self, from: Timestamp, to: Timestamp) -> bool {
        let first = self.slices.partition_point(|slice| slice.to <= from);
        to > self.until || self.slices.get(first).is_some_and(|slice| slice.from < to)
    }

    /// Takes out the slices that end after `from`, up to `to`, where the last one is cut. What is put
    /// back by [`Self::restore`] replaces them.
    pub(crate) fn take(&mut self, from: Timestamp, to: Timestamp) -> Excerpt {
        let end = self.slices.partition_point(|slice| slice.from < to);
        let mut after = self.slices.split_off(end);
        let start = self.slices.partition_point(|slice| slice.to <= from);
        let mut taken = self.slices.split_off(start);
        if let Some(last) = taken.last_mut()
            && last.to > to
        {
            after.insert(0, last.part(to, last.to));
            *last = last.part(last.from, to);
        }
        Excerpt { slices: taken, after }
    }

    /// Puts back what is still open, and what followed it.
    pub(crate) fn restore(&mut self, open: Vec<CostSlice>, after: Vec<CostSlice>) {
        self.slices.extend(open);
        self.slices.extend(after);
    }

    /// Removes the slices that end before `at`, and the oldest ones beyond `max`. Returns their sum.
    pub(crate) fn expire(&mut self, at: Timestamp, max: usize) -> SpanCost {
        let old = self.slices.partition_point(|slice| slice.to <= at);
        // Only divided time expires early: the rest has not been offered to any span.
        let divided = self.slices.partition_point(|slice| slice.to <= self.divided_until);
        let beyond = self.slices.len().saturating_sub(max).min(divided);
        self.slices.drain(..old.max(beyond)).map(|slice| slice.total()).sum()
    }
}

/// Slices that were taken out.
#[derive(Debug)]
pub(crate) struct Excerpt {
    /// In time order.
    pub(crate) slices: Vec<CostSlice>,
    /// Those that follow.
    pub(crate) after: Vec<CostSlice>,
}
