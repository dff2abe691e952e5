//! What a column says: a list of points, each the mean of a step, NaN where nothing was observed.
//!
//! A column that was not there, or in which nothing was observed, says nothing: `None`.

/// The points that were observed.
pub fn observed(column: &[f64]) -> impl Iterator<Item = f64> {
    column.iter().copied().filter(|value| !value.is_nan())
}

/// The largest.
#[must_use]
pub fn peak(column: &[f64]) -> Option<f64> {
    // A NaN is above nothing, so it needs no look of its own: this is most of what a policy does.
    let above = |most: f64, value: &f64| if *value > most { *value } else { most };
    let most = column.iter().fold(f64::NEG_INFINITY, above);
    (most > f64::NEG_INFINITY).then_some(most)
}

/// The mean.
#[must_use]
pub fn mean(column: &[f64]) -> Option<f64> {
    let (sum, count) = observed(column).fold((0.0, 0.0), |(sum, n), value| (sum + value, n + 1.0));
    (count > 0.0).then(|| sum / count)
}

/// The smallest value that at least `percent` of the points do not exceed.
#[must_use]
pub fn percentile(column: &[f64], percent: usize) -> Option<f64> {
    let mut points: Vec<_> = observed(column).collect();
    let rank = (points.len() * percent.min(100)).div_ceil(100).saturating_sub(1);
    if rank >= points.len() {
        return None;
    }
    Some(*points.select_nth_unstable_by(rank, f64::total_cmp).1)
}

/// The smallest and the largest mean of `parts` equal parts, of those in which anything was
/// observed: how far the level drifts, once what is quick is averaged away.
#[must_use]
pub fn drift(column: &[f64], parts: usize) -> Option<(f64, f64)> {
    let means = column.chunks(column.len().div_ceil(parts.max(1)).max(1)).filter_map(mean);
    means.fold(None, |range, mean| match range {
        None => Some((mean, mean)),
        Some((low, high)) => Some((f64::min(low, mean), f64::max(high, mean))),
    })
}

/// How many seconds each unbroken stretch below `level` lasts. A point that was not observed ends
/// one.
pub fn stretches_below(column: &[f64], step_seconds: f64, level: f64) -> impl Iterator<Item = f64> {
    let stretches = column.split(move |value| value.is_nan() || *value >= level);
    stretches
        .filter(|points| !points.is_empty())
        .map(move |points| points.len() as f64 * step_seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAN: f64 = f64::NAN;

    #[test]
    fn what_was_not_observed_is_left_out() {
        let column = [NAN, 1.0, 3.0, NAN, 2.0];
        assert_eq!((peak(&column), mean(&column)), (Some(3.0), Some(2.0)));
        assert_eq!(percentile(&column, 50), Some(2.0));
        assert_eq!(percentile(&column, 100), Some(3.0));
        assert_eq!(percentile(&column, 0), Some(1.0));
    }

    #[test]
    fn nothing_observed_says_nothing() {
        for column in [&[][..], &[NAN, NAN]] {
            assert_eq!((peak(column), mean(column), percentile(column, 95)), (None, None, None));
            assert_eq!((drift(column, 6), stretches_below(column, 1.0, 0.1).count()), (None, 0));
        }
    }

    #[test]
    fn a_stretch_ends_where_nothing_was_observed() {
        let column = [0.0, 0.05, 0.5, 0.0, NAN, 0.0, 0.0, 0.0];
        let stretches: Vec<_> = stretches_below(&column, 12.0, 0.1).collect();
        assert_eq!(stretches, [24.0, 12.0, 36.0]);
    }

    #[test]
    fn drift_is_between_the_parts_not_between_the_points() {
        let column = [0.0, 1.0, 0.0, 1.0, 0.2, 1.0];
        assert_eq!(drift(&column, 3), Some((0.5, 0.6)));
        assert_eq!(drift(&column[..4], 2), Some((0.5, 0.5)));
    }
}
