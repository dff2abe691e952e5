//! Histogram of power readings: percentiles in half a kilobyte, whatever the GPU draws.

use crate::units::Milliwatts;

/// Bins per power of two: a bin is at most 6.25% wide.
const STEPS: usize = 16;

/// log₂ of the lowest power that has a bin of its own, in milliwatts: 16 W.
const FIRST: u32 = 14;

/// Powers of two: up to 2,097 W. Power beyond is counted in the first or the last bin.
const OCTAVES: usize = 7;

const BINS: usize = OCTAVES * STEPS;

/// Counts power readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerHistogram {
    bins: [u32; BINS],
    max: Option<Milliwatts>,
}

impl Default for PowerHistogram {
    fn default() -> Self {
        Self { bins: [0; BINS], max: None }
    }
}

impl PowerHistogram {
    #[inline]
    pub(crate) fn record(&mut self, power: Milliwatts) {
        self.max = self.max.max(Some(power));
        if let Some(count) = self.bins.get_mut(bin(power)) {
            *count = count.saturating_add(1);
        }
    }

    /// The readings since an earlier state. The maximum is of the whole run.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        for (count, earlier) in self.bins.iter_mut().zip(earlier.bins) {
            *count -= earlier;
        }
        self
    }

    /// The power that at least `percent` of the readings do not exceed, in watts: the middle of its
    /// bin, at most 3% off. `None` without readings.
    #[must_use]
    pub fn percentile(&self, percent: u32) -> Option<f64> {
        let all: u64 = self.bins.iter().copied().map(u64::from).sum();
        let rank = (all * u64::from(percent.min(100))).div_ceil(100).max(1);
        let mut sum = 0;
        let found = self.bins.iter().position(|count| {
            sum += u64::from(*count);
            sum >= rank
        })?;
        let max = self.max?.watts();
        Some(((start(found) + start(found + 1)) / 2.0).min(max))
    }

    /// The maximum in watts; `None` without readings.
    #[must_use]
    pub fn max(&self) -> Option<f64> {
        self.bins.iter().any(|count| *count > 0).then_some(self.max?.watts())
    }
}

/// The bin of a power: the octave, and the four bits after the first one.
fn bin(power: Milliwatts) -> usize {
    let power = power.get().max(1 << FIRST);
    let octave = power.ilog2();
    let step = (power >> (octave - STEPS.ilog2())) as usize % STEPS;
    ((octave - FIRST) as usize * STEPS + step).min(BINS - 1)
}

/// The start of a bin, in watts.
#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn start(bin: usize) -> f64 {
    let whole = f64::from(1_u32 << FIRST) * f64::exp2((bin / STEPS) as f64);
    whole * (1.0 + (bin % STEPS) as f64 / STEPS as f64) / 1_000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(watts: &[u32]) -> PowerHistogram {
        let mut histogram = PowerHistogram::default();
        for watts in watts {
            histogram.record(Milliwatts::new(watts * 1_000).unwrap());
        }
        histogram
    }

    #[test]
    fn percentiles_since_a_state_leave_out_what_was_before() {
        let before = of(&[700; 50]);
        let mut all = before;
        (0..10).for_each(|_| all.record(Milliwatts::new(100_000).unwrap()));
        let since = all.since(&before);
        assert!((since.percentile(95).unwrap() - 100.0).abs() < 4.0);
        assert_eq!(since.max(), Some(700.0));
        assert_eq!(
            (before.since(&before).percentile(50), before.since(&before).max()),
            (None, None)
        );
    }

    #[test]
    fn extreme_power_is_counted() {
        let histogram = of(&[0, 1, 5_000]);
        assert_eq!(histogram.percentile(100).map(|watts| watts > 1_900.0), Some(true));
        assert!(histogram.percentile(1).unwrap() < 17.0);
    }

    proptest! {
        /// Between 16 and 2,000 W, a percentile is within 3.2% of that of the sorted readings.
        #[test]
        fn percentile_is_close(mut watts in prop::collection::vec(17..2_000_u32, 1..200), percent in 1..=100_u32) {
            let found = of(&watts).percentile(percent).unwrap();
            watts.sort_unstable();
            let rank = (watts.len() * percent as usize).div_ceil(100) - 1;
            let exact = f64::from(watts[rank]);
            prop_assert!((found - exact).abs() <= 0.032 * exact, "{found} {exact}");
        }
    }
}
