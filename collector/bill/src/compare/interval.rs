//! Confidence intervals of statistics over hours, each of which depends on the hours before.
//!
//! The effect of each hour on a statistic is its derivative (the infinitesimal jackknife). The variance of their sum is
//! the spectral density of the effects at frequency zero:
//!
//! 1. Dependence on the two hours before is removed (prewhitening).
//! 2. The density of the rest is the mean of its lowest cosine coefficients.
//! 3. The dependence is put back; if it is strong, its upper bound, since a few hours show it only roughly.
//!
//! The interval is that of Student's t with Welch's degrees of freedom, one per coefficient of each run, so few hours give
//! a wide interval. No random numbers are used: the same reports give the same interval.

use super::normal::t_quantile;
use super::run::Sums;

/// Settings of a comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The unit of work; `None` if both have only one in common.
    pub unit: Option<String>,
    /// Confidence level of intervals, between 0 and 1.
    pub level: f64,
    /// Whether the work moves to other GPUs, so that their number and model may differ.
    pub on_other_gpu: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { unit: None, level: 0.95, on_other_gpu: false }
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

/// A statistic of the totals before and after.
pub(super) type Statistic<'s> = &'s dyn Fn(&Sums, &Sums) -> f64;

/// Step of numeric derivatives, as a part of an hour.
const STEP: f64 = 1e-3;

/// Strongest dependence on the hours before: with more, hours tell almost nothing.
const MAX_DEPENDENCE: f64 = 0.95;

/// Persistence from which its upper bound counts, and from which that counts in full.
const PERSISTENT: f64 = 0.5;
const STRONGLY_PERSISTENT: f64 = 0.7;

/// Standard errors of that upper bound.
const ERRORS: f64 = 2.0;

/// Limit of correlations: beyond it, dependence on two hours cannot be distinguished from chance.
const MAX_CORRELATION: f64 = 0.97;

/// Maximum number of cosine coefficients.
const MAX_COEFFICIENTS: usize = 100;

/// Two runs, of which the hours may be known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hours<'a> {
    pub(super) sums: &'a [Sums; 2],
    pub(super) hours: [&'a [Sums]; 2],
    pub(super) level: f64,
}

impl Hours<'_> {
    /// The change of a statistic.
    pub(super) fn change(&self, statistic: Statistic<'_>, has_interval: bool) -> Change {
        let [before, after] = self.sums;
        let value = statistic(before, after);
        let interval = has_interval.then(|| {
            let effects = [0, 1].map(|run| self.effects(run, statistic));
            let half = half_width([&effects[0], &effects[1]], self.level);
            [value - half, value + half]
        });
        Change { value, interval }
    }

    /// How strongly each hour depends on those before, from 0 to 1.
    pub(super) fn dependence(&self, statistic: Statistic<'_>) -> f64 {
        let effects = [0, 1].map(|run| self.effects(run, statistic));
        dependence([&effects[0], &effects[1]]).iter().sum()
    }

    /// The effect of each hour of a run on a statistic; their mean is zero.
    fn effects(&self, run: usize, statistic: Statistic<'_>) -> Vec<f64> {
        let moved = |hour: &Sums, step: f64| {
            let mut sums = *self.sums;
            if let Some(sums) = sums.get_mut(run) {
                *sums += &hour.times(step);
            }
            statistic(&sums[0], &sums[1])
        };
        let hours = self.hours.get(run).copied().unwrap_or_default();
        let effect = |hour| (moved(hour, STEP) - moved(hour, -STEP)) / (2.0 * STEP);
        let mut effects: Vec<f64> = hours.iter().map(effect).collect();
        let mean = effects.iter().sum::<f64>() / effects.len().max(1) as f64;
        effects.iter_mut().for_each(|effect| *effect -= mean);
        effects
    }
}

/// Half the width of the interval of the sum of all effects.
fn half_width(effects: [&[f64]; 2], level: f64) -> f64 {
    let dependence = dependence(effects);
    let persistence = persistence(effects, dependence.iter().sum());
    let variances = effects.map(|effects| variance(effects, dependence, persistence));
    let sum = variances[0].0 + variances[1].0;
    if sum <= 0.0 {
        return 0.0;
    }
    let degrees = variances.map(|(variance, count)| variance.powi(2) / count as f64);
    t_quantile(level, sum.powi(2) / (degrees[0] + degrees[1])) * sum.sqrt()
}

/// Autoregression on the two hours before, of both runs together. Dependence on one hour is the least that is assumed, since two are less exact.
fn dependence(effects: [&[f64]; 2]) -> [f64; 2] {
    let (first, second) = (correlation(effects, 1), correlation(effects, 2));
    let one = first.clamp(0.0, MAX_DEPENDENCE);
    let limited = |it: f64| it.clamp(-MAX_CORRELATION, MAX_CORRELATION);
    let (first, second) = (limited(first), limited(second));
    // The equations of Yule and Walker.
    let rest = 1.0 - first.powi(2);
    let two = [first * (1.0 - second) / rest, (second - first.powi(2)) / rest];
    let sum: f64 = two.iter().sum();
    if sum > one { two.map(|it| it * (MAX_DEPENDENCE / sum).min(1.0)) } else { [one, 0.0] }
}

