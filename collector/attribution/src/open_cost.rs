//! The cost of one GPU for one of its holders that no span has yet.

use phasemeter_meter::units::Timestamp;

use crate::cost::{CostSlice, SpanCost};

/// The open cost of a holder of one GPU: time slices in time order, without what was divided.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenCost {
    slices: Vec<CostSlice>,
}

impl OpenCost {
    /// Adds the next slice, or to the last one if it is of the same time.
    pub(crate) fn push(&mut self, slice: CostSlice) {
        match self.slices.last_mut() {
            Some(last) if (last.from, last.to) == (slice.from, slice.to) => last.add(&slice),
            _ => self.slices.push(slice),
        }
    }

    /// The number of slices.
    pub(crate) const fn len(&self) -> usize {
        self.slices.len()
    }

    /// The sum of all.
    pub(crate) fn total(&self) -> SpanCost {
        self.slices.iter().map(CostSlice::total).sum()
    }

    /// Whether any of this time is open.
    pub(crate) fn is_open(&self, from: Timestamp, to: Timestamp) -> bool {
        let first = self.slices.partition_point(|slice| slice.to <= from);
        self.slices.get(first).is_some_and(|slice| slice.from < to)
    }

    /// The ends of the slices, in time order.
    pub(crate) fn ends(&self) -> impl Iterator<Item = Timestamp> {
        self.slices.iter().map(|slice| slice.to)
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

    /// Removes the slices that end at `at` or before. Returns their sum.
    pub(crate) fn expire(&mut self, at: Timestamp) -> SpanCost {
        let old = self.slices.partition_point(|slice| slice.to <= at);
        self.slices.drain(..old).map(|slice| slice.total()).sum()
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
