//! Histograms of utilization readings: one with fixed bounds, and an exponential one.
//!
//! Readings are counted in cells, between the bounds of both, so that each is in its exact bucket of
//! either.

use crate::units::{PPM, Utilization};

/// Upper bounds in ppm, inclusive: 0, 5, 10, 20 … 90, 95, 100%.
const BOUNDS: [u32; 13] = [
    0, 50_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000,
    950_000, 1_000_000,
];

/// One bucket per bound, and one above the last bound, always empty.
pub const BUCKETS: usize = BOUNDS.len() + 1;

/// Exponential buckets grow by 2^(1 ÷ 2⁴) each.
const SCALE: i32 = 4;

/// Exponential buckets per power of two.
const STEPS: usize = 1 << SCALE;

/// Powers of two that have exponential buckets: 160 buckets, the most that SDKs use, so that the scale
/// never changes. They begin at 2⁻¹⁰, just below 0.1%; lower readings are in the zero bucket.
const OCTAVES: usize = 10;

/// Upper bound of the zero bucket, inclusive: 2⁻¹⁰.
const ZERO_THRESHOLD: f64 = 0.000_976_562_5;

/// 2^(i ÷ 16) in units of 2⁻⁶⁰.
const POWERS: [u64; STEPS] = [
    0x1000_0000_0000_0000,
    0x10b5_586c_f989_0f62,
    0x1172_b83c_7d51_7adc,
    0x1238_7a6e_7562_3866,
    0x1306_fe0a_31b7_152d,
    0x13de_a64c_1234_2235,
    0x14bf_dad5_362a_271d,
    0x15ab_07dd_4854_2958,
    0x16a0_9e66_7f3b_cc90,
    0x17a1_1473_eb01_86d7,
    0x18ac_e542_2aa0_db5b,
    0x19c4_9182_a3f0_901c,
    0x1ae8_9f99_5ad3_ad5e,
    0x1c19_9bdd_8552_9c22,
    0x1d58_18dc_fba4_8725,
    0x1ea4_afa2_a490_d985,
];

/// Upper bounds of the zero bucket and of the exponential buckets, in ppm, rounded down: a utilization
/// is in whole ppm, so it is above a bound if it is above the rounded one.
const EXPONENTIAL_BOUNDS: [u32; OCTAVES * STEPS + 1] = exponential_bounds();

/// Upper bounds of the cells in ppm, inclusive: those of both histograms. They share 50% and 100%.
const CELLS: [u32; BOUNDS.len() + EXPONENTIAL_BOUNDS.len() - 2] = cells();

/// The first cell that can contain a utilization, by its whole tenths of a percent.
static FIRST_CELLS: [u8; 1_001] = first_cells();

/// Utilization in ppm per tenth of a percent.
const TENTH: u32 = 1_000;

#[expect(clippy::cast_possible_truncation, reason = "at most a million")]
const fn exponential_bounds() -> [u32; OCTAVES * STEPS + 1] {
    let mut bounds = [PPM; OCTAVES * STEPS + 1];
    let mut index = 0;
    while index < OCTAVES * STEPS {
        let power = POWERS[index % STEPS] as u128 * PPM as u128;
        bounds[index] = (power >> (60 + OCTAVES - index / STEPS)) as u32;
        index += 1;
    }
    bounds
}

const fn cells() -> [u32; BOUNDS.len() + EXPONENTIAL_BOUNDS.len() - 2] {
    let mut cells = [PPM; BOUNDS.len() + EXPONENTIAL_BOUNDS.len() - 2];
    let (mut cell, mut fixed, mut exponential) = (0, 0, 0);
    while fixed < BOUNDS.len() && exponential < EXPONENTIAL_BOUNDS.len() {
        let (one, other) = (BOUNDS[fixed], EXPONENTIAL_BOUNDS[exponential]);
        cells[cell] = if one < other { one } else { other };
        cell += 1;
        fixed += (one <= other) as usize;
        exponential += (other <= one) as usize;
    }
    cells
}

