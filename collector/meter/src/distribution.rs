//! Distributions of utilization and memory, weighted by observed time.
//!
//! The number of bins is bounded: utilization has one per 0.1%; those of memory widen as its maximum
//! grows.

use crate::units::{Bytes, Nanos, Utilization};

/// Width of a utilization bin in ppm: 0.1%.
const BIN: u32 = 1_000;

/// Bins from 0% to 100%.
const BINS: usize = 1_001;

/// Distribution of utilization: time per 0.1%.
#[derive(Clone, Debug)]
pub struct UtilizationDistribution {
    bins: Box<[u64; BINS]>,
    /// All of it.
    time: Nanos,
}

impl Default for UtilizationDistribution {
    fn default() -> Self {
        Self { bins: Box::new([0; BINS]), time: Nanos::ZERO }
    }
}

/// Time per non-empty bin at an instant. The default is the state before the first reading.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Vec<(u16, u64)>);

impl UtilizationDistribution {
    /// Adds time at this utilization.
    #[inline]
    pub fn add(&mut self, utilization: Utilization, time: Nanos) {
        let bin = (utilization.ppm() + BIN / 2) / BIN;
        if let Some(bin) = self.bins.get_mut(bin as usize) {
            *bin += time.0;
            self.time += time;
        }
    }

    /// The time that was added.
    #[must_use]
    pub const fn time(&self) -> Nanos {
        self.time
    }

    /// Whether any time was added.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.time.0 > 0
    }

    /// The smallest multiple of 0.1% with at least `percent` of the time at or below it; `None` if
    /// no time was added.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<Utilization> {
        self.percentile_since(&Snapshot::default(), percent)
    }

    /// Like [`Self::percentile`], for the time since a snapshot of this distribution.
    #[must_use]
    pub fn percentile_since(
        &self,
        Snapshot(earlier): &Snapshot,
        percent: u32,
    ) -> Option<Utilization> {
        let mut weights = *self.bins;
        for (bin, before) in earlier {
            if let Some(weight) = weights.get_mut(usize::from(*bin)) {
                *weight -= before;
            }
        }
        let bin = percentile(&weights, percent)?;
        Utilization::from_ppm(u32::try_from(bin).ok()? * BIN)
    }

    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let bins = (0..).zip(self.bins.iter()).filter(|(_, time)| **time > 0);
        Snapshot(bins.map(|(bin, time)| (bin, *time)).collect())
    }
}

/// Maximum number of memory bins. Bins are only widened while fewer than half would be too few, so
/// that a bin is narrower than 0.1% of the maximum.
const MEMORY_BINS: usize = 2_048;

/// Distribution of memory in use: time per bin.
///
/// A bin is one mebibyte wide, and twice as wide whenever memory use would exceed the last: bin i
/// contains the time above i − 1 and up to i widths.
#[derive(Clone, Debug)]
pub struct MemoryDistribution {
    /// Up to the highest use so far.
    bins: Vec<u64>,
    /// log₂ of the width in bytes.
    width: u32,
    peak: Option<Bytes>,
}

impl Default for MemoryDistribution {
    fn default() -> Self {
        Self { bins: Vec::new(), width: Bytes::MEBIBYTE.ilog2(), peak: None }
    }
}

impl MemoryDistribution {
    /// Records the memory in use.
    #[inline]
    pub fn record(&mut self, used: Bytes) {
        self.peak = self.peak.max(Some(used));
    }

    /// Adds observed time at this memory use.
    #[inline]
    pub fn add(&mut self, used: Bytes, time: Nanos) {
        let bin = self.bin(used);
        match self.bins.get_mut(bin) {
            Some(bin) => *bin += time.0,
            None => self.add_beyond_end(used, time),
        }
    }

    /// Maximum memory in use.
    #[must_use]
    pub const fn peak(&self) -> Option<Bytes> {
        self.peak
    }

