//! What advice saves: fractions of a bill, low, expected and high.
//!
//! A saving is a part of waste that was measured, never a figure of its own. This room must not
//! know which lever it is for.

use crate::{Gpu, Saving};

/// The levels that a GPU which is not filled may be brought to: where seconds begin to count as
/// productive, the middle of that, and where they begin to count as compute-bound. The bounds of
/// the phases themselves, so that nothing is promised that the next report would not show.
const LEVELS: [f64; 3] = [0.7, 0.8, 0.9];

/// The most that is promised where a GPU is productive already: a tenth.
pub const MOST_HEADROOM: f64 = 0.1;

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

    /// What is saved of the share `lost` when a GPU that was `level` busy is brought to where it
    /// is productive: up to 70, 80, 90 % busy. From 70 % on it is that already: nothing is
    /// certain then, and at most a tenth is promised.
    #[must_use]
    pub fn by_filling(lost: f64, level: f64) -> Self {
        let parts = LEVELS.map(|target| recovered(level, target));
        let [productive, ..] = LEVELS;
        if level < productive {
            return Self::part(lost, parts);
        }
        let high = (lost * parts[2]).min(MOST_HEADROOM);
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
        let saving = Saving::by_filling(0.5, 0.5);
        assert!((saving.expected - 0.375).abs() < 1e-12);
        assert!(saving.low < saving.expected && saving.expected < saving.high);
    }

    #[test]
    fn a_productive_gpu_is_promised_a_tenth_at_most() {
        for level in [0.7, 0.75, 0.8, 0.85, 0.9, 1.0] {
            let saving = Saving::by_filling(1.0 - level, level);
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
