//! The distribution of utilization as the protocol's two kinds of histogram.
//!
//! Must not depend on the GPU or the time.

use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use phasemeter_meter::distribution::UtilizationDistribution;
use phasemeter_meter::units::{PPM, Utilization};

/// Upper bounds in ppm, inclusive: 0, 5, 10, 20 … 90, 95, 100%.
const BOUNDS: [u32; 13] = [
    0, 50_000, 100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000,
    950_000, 1_000_000,
];

/// One bucket per bound, and one above the last bound, always empty.
pub(super) const BUCKETS: usize = BOUNDS.len() + 1;

/// Exponential buckets grow by 2^(1 ÷ 2⁴) each. From 0.1% to 100% there are 160, the most that SDKs
/// use, so the scale never changes.
const SCALE: u8 = 4;

/// The bounds as fractions.
pub(super) fn bounds() -> Vec<f64> {
    BOUNDS.iter().map(|bound| f64::from(*bound) / f64::from(PPM)).collect()
}

/// The explicit bucket of a utilization.
pub(super) fn bucket(utilization: Utilization) -> usize {
    BOUNDS.partition_point(|bound| *bound < utilization.ppm())
}

/// Readings per explicit bucket.
pub(super) fn explicit(readings: &UtilizationDistribution) -> Vec<u64> {
    let mut counts = vec![0; BUCKETS];
    for (utilization, count) in readings.readings() {
        if let Some(bucket) = counts.get_mut(bucket(utilization)) {
            *bucket += count;
        }
    }
    counts
}

/// An exponential histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Exponential {
    /// Bucket i ends at 2^((i + 1) ÷ 2^scale), inclusive.
    pub(super) scale: i32,
    /// Readings of zero.
    pub(super) zeros: u64,
    /// Buckets from the lowest to the highest that is not empty.
    pub(super) buckets: Buckets,
}

/// Readings per exponential bucket.
pub(super) fn exponential(readings: &UtilizationDistribution) -> Exponential {
    let (mut zeros, mut buckets) = (0, Buckets::default());
    for (utilization, count) in readings.readings() {
        let Some(index) = exponential_index(utilization) else {
            zeros += count;
            continue;
        };
        if buckets.bucket_counts.is_empty() {
            buckets.offset = index;
        }
        // Readings come in ascending order, so no bucket lies before the first.
        let place = usize::try_from(index - buckets.offset).unwrap_or_default();
        if place >= buckets.bucket_counts.len() {
            buckets.bucket_counts.resize(place + 1, 0);
        }
        if let Some(bucket) = buckets.bucket_counts.get_mut(place) {
            *bucket += count;
        }
    }
    Exponential { scale: i32::from(SCALE), zeros, buckets }
}

/// The exponential bucket of a utilization; `None` for zero.
#[expect(clippy::cast_possible_truncation, reason = "between -320 and 0")]
fn exponential_index(utilization: Utilization) -> Option<i32> {
    let steps = f64::from(1_u32 << SCALE);
    (utilization > Utilization::ZERO)
        .then(|| (utilization.ratio().log2() * steps).ceil() as i32 - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(percents: &[u32]) -> UtilizationDistribution {
        let mut readings = UtilizationDistribution::default();
        for percent in percents {
            readings.record(Utilization::from_percent(*percent).unwrap());
        }
        readings
    }

    #[test]
    fn explicit_bucket_includes_upper_bound() {
        let counts = explicit(&of(&[0, 1, 5, 6, 10, 50, 95, 96, 100]));
        assert_eq!(counts, [1, 2, 2, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 0]);
        assert_eq!(bounds(), [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0]);
    }

    #[test]
    fn exponential_bucket_includes_upper_bound() {
        let Exponential { scale, zeros, buckets } = exponential(&of(&[0, 0, 50, 51, 100]));
        assert_eq!((scale, zeros), (4, 2));
        // 50% ends bucket −17, and 51% is in the next; 100% ends bucket −1.
        assert_eq!(buckets.offset, -17);
        let counts = &buckets.bucket_counts;
        assert_eq!((counts.len(), counts[0], counts[1], counts[16]), (17, 1, 1, 1));
    }

    proptest! {
        #[test]
        fn buckets_count_every_reading(ppm in prop::collection::vec(0..=PPM, 0..200)) {
            let mut readings = UtilizationDistribution::default();
            for ppm in &ppm {
                readings.record(Utilization::from_ppm(*ppm).unwrap());
            }
            prop_assert_eq!(explicit(&readings).iter().sum::<u64>(), ppm.len() as u64);
            let Exponential { zeros, buckets, .. } = exponential(&readings);
            let counted = zeros + buckets.bucket_counts.iter().sum::<u64>();
            prop_assert_eq!(counted, ppm.len() as u64);
            prop_assert!(buckets.bucket_counts.len() <= 160);
        }
    }
}