    /// The smallest multiple of [`Self::resolution`] with at least `percent` of the time at or below
    /// it, at most the peak; `None` if no time was added.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<Bytes> {
        let bin = percentile(&self.bins, percent)?;
        let end = Bytes::new((bin as u64) << self.width);
        end.map(|end| self.peak.map_or(end, |peak| end.min(peak)))
    }

    /// The width of a bin: a power of two, at least 1 MiB, and less than 0.1% of the maximum if more.
    #[must_use]
    pub const fn resolution(&self) -> u64 {
        1 << self.width
    }

    fn bin(&self, used: Bytes) -> usize {
        usize::try_from((used.get() + self.resolution() - 1) >> self.width).unwrap_or(usize::MAX)
    }

    #[cold]
    fn add_beyond_end(&mut self, used: Bytes, time: Nanos) {
        while self.bin(used) >= MEMORY_BINS {
            // ⌈⌈x ÷ w⌉ ÷ 2⌉ = ⌈x ÷ 2w⌉, so that widening late or early gives the same bins.
            for bin in 1..self.bins.len() {
                let time = std::mem::take(&mut self.bins[bin]);
                self.bins[bin.div_ceil(2)] += time;
            }
            self.bins.truncate(self.bins.len() / 2 + 1);
            self.width += 1;
        }
        let bin = self.bin(used);
        if self.bins.len() <= bin {
            let capacity = (bin + 1).next_multiple_of(256);
            self.bins.reserve_exact(capacity - self.bins.len());
            self.bins.resize(bin + 1, 0);
        }
        self.bins[bin] += time.0;
    }
}

/// The smallest bin with at least `percent` of the weight at or below it.
fn percentile(weights: &[u64], percent: u32) -> Option<usize> {
    let total: u128 = weights.iter().copied().map(u128::from).sum();
    let mut below = 0_u128;
    weights.iter().position(|weight| {
        below += u128::from(*weight);
        below * 100 >= total * u128::from(percent) && below > 0
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn percentile_is_weighted_by_time() {
        let mut all = UtilizationDistribution::default();
        assert_eq!(all.percentile(50), None);
        let at = |percent| Utilization::from_percent(percent).unwrap();
        all.add(at(0), Nanos(50));
        all.add(at(40), Nanos(45));
        all.add(at(100), Nanos(5));
        assert_eq!(all.percentile(50), Some(at(0)));
        assert_eq!(all.percentile(51), Some(at(40)));
        assert_eq!(all.percentile(95), Some(at(40)));
        assert_eq!(all.percentile(96), Some(at(100)));
    }

    #[test]
    fn memory_bins_widen_with_the_maximum() {
        let mut all = MemoryDistribution::default();
        let mib = |n| Bytes::from_mebibytes(n).unwrap();
        all.add(mib(100), Nanos(95));
        assert_eq!((all.percentile(50), all.resolution()), (Some(mib(100)), 1 << 20));
        all.add(mib(81_559), Nanos(5));
        all.record(mib(81_559));
        assert_eq!((all.peak(), all.resolution()), (Some(mib(81_559)), 64 << 20));
        assert_eq!(all.percentile(95), Some(mib(128)), "100 MiB, rounded up");
        assert_eq!(all.percentile(99), Some(mib(81_559)), "at most the peak");
    }

    proptest! {
        /// In any order: at most 2,048 bins, finer than 0.1% of the maximum, and a percentile is the
        /// exact one rounded up to the resolution.
        #[test]
        fn memory_percentile_is_within_resolution(
            used in prop::collection::vec(
                (prop_oneof![0..=Bytes::MAX, 0..100_000_000_000_u64, 0..3_000_000_u64], 1..9_u64),
                1..80,
            ),
        ) {
            let mut all = MemoryDistribution::default();
            let mut exact: BTreeMap<u64, u64> = BTreeMap::new();
            for (bytes, time) in &used {
                all.record(Bytes::new(*bytes).unwrap());
                all.add(Bytes::new(*bytes).unwrap(), Nanos(*time));
                *exact.entry(*bytes).or_default() += time;
            }
            prop_assert!(all.bins.len() <= MEMORY_BINS && all.bins.capacity() <= MEMORY_BINS);
            let maximum = *exact.keys().next_back().unwrap();
            let width = all.resolution();
            prop_assert!(width == 1 << 20 || width * 1_000 < maximum);
            let total: u64 = exact.values().sum();
            for percent in [1, 50, 95, 100] {
                let below = |value: u64| exact.range(..=value).map(|(_, time)| time).sum::<u64>();
                let value = exact.keys().find(|value| below(**value) * 100 >= total * percent);
                let rounded = value.unwrap().next_multiple_of(width).min(maximum);
                let found = all.percentile(u32::try_from(percent).unwrap()).unwrap();
                prop_assert_eq!(found.get(), rounded);
            }
        }
    }
}