#[expect(clippy::cast_possible_truncation, reason = "there are fewer than 256 cells")]
const fn first_cells() -> [u8; 1_001] {
    let mut first = [0; 1_001];
    let (mut tenth, mut cell) = (0, 0);
    while tenth < first.len() {
        while CELLS[cell] < tenth as u32 * TENTH {
            cell += 1;
        }
        first[tenth] = cell as u8;
        tenth += 1;
    }
    first
}

/// The bounds as ratios, 0–1.
#[must_use]
pub fn bounds() -> Vec<f64> {
    BOUNDS.iter().map(|bound| f64::from(*bound) / f64::from(PPM)).collect()
}

/// The bucket of a utilization in the histogram with fixed bounds.
#[must_use]
pub fn bucket(utilization: Utilization) -> usize {
    BOUNDS.partition_point(|bound| *bound < utilization.ppm())
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

/// An exponential histogram.
#[derive(Clone, Debug, PartialEq)]
pub struct Exponential {
    /// Bucket i ends at 2^((i + 1) ÷ 2^scale), inclusive.
    pub scale: i32,
    /// Upper bound of the zero bucket, inclusive, 0–1.
    pub zero_threshold: f64,
    /// Readings in the zero bucket.
    pub zeros: u64,
    /// The index of the first bucket.
    pub offset: i32,
    /// Readings per bucket, from the lowest to the highest that is not empty.
    pub counts: Vec<u64>,
}

/// Counts readings of utilization.
#[derive(Clone, Debug)]
pub struct Histogram {
    cells: Box<[u64; CELLS.len()]>,
    all: Readings,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { cells: Box::new([0; CELLS.len()]), all: Readings::default() }
    }
}

impl Histogram {
    /// Records a reading.
    #[inline]
    pub fn record(&mut self, utilization: Utilization) {
        let ppm = utilization.ppm();
        let first = FIRST_CELLS.get((ppm / TENTH) as usize).copied().unwrap_or_default();
        let mut cell = usize::from(first);
        while CELLS.get(cell).is_some_and(|end| *end < ppm) {
            cell += 1;
        }
        if let Some(count) = self.cells.get_mut(cell) {
            *count += 1;
            self.all.count += 1;
            self.all.sum_ppm += u64::from(ppm);
        }
    }

    /// All readings.
    #[must_use]
    pub const fn readings(&self) -> Readings {
        self.all
    }

    /// Readings per bucket of the histogram with fixed bounds.
    #[must_use]
    pub fn fixed(&self) -> [u64; BUCKETS] {
        let mut counts = [0; BUCKETS];
        for (end, count) in self.counts() {
            if let Some(bucket) = counts.get_mut(bucket(end)) {
                *bucket += count;
            }
        }
        counts
    }

    /// Readings per exponential bucket.
    #[must_use]
    pub fn exponential(&self) -> Exponential {
        // The first is the zero bucket.
        let mut counts = [0; EXPONENTIAL_BOUNDS.len()];
        for (end, count) in self.counts() {
            let bucket = EXPONENTIAL_BOUNDS.partition_point(|bound| *bound < end.ppm());
            if let Some(bucket) = counts.get_mut(bucket) {
                *bucket += count;
            }
        }
        let [zeros, counts @ ..] = counts;
        let first = counts.iter().position(|count| *count > 0).unwrap_or(counts.len());
        let end = counts.iter().rposition(|count| *count > 0).map_or(first, |last| last + 1);
        // The last bucket ends at 1, so indexes count back from there.
        let index = |position| i32::try_from(position).unwrap_or_default();
        let offset = index(first) - index(counts.len());
        Exponential {
            scale: SCALE,
            zero_threshold: ZERO_THRESHOLD,
            zeros,
            offset: if first == end { 0 } else { offset },
            counts: counts.get(first..end).unwrap_or_default().to_vec(),
        }
    }