/// How much of an hour is in those after it, from 0 to 1: at least this dependence. With a strong one, the largest part per
/// hour that correlations over one to three hours allow, and two standard errors of it.
fn persistence(effects: [&[f64]; 2], dependence: f64) -> f64 {
    let [second, third] = [2, 3].map(|lag| correlation(effects, lag).max(0.0));
    let most = dependence.max(second.sqrt()).max(third.cbrt()).min(MAX_DEPENDENCE);
    let hours = (effects[0].len() + effects[1].len()) as f64;
    let bound = most + ERRORS * ((1.0 - most.powi(2)) / hours).sqrt();
    let weight = (most - PERSISTENT) / (STRONGLY_PERSISTENT - PERSISTENT);
    let bounded = dependence + weight.clamp(0.0, 1.0) * (bound - dependence);
    bounded.min(MAX_DEPENDENCE)
}

/// The correlation of an effect with that of so many hours before. That of a sample is too small by about
/// (1 + 3ρ) ÷ n, which is added.
fn correlation(effects: [&[f64]; 2], lag: usize) -> f64 {
    let products = |effects: &[f64]| {
        effects.iter().zip(effects.iter().skip(lag)).map(|(one, next)| one * next).sum::<f64>()
    };
    let squares = |effects: &[f64]| effects.iter().map(|effect| effect.powi(2)).sum::<f64>();
    let both = effects.map(squares);
    let correlation = (products(effects[0]) + products(effects[1])) / (both[0] + both[1]);
    let hours = (effects[0].len() + effects[1].len()) as f64 / 2.0;
    let corrected = (correlation * hours + 1.0) / (hours - 3.0);
    if corrected.is_finite() { corrected } else { 0.0 }
}

/// The variance of the sum of effects, and the number of coefficients it is from.
fn variance(effects: &[f64], [one, two]: [f64; 2], persistence: f64) -> (f64, usize) {
    let before = |at: usize, hours| {
        at.checked_sub(hours).and_then(|at| effects.get(at)).copied().unwrap_or_default()
    };
    let rest = |at| before(at, 0) - one * before(at, 1) - two * before(at, 2);
    let rest: Vec<f64> = (1..effects.len()).map(rest).collect();
    let (length, count) = (rest.len() as f64, coefficients(effects.len()));
    let coefficient = |number: usize| {
        let frequency = std::f64::consts::PI * number as f64 / length;
        let waves = (0..).map(|at: u32| (frequency * (f64::from(at) + 0.5)).cos());
        rest.iter().zip(waves).map(|(rest, wave)| rest * wave).sum::<f64>()
    };
    let squares = (1..=count).map(|number| coefficient(number).powi(2)).sum::<f64>();
    let density = 2.0 / length * squares / count as f64 / (1.0 - persistence).powi(2);
    (density * effects.len() as f64, count)
}

/// Number of coefficients: more are more exact, but less near frequency zero.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a small positive number"
)]
fn coefficients(hours: usize) -> usize {
    let hours = hours as f64;
    let count = (hours / 6.0).min(0.6 * hours.powf(2.0 / 3.0)).round() as usize;
    count.clamp(2, MAX_COEFFICIENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_coefficients_grows_more_slowly_than_hours() {
        assert_eq!([16, 24, 48, 168, 8_760].map(coefficients), [3, 4, 8, 18, 100]);
    }

    #[test]
    fn equal_hours_have_an_interval_without_width() {
        let hour = Sums { work: 10.0, cost: 2.0, hours: 1.0, ..Sums::default() };
        let hours = vec![hour; 20];
        let sums = [hour.times(20.0); 2];
        let runs = Hours { sums: &sums, hours: [&hours, &hours], level: 0.95 };
        let ratio = |a: &Sums, b: &Sums| (b.unit_cost() / a.unit_cost()).ln();
        let change = runs.change(&ratio, true).exp();
        assert!(change.interval.is_some_and(|it| it.iter().all(|bound| bound.abs() < 1e-9)));
        assert_eq!(runs.change(&ratio, false).interval, None);
    }

    /// The effects of a mean are its values, and of alternating ones the variance at frequency zero is
    /// nearly nothing: dependence is not taken for negative.
    #[test]
    fn dependence_is_found_and_never_negative() {
        let alternating: Vec<f64> = (0..48).map(|at| f64::from(at % 2 * 2 - 1)).collect();
        let of = |effects: &[f64]| dependence([effects, effects]).iter().sum::<f64>();
        assert!(of(&alternating).abs() < 1e-9);
        let slow: Vec<f64> = (0..48).map(|at| f64::from(at / 24 * 2 - 1)).collect();
        assert!((of(&slow) - MAX_DEPENDENCE).abs() < 1e-9);
        assert!(
            variance(&slow, [0.5, 0.0], 0.5).0 > 100.0 * variance(&alternating, [0.0; 2], 0.0).0
        );
    }
}
