//! Intervals by block bootstrap: hours are drawn in blocks, since what an hour is like depends on the
//! hour before.
//!
//! The standard error is that of the redrawn statistics; the interval is that of Student's t with the
//! number of blocks less one as degrees of freedom, so that few blocks give a wide interval. The
//! generator is seeded, so that the same reports give the same interval. Must not depend on what a
//! statistic is about.

use super::normal::t_quantile;
use super::prng::Prng;
use super::run::Sums;

/// Settings of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The unit of work; `None` if both have only one in common.
    pub unit: Option<String>,
    /// Confidence level of intervals, between 0 and 1.
    pub level: f64,
    /// How often hours are redrawn.
    pub resamples: usize,
    /// Seed of the generator.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { unit: None, level: 0.95, resamples: 2_000, seed: 1 }
    }
}

/// A change from before to after.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The change: a ratio minus one, or a difference.
    pub value: f64,
    /// Its interval; `None` if hours are unknown.
    pub interval: Option<[f64; 2]>,
}

impl Change {
    /// Whether there is a difference at the level of the interval; `None` without one.
    #[must_use]
    pub fn is_significant(&self) -> Option<bool> {
        self.interval.map(|[low, high]| low > 0.0 || high < 0.0)
    }

    /// From the logarithm of a ratio to the ratio minus one.
    pub(super) fn exp(self) -> Self {
        Self { value: self.value.exp_m1(), interval: self.interval.map(|it| it.map(f64::exp_m1)) }
    }
}

/// Redrawn totals of both runs.
#[derive(Debug)]
pub(super) struct Bootstrap {
    redrawn: Vec<[Sums; 2]>,
    /// Half the width of an interval, in standard errors.
    quantile: f64,
}

impl Bootstrap {
    pub(super) fn of(hours: [&[Sums]; 2], options: &Options) -> Self {
        if hours.iter().any(|hours| hours.is_empty()) {
            return Self { redrawn: Vec::new(), quantile: 0.0 };
        }
        let mut prng = Prng::new(options.seed);
        let redrawn = (0..options.resamples).map(|_| hours.map(|hours| redraw(hours, &mut prng)));
        let redrawn = redrawn.collect();
        let blocks = hours.map(|hours| hours.len() as f64 / block_length(hours.len()) as f64);
        let degrees = (blocks[0].min(blocks[1]) - 1.0).max(2.0);
        // A sample of few blocks varies less than what it is drawn from.
        let widening = ((degrees + 1.0) / degrees).sqrt();
        Self { redrawn, quantile: t_quantile(options.level, degrees) * widening }
    }

    /// The change of a statistic.
    pub(super) fn change(
        &self,
        sums: &[Sums; 2],
        statistic: &dyn Fn(&Sums, &Sums) -> f64,
        has_interval: bool,
    ) -> Change {
        let value = statistic(&sums[0], &sums[1]);
        let redrawn: Vec<f64> = self.redrawn.iter().map(|[a, b]| statistic(a, b)).collect();
        let interval = has_interval.then(|| {
            let half = deviation(&redrawn) * self.quantile;
            [value - half, value + half]
        });
        Change { value, interval }
    }
}

/// Twice the cube root of the number of hours: shorter blocks understate how much dependent hours vary.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn block_length(hours: usize) -> usize {
    ((2.0 * (hours as f64).cbrt()).round() as usize).clamp(1, hours.max(1))
}

/// Totals of as many hours, in blocks that wrap around the end.
fn redraw(hours: &[Sums], prng: &mut Prng) -> Sums {
    let length = block_length(hours.len());
    let mut sums = Sums::default();
    let mut drawn = 0;
    while drawn < hours.len() {
        let start = prng.below(hours.len());
        for offset in 0..length.min(hours.len() - drawn) {
            if let Some(hour) = hours.get((start + offset) % hours.len()) {
                sums += hour;
            }
        }
        drawn += length;
    }
    sums
}

/// The standard deviation of finite values. A redrawn run without work has no unit cost.
fn deviation(values: &[f64]) -> f64 {
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let count = finite().count().max(2) as f64;
    let mean = finite().sum::<f64>() / count;
    (finite().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_grow_with_the_cube_root() {
        assert_eq!([1, 8, 27, 48, 97].map(block_length), [1, 4, 6, 7, 9]);
    }

    #[test]
    fn equal_hours_have_an_interval_without_width() {
        let hour = Sums { work: 10.0, cost: 2.0, hours: 1.0, ..Sums::default() };
        let hours = vec![hour; 20];
        let bootstrap = Bootstrap::of([&hours, &hours], &Options::default());
        let ratio = |a: &Sums, b: &Sums| (b.unit_cost() / a.unit_cost()).ln();
        let change = bootstrap.change(&[hour, hour], &ratio, true).exp();
        assert!(change.interval.is_some_and(|it| it.iter().all(|bound| bound.abs() < 1e-9)));
        assert_eq!(change.is_significant(), Some(false));
    }
}
