//! What advice saves: fractions of a bill, low, expected and high.
//!
//! A saving is a part of waste that was measured, never a figure of its own. This room must not
//! know which lever it is for.

use crate::{Gpu, Saving};

/// From here on seconds count as productive, and from there as compute-bound: the bounds of the
/// phases themselves, so that nothing is promised that the next report would not show.
const PRODUCTIVE: f64 = 0.7;
const COMPUTE_BOUND: f64 = 0.9;

/// The most that is promised where a GPU is productive already: a tenth.
pub const MOST_HEADROOM: f64 = 0.1;

/// How busy a GPU that is not productive may be made: half the way to where it is, just there, and
/// to where it is compute-bound.
#[must_use]
pub fn targets(level: f64) -> [f64; 3] {
    [f64::midpoint(level, PRODUCTIVE), PRODUCTIVE, COMPUTE_BOUND]
}

/// The part of the waste that is gone when a GPU that was `level` busy does the same work `target`
/// busy, both 0–1.
///
/// Then it takes `level / target` of the time. Of each dollar `1 − level` was waste, and
/// `1 − level / target` is saved.
#[must_use]
pub fn recovered(level: f64, target: f64) -> f64 {
    if level >= target || target <= 0.0 {
        return 0.0;
    }
    ((1.0 - level / target) / (1.0 - level)).clamp(0.0, 1.0)
}

impl Saving {
    /// Nothing: advice that is worth taking for another reason.
    pub const NOTHING: Self = Self { low: 0.0, expected: 0.0, high: 0.0 };

    /// Three parts of a share of the bill that was lost, all 0–1.
    #[must_use]
    pub fn part(lost: f64, parts: [f64; 3]) -> Self {
        let lost = lost.clamp(0.0, 1.0);
        let [low, expected, high] = parts.map(|part| lost * part.clamp(0.0, 1.0));
        Self { low: low.min(expected), expected, high: high.max(expected) }
    }

    /// What is saved of the share `lost` when a GPU that was `level` busy is brought up to its
    /// [`targets`], and no further than `most`. Once it is productive nothing is certain any more,
    /// and a tenth is promised at most.
    #[must_use]
    pub fn by_filling(lost: f64, level: f64, most: f64) -> Self {
        if level < PRODUCTIVE {
            return Self::part(lost, targets(level).map(|to| recovered(level, to.min(most))));
        }
        let high = (lost * recovered(level, COMPUTE_BOUND.min(most))).min(MOST_HEADROOM);
        Self { low: 0.0, expected: high / 2.0, high }
    }

    /// The saving of several GPUs together, each by the weight of its bill.
    #[must_use]
    pub fn together<'a>(members: impl IntoIterator<Item = (&'a Gpu, Self)>) -> Self {
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
        if weights <= 0.0 { Self::NOTHING } else { Self::part(1.0, sums.map(|sum| sum / weights)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::steady;

    #[test]
    fn the_same_work_in_less_time_saves_what_it_no_longer_takes() {
        // Half busy to four fifths: 5/8 of the time, so 3/8 of the bill, of which half was waste.
        assert!((recovered(0.5, 0.8) - 0.75).abs() < 1e-12);
        assert_eq!(recovered(0.8, 0.8), 0.0);
        assert_eq!(recovered(1.0, 0.9), 0.0);
        // Up to 60, 70, 90 %: of half of the bill.
        let saving = Saving::by_filling(0.5, 0.5, 1.0);
        let parts = [saving.low, saving.expected, saving.high].map(|part| (part * 1e4).round());
        assert_eq!(parts, [1_667.0, 2_857.0, 4_444.0]);
        let bounded = Saving::by_filling(0.5, 0.5, 0.65);
        assert_eq!((bounded.low, bounded.expected), (saving.low, bounded.high));
    }

    #[test]
    fn a_productive_gpu_is_promised_a_tenth_at_most() {
        for level in [0.7, 0.75, 0.8, 0.85, 0.9, 1.0] {
            let saving = Saving::by_filling(1.0 - level, level, 1.0);
            assert!(saving.low == 0.0 && saving.high <= MOST_HEADROOM, "{level}: {saving:?}");
        }
    }

    #[test]
    fn together_weighs_by_the_bill() {
        let (long, short) = (steady(3_000, 0.5), steady(1_000, 0.5));
        let whole = Saving::part(1.0, [0.4, 0.4, 0.4]);
        let saving = Saving::together([(&long, whole), (&short, Saving::NOTHING)]);
        assert!((saving.expected - 0.3).abs() < 1e-12);
        assert_eq!(Saving::together([]).high, 0.0);
    }
}
