//! Statistics of columns: lists of points, each the mean of one step, NaN if unobserved.
//!
//! All return `None` if a column is empty or entirely unobserved.

/// Returns the observed points.
pub fn observed(column: &[f64]) -> impl Iterator<Item = f64> {
    column.iter().copied().filter(|value| !value.is_nan())
}

/// Returns the maximum.
#[must_use]
pub fn peak(column: &[f64]) -> Option<f64> {
    // Hot loop: no NaN check, because NaN never compares greater.
    let max = |max: f64, value: &f64| if *value > max { *value } else { max };
    let max = column.iter().fold(f64::NEG_INFINITY, max);
    (max > f64::NEG_INFINITY).then_some(max)
}

/// Returns the mean.
#[must_use]
pub fn mean(column: &[f64]) -> Option<f64> {
    let (sum, count) = observed(column).fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// Returns the smallest value that at least `percent` of the points do not exceed.
#[must_use]
pub fn percentile(column: &[f64], percent: usize) -> Option<f64> {
    let mut points: Vec<_> = observed(column).collect();
    let rank = (points.len() * percent.min(100)).div_ceil(100).saturating_sub(1);
    if rank >= points.len() {
        return None;
    }
    Some(*points.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// Splits the column into `parts` equal parts and returns the smallest and the largest of their
/// means: the drift of the level, without short-term variation.
#[must_use]
pub fn drift(column: &[f64], parts: usize) -> Option<(f64, f64)> {
    let means = column.chunks(column.len().div_ceil(parts.max(1)).max(1)).filter_map(mean);
    means.fold(None, |range, mean| match range {
        None => Some((mean, mean)),
        Some((low, high)) => Some((f64::min(low, mean), f64::max(high, mean))),
    })
}

/// Points that a correlation is computed from: so many of all columns together, but at least so many of each.
const CORRELATED_POINTS: usize = 512;
const POINTS_OF_EACH: usize = 64;

/// Returns the mean covariance of all pairs of columns, relative to their mean variance: 1 if all rise and fall
/// by the same amounts, 0 if they are unrelated, at least −1. Points that are unobserved in one column are left
/// out. `None` if all are constant, or if there are fewer than two columns.
///
/// Computed from the variance of the sum of the columns, at points that are spread irregularly, so that they
/// meet every part of a cycle.
#[must_use]
pub fn mean_correlation(columns: &[&[f64]]) -> Option<f64> {
    let length = columns.iter().map(|column| column.len()).min()?;
    let count = columns.len() as f64;
    let mut points = 0.0;
    let mut own = vec![(0.0, 0.0); columns.len()];
    let (mut total, mut squares) = (0.0, 0.0);
    for point in spread_points(length, columns.len()) {
        let sum: f64 = columns.iter().map(|column| column[point]).sum();
        if sum.is_nan() {
            continue;
        }
        points += 1.0;
        total += sum;
        squares += sum * sum;
        for (own, column) in own.iter_mut().zip(columns) {
            own.0 += column[point];
            own.1 += column[point] * column[point];
        }
    }
    let variance = |(total, squares): (f64, f64)| squares - total * total / points;
    let own: f64 = own.into_iter().map(variance).sum();
    (count > 1.0 && own > 0.0).then(|| (variance((total, squares)) / own - 1.0) / (count - 1.0))
}

/// Returns the correlation of two columns, −1 to 1, in any units, at points that are spread irregularly. Points that
/// are unobserved in one of them are left out. `None` if one is constant.
#[must_use]
pub fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let pairs = || {
        let pairs = spread_points(a.len().min(b.len()), 2).map(|point| (a[point], b[point]));
        pairs.filter(|(a, b)| !a.is_nan() && !b.is_nan())
    };
    let count = pairs().count().max(1) as f64;
    let sums = pairs().fold((0.0, 0.0), |sums, (a, b)| (sums.0 + a, sums.1 + b));
    let (mean_a, mean_b) = (sums.0 / count, sums.1 / count);
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (a, b) in pairs() {
        let (a, b) = (a - mean_a, b - mean_b);
        ab += a * b;
        aa += a * a;
        bb += b * b;
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

/// Points of columns of this length that are spread irregularly, so that they meet every part of a cycle.
fn spread_points(length: usize, columns: usize) -> impl Iterator<Item = usize> {
    let parts = length.min(POINTS_OF_EACH.max(CORRELATED_POINTS / columns));
    (0..parts).map(move |part| {
        let (start, end) = (part * length / parts, (part + 1) * length / parts);
        start + part * part % (end - start)
    })
}

/// Returns the duration in seconds of each contiguous period below `level`. An unobserved point ends
/// a period.
pub fn periods_below(column: &[f64], step_seconds: f64, level: f64) -> impl Iterator<Item = f64> {
    let periods = column.split(move |value| value.is_nan() || *value >= level);
    periods
        .filter(|points| !points.is_empty())
        .map(move |points| points.len() as f64 * step_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;

    #[test]
    fn mean_correlation_is_of_all_pairs() {
        let (rising, falling) = ([1.0, 2.0, 3.0, 6.0], [-1.0, -2.0, -3.0, -6.0]);
        let near = |columns: &[&[f64]], expected: f64| {
            let found = mean_correlation(columns).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found}");
        };
        near(&[&rising, &rising], 1.0);
        near(&[&rising, &falling], -1.0);
        // One pair of three rises and falls together.
        near(&[&rising, &rising, &falling], -1.0 / 3.0);
        near(&[&[1.0, -1.0, 1.0, -1.0], &[1.0, 1.0, -1.0, -1.0]], 0.0);
        // Only points that are observed in both.
        near(&[&[NAN, 1.0, -1.0, -1.0], &[-1.0, 1.0, NAN, -1.0]], 1.0);
        for columns in [&[&rising[..]][..], &[&[3.0; 4], &[4.0; 4]], &[&[NAN; 4], &rising], &[]] {
            assert_eq!(mean_correlation(columns), None);
        }
    }

    #[test]
    fn correlation_does_not_depend_on_units() {
        let near = |a: &[f64], b: &[f64], expected: f64| {
            let found = correlation(a, b).unwrap();
            assert!((found - expected).abs() < 1e-9, "{found}");
        };
        near(&[0.1, 0.9, 0.1, 0.9], &[200.0, 600.0, 200.0, 600.0], 1.0);
        near(&[0.1, 0.9, 0.5], &[600.0, 200.0, 400.0], -1.0);
        near(&[0.0, 1.0, 0.0, 1.0], &[5.0, 5.0, 9.0, 9.0], 0.0);
        near(&[NAN, 1.0, 2.0, 3.0], &[7.0, 10.0, NAN, 30.0], 1.0);
        let long: Vec<_> = (0..600).map(|at| f64::from(u8::from(at % 3 == 0))).collect();
        near(&long, &long, 1.0);
        for (a, b) in [(&[1.0, 1.0][..], &[1.0, 2.0][..]), (&[], &[1.0]), (&[NAN], &[NAN])] {
            assert_eq!(correlation(a, b), None);
        }
    }

    #[test]
    fn statistics_ignore_unobserved_points() {
        let column = [NAN, 1.0, 3.0, NAN, 2.0];
        assert_eq!((peak(&column), mean(&column)), (Some(3.0), Some(2.0)));
        assert_eq!(percentile(&column, 50), Some(2.0));
        assert_eq!(percentile(&column, 100), Some(3.0));
        assert_eq!(percentile(&column, 0), Some(1.0));
    }

    #[test]
    fn statistics_of_unobserved_column_are_none() {
        for column in [&[][..], &[NAN, NAN]] {
            assert_eq!((peak(column), mean(column), percentile(column, 95)), (None, None, None));
            assert_eq!((drift(column, 6), periods_below(column, 1.0, 0.1).count()), (None, 0));
        }
    }

    #[test]
    fn periods_end_at_unobserved_points() {
        let column = [0.0, 0.05, 0.5, 0.0, NAN, 0.0, 0.0, 0.0];
        let periods: Vec<_> = periods_below(&column, 12.0, 0.1).collect();
        assert_eq!(periods, [24.0, 12.0, 36.0]);
    }

    #[test]
    fn drift_compares_means_of_parts() {
        let column = [0.0, 1.0, 0.0, 1.0, 0.2, 1.0];
        assert_eq!(drift(&column, 3), Some((0.5, 0.6)));
        assert_eq!(drift(&column[..4], 2), Some((0.5, 0.5)));
    }
}
