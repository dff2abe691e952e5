//! Computes savings: low, expected and high fractions of a bill.
//!
//! A saving is always a part of measured waste.

use crate::{Gpu, Saving, Thresholds};

/// Maximum saving if a GPU is already productive: a tenth of the bill.
pub const MAX_HEADROOM: f64 = 0.1;

/// Returns the loads that a GPU below the productive phase can reach: halfway to productive, just
/// productive, and compute-bound. Savings use the bounds of the report, so that the next one can confirm them.
#[must_use]
pub fn target_loads(level: f64, bounds: Thresholds) -> [f64; 3] {
    [f64::midpoint(level, bounds.productive), bounds.productive, bounds.compute_bound]
}

/// Returns the share of the waste that is recovered if a GPU does the same work at utilization
/// `target` instead of `level`, both 0–1.
///
/// The work then takes `level / target` of the time. Of each dollar, `1 − level` was waste and
/// `1 − level / target` is saved.
#[must_use]
pub fn recovered(level: f64, target: f64) -> f64 {
    if level >= target || target <= 0.0 {
        return 0.0;
    }
    ((1.0 - level / target) / (1.0 - level)).clamp(0.0, 1.0)
}

impl Saving {
    /// No saving: the recommendation has another benefit.
    pub const NONE: Self = Self { low: 0.0, expected: 0.0, high: 0.0 };

    /// Returns three parts, low to high, of a lost share of the bill, all 0–1.
    #[must_use]
    pub fn part(lost: f64, parts: [f64; 3]) -> Self {
        let lost = lost.clamp(0.0, 1.0);
        let [low, expected, high] = parts.map(|part| lost * part.clamp(0.0, 1.0));
        Self { low: low.min(expected), expected, high: high.max(expected) }
    }

    /// Returns the saving from raising a GPU's utilization from `level` to its [`target_loads`], but
    /// not above `max`; `lost` is the wasted share of the bill. For a GPU that is already productive,
    /// low is 0 and high is at most [`MAX_HEADROOM`].
    #[must_use]
    pub fn from_target_load(lost: f64, level: f64, max: f64, bounds: Thresholds) -> Self {
        if level < bounds.productive {
            let targets = target_loads(level, bounds);
            return Self::part(lost, targets.map(|target| recovered(level, target.min(max))));
        }
        let high = (lost * recovered(level, bounds.compute_bound.min(max))).min(MAX_HEADROOM);
        Self { low: 0.0, expected: 0.5 * high, high }
    }

    /// Returns the saving if it depends on a trial, another tenant or a quote: low is 0.
    #[must_use]
    pub fn uncertain(self) -> Self {
        Self { low: 0.0, ..self }
    }

    /// Combines the savings of several GPUs, weighted by their bills.
    #[must_use]
    pub fn combined<'a>(members: impl IntoIterator<Item = (&'a Gpu, Self)>) -> Self {
        let mut sums = [0.0; 3];
        let mut weights = 0.0;
        for (gpu, saving) in members {
            let weight = gpu.weight();
            weights += weight;
            let parts = [saving.low, saving.expected, saving.high];
            for (sum, part) in sums.iter_mut().zip(parts) {
                *sum += weight * part;
            }
        }
        if weights <= 0.0 { Self::NONE } else { Self::part(1.0, sums.map(|sum| sum / weights)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::steady;

    #[test]
    fn recovered_is_the_share_of_waste_that_a_higher_load_saves() {
        // From 50% to 80%: 5/8 of the time, so 3/8 of the bill is saved, and half of it was waste.
        assert!((recovered(0.5, 0.8) - 0.75).abs() < 1e-12);
        assert_eq!(recovered(0.8, 0.8), 0.0);
        assert_eq!(recovered(1.0, 0.9), 0.0);
        // From 50% to 60%, 70% and 90%, with half of the bill lost.
        let saving = Saving::from_target_load(0.5, 0.5, 1.0, Thresholds::default());
        let parts = [saving.low, saving.expected, saving.high].map(|part| (part * 1e4).round());
        assert_eq!(parts, [1_667.0, 2_857.0, 4_444.0]);
        let bounded = Saving::from_target_load(0.5, 0.5, 0.65, Thresholds::default());
        assert_eq!((bounded.low, bounded.expected), (saving.low, bounded.high));
    }

    #[test]
    fn productive_gpu_saves_at_most_max_headroom() {
        for level in [0.7, 0.75, 0.8, 0.85, 0.9, 1.0] {
            let saving = Saving::from_target_load(1.0 - level, level, 1.0, Thresholds::default());
            assert!(saving.low == 0.0 && saving.high <= MAX_HEADROOM, "{level}: {saving:?}");
        }
    }

    #[test]
    fn combined_weights_by_bill() {
        let (long, short) = (steady(3_000, 0.5), steady(1_000, 0.5));
        let whole = Saving::part(1.0, [0.4, 0.4, 0.4]);
        let saving = Saving::combined([(&long, whole), (&short, Saving::NONE)]);
        assert!((saving.expected - 0.3).abs() < 1e-12);
        assert_eq!(Saving::combined([]).high, 0.0);
    }
}
