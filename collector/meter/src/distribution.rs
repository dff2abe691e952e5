//! Distributions of utilization and memory, weighted by time.
//!
//! Fixed bins keep memory constant: 0.1% for utilization, 1 MiB for memory. Must not depend on the
//! meaning of the values.

use crate::units::{Bytes, Nanos, PPM, Utilization};

/// Width of a utilization bin in ppm: 0.1%.
const BIN: u32 = 1_000;

/// Bins from 0% to 100%.
const BINS: usize = 1_001;

/// Distribution of utilization: time and number of readings per 0.1%.
#[derive(Clone, Debug)]
pub struct UtilizationDistribution {
    time: Vec<u64>,
    readings: Vec<u64>,
    all: Readings,
}

impl Default for UtilizationDistribution {
    fn default() -> Self {
        Self { time: vec![0; BINS], readings: vec![0; BINS], all: Readings::default() }
    }
}

/// Count and sum of utilization readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readings {
    /// Number of readings.
    pub count: u64,
    /// Σ utilization in ppm.
    pub sum_ppm: u64,
}

impl Readings {
    /// The difference to an `earlier` state.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Self {
        Self { count: self.count - earlier.count, sum_ppm: self.sum_ppm - earlier.sum_ppm }
    }

    /// The mean, 0–1; `None` if there are no readings.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation, not for accounts")]
    pub fn mean(self) -> Option<f64> {
        let sum = self.sum_ppm as f64 / f64::from(PPM);
        (self.count > 0).then(|| sum / self.count as f64)
    }
}

/// Time per non-empty bin at an instant. The default is the state before the first reading.
#[derive(Clone, Debug, Default)]
pub struct Snapshot(Vec<(u16, u64)>);

impl UtilizationDistribution {
    /// Records a reading.
    pub fn record(&mut self, utilization: Utilization) {
        if let Some(readings) = self.readings.get_mut(bin(utilization)) {
            *readings += 1;
            self.all.count += 1;
            self.all.sum_ppm += u64::from(utilization.ppm());
        }
    }

    /// Adds time at this utilization.
    pub fn add(&mut self, utilization: Utilization, time: Nanos) {
        if let Some(bin) = self.time.get_mut(bin(utilization)) {
            *bin += time.0;
        }
    }

    /// Whether any time was added.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        self.time.iter().any(|time| *time > 0)
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
        let mut weights = self.time.clone();
        for (bin, before) in earlier {
            if let Some(weight) = weights.get_mut(usize::from(*bin)) {
                *weight -= before;
            }
        }
        let bin = percentile(weights.iter().copied().enumerate(), percent)?;
        Utilization::from_ppm(u32::try_from(bin).ok()? * BIN)
    }

    /// Takes a snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let bins = (0..).zip(&self.time).filter(|(_, time)| **time > 0);
        Snapshot(bins.map(|(bin, time)| (bin, *time)).collect())
    }

    /// Number of readings per utilization that occurred, in ascending order.
    pub fn readings(&self) -> impl Iterator<Item = (Utilization, u64)> {
        (0_u32..).zip(&self.readings).filter(|(_, count)| **count > 0).filter_map(|(bin, count)| {
            Utilization::from_ppm(bin * BIN).map(|utilization| (utilization, *count))
        })
    }

    /// All readings.
    #[must_use]
    pub const fn all_readings(&self) -> Readings {
        self.all
    }
}

/// The nearest bin.
const fn bin(utilization: Utilization) -> usize {
    ((utilization.ppm() + BIN / 2) / BIN) as usize
}

/// Bins per page. A GPU uses few of the at most 8,192 pages; the others stay unallocated.
const PAGE: usize = 512;

/// Distribution of memory in use: time per mebibyte.
#[derive(Clone, Debug, Default)]
pub struct MemoryDistribution {
    pages: Vec<Vec<u64>>,
    peak: Option<Bytes>,
}

impl MemoryDistribution {
    /// Records the memory in use.
    pub fn record(&mut self, used: Bytes) {
        self.peak = self.peak.max(Some(used));
    }

    /// Adds time at this memory use.
    pub fn add(&mut self, used: Bytes, time: Nanos) {
        let Ok(mebibytes) = usize::try_from((used.get() + Bytes::MEBIBYTE / 2) / Bytes::MEBIBYTE)
        else {
            return;
        };
        let (page, bin) = (mebibytes / PAGE, mebibytes % PAGE);
        match self.pages.get_mut(page).and_then(|page| page.get_mut(bin)) {
            Some(weight) => *weight += time.0,
            None => *self.page_slot(page, bin) += time.0,
        }
    }

    #[cold]
    fn page_slot(&mut self, page: usize, bin: usize) -> &mut u64 {
        if self.pages.len() <= page {
            self.pages.resize(page + 1, Vec::new());
        }
        self.pages[page].resize(PAGE, 0);
        &mut self.pages[page][bin]
    }

    /// Maximum memory in use.
    #[must_use]
    pub const fn peak(&self) -> Option<Bytes> {
        self.peak
    }

    /// The smallest multiple of 1 MiB with at least `percent` of the time at or below it; `None` if
    /// no time was added.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<Bytes> {
        let weights = self.pages.iter().enumerate().flat_map(|(page, weights)| {
            weights.iter().enumerate().map(move |(bin, weight)| (page * PAGE + bin, *weight))
        });
        let mebibytes = percentile(weights, percent)?;
        Bytes::from_mebibytes(mebibytes as u64)
    }
}

/// The smallest bin with at least `percent` of the weight at or below it.
fn percentile(weights: impl Iterator<Item = (usize, u64)> + Clone, percent: u32) -> Option<usize> {
    let total: u128 = weights.clone().map(|(_, weight)| u128::from(weight)).sum();
    if total == 0 {
        return None;
    }
    let mut below = 0_u128;
    weights
        .into_iter()
        .find(|(_, weight)| {
            below += u128::from(*weight);
            below * 100 >= total * u128::from(percent) && below > 0
        })
        .map(|(bin, _)| bin)
}

#[cfg(test)]
mod tests {
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
    fn memory_percentile_has_mebibyte_resolution() {
        let mut all = MemoryDistribution::default();
        let mib = |n| Bytes::from_mebibytes(n).unwrap();
        all.add(mib(100), Nanos(95));
        all.add(mib(81_559), Nanos(5));
        all.record(mib(81_559));
        assert_eq!(all.peak(), Some(mib(81_559)));
        assert_eq!(all.percentile(95), Some(mib(100)));
        assert_eq!(all.percentile(99), Some(mib(81_559)));
    }
}