    /// The upper bound and the count of each cell.
    fn counts(&self) -> impl Iterator<Item = (Utilization, u64)> {
        let ends = CELLS.iter().filter_map(|end| Utilization::from_ppm(*end));
        ends.zip(self.cells.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(percents: &[u32]) -> Histogram {
        let mut readings = Histogram::default();
        for percent in percents {
            readings.record(Utilization::from_percent(*percent).unwrap());
        }
        readings
    }

    #[test]
    fn fixed_bucket_includes_upper_bound() {
        let counts = of(&[0, 1, 5, 6, 10, 50, 95, 96, 100]).fixed();
        assert_eq!(counts, [1, 2, 2, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0]);
        assert_eq!(bounds(), [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0]);
    }

    #[test]
    fn exponential_bucket_includes_upper_bound() {
        let Exponential { scale, zeros, offset, counts, .. } =
            of(&[0, 0, 50, 51, 100]).exponential();
        assert_eq!((scale, zeros), (4, 2));
        // 50% ends bucket −17, and 51% is in the next; 100% ends bucket −1.
        assert_eq!(offset, -17);
        assert_eq!((counts.len(), counts[0], counts[1], counts[16]), (17, 1, 1, 1));
        assert_eq!((of(&[0]).exponential().offset, of(&[0]).exponential().counts.len()), (0, 0));
    }

    /// 5.04% is above 5%, whatever the width of the cells.
    #[test]
    fn fractional_utilization_is_counted_above_its_lower_bound() {
        let mut readings = Histogram::default();
        readings.record(Utilization::from_ppm(50_400).unwrap());
        assert_eq!(readings.fixed(), [0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    /// By logarithm, except at the bounds that are not powers of two, where that may be rounded.
    #[test]
    fn exponential_bounds_are_powers() {
        for (step, bound) in (-160_i32..).zip(EXPONENTIAL_BOUNDS) {
            let exact = f64::from(PPM) * f64::exp2(f64::from(step) / 16.0);
            assert!((f64::from(bound)..f64::from(bound + 1)).contains(&exact), "{step}: {exact}");
        }
        assert!(CELLS.is_sorted_by(|a, b| a < b));
        assert!(BOUNDS.iter().chain(&EXPONENTIAL_BOUNDS).all(|bound| CELLS.contains(bound)));
    }

    proptest! {
        /// A reading is counted in the bucket whose bounds contain it, in either histogram.
        #[test]
        fn reading_is_counted_between_its_bounds(
            ppm in prop_oneof![0..=PPM, 0..3_000_u32, (0..=100_u32).prop_map(|it| it * 10_000)],
        ) {
            let utilization = Utilization::from_ppm(ppm).unwrap();
            let mut readings = Histogram::default();
            readings.record(utilization);
            let counts = readings.fixed();
            let counted = counts.iter().position(|count| *count == 1).unwrap();
            prop_assert_eq!(counted, bucket(utilization));
            let ratio = f64::from(ppm) / 1e6;
            let bounds = bounds();
            prop_assert!(ratio <= bounds[counted]);
            prop_assert!(counted == 0 || bounds[counted - 1] < ratio);

            let Exponential { zero_threshold, zeros, offset, counts, .. } = readings.exponential();
            if ratio <= zero_threshold {
                prop_assert_eq!((zeros, counts.len()), (1, 0));
            } else {
                prop_assert_eq!((zeros, counts), (0, vec![1]));
                let end = |index: i32| f64::exp2(f64::from(index) / 16.0);
                prop_assert!(end(offset) < ratio && ratio <= end(offset + 1));
            }
        }

        #[test]
        fn buckets_count_every_reading(ppm in prop::collection::vec(0..=PPM, 0..200)) {
            let mut readings = Histogram::default();
            for ppm in &ppm {
                readings.record(Utilization::from_ppm(*ppm).unwrap());
            }
            let count = ppm.len() as u64;
            prop_assert_eq!(readings.readings().count, count);
            prop_assert_eq!(readings.fixed().iter().sum::<u64>(), count);
            let Exponential { zeros, counts, .. } = readings.exponential();
            prop_assert_eq!(zeros + counts.iter().sum::<u64>(), count);
        }
    }
}
