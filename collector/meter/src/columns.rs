//! Columns: the series of several GPUs as means on one grid, the input of policies.
//!
//! Accounts stay integers; a mean is a float.

use crate::series::{POINTS, Point, Recorded, Series};
use crate::units::{Nanos, PPM, Timestamp};

/// The time grid of columns: points begin at `start` and every `step` from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Start of the first point, a multiple of `step` since the epoch.
    pub start: Timestamp,
    /// Distance between points: a power of two, in whole seconds.
    pub step: Nanos,
    /// Number of points, at most [`POINTS`].
    pub points: usize,
}

impl Grid {
    /// The finest grid that fits the time from `from` to `to` and aligns with every point of
    /// `series`.
    #[must_use]
    pub fn over<'a>(
        from: Timestamp,
        to: Timestamp,
        series: impl IntoIterator<Item = &'a Series>,
    ) -> Self {
        let steps = series.into_iter().map(Series::step);
        let mut step = steps.max().unwrap_or(Nanos::SECOND);
        loop {
            let start = from.floor(step);
            match usize::try_from(to.since(start).0.div_ceil(step.0)) {
                Ok(points) if points <= POINTS => return Self { start, step, points },
                _ => step = step.saturating_mul(2),
            }
        }
    }

    fn index_of(&self, at: Timestamp) -> Option<usize> {
        usize::try_from(at.as_nanos().checked_sub(self.start.as_nanos())? / self.step.0).ok()
    }
}

/// The columns of one GPU on a grid. Each has all points, NaN if unobserved, or is empty if the
/// quantity was never observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    /// Mean utilization, 0–1.
    pub utilization: Vec<f64>,
    /// Mean power in watts.
    pub power: Vec<f64>,
    /// Mean memory in use, in bytes.
    pub memory: Vec<f64>,
}

impl Columns {
    /// The part of `series` on the grid.
    #[must_use]
    pub fn of(series: &Series, grid: &Grid) -> Self {
        Self {
            utilization: column(series, Recorded::Utilization, grid, f64::from(PPM)),
            power: column(series, Recorded::Power, grid, 1_000.0),
            memory: column(series, Recorded::Memory, grid, 1.0),
        }
    }
}

/// `unit`: units of the quantity per unit of the column.
#[expect(clippy::cast_precision_loss, reason = "means for evaluation, not for accounts")]
fn column(series: &Series, quantity: Recorded, grid: &Grid, unit: f64) -> Vec<f64> {
    let mut points = series.points(quantity).peekable();
    if points.peek().is_none() {
        return Vec::new();
    }
    let mut sums = vec![Point::default(); grid.points];
    for (at, point) in points {
        if let Some(sum) = grid.index_of(at).and_then(|index| sums.get_mut(index)) {
            sum.add(point);
        }
    }
    let mean = |sum: &Point| match sum.observed {
        Nanos::ZERO => f64::NAN,
        observed => sum.weighted / (observed.0 as f64 * unit),
    };
    sums.iter().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::NANOS_PER_SECOND;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * NANOS_PER_SECOND).unwrap()
    }

    #[test]
    fn unobserved_point_is_nan_and_missing_quantity_is_empty() {
        let mut series = Series::new(at(10));
        series.record(Recorded::Utilization, at(10), at(12), 250_000);
        series.record(Recorded::Utilization, at(13), at(14), 1_000_000);
        series.record(Recorded::Power, at(12), at(13), 300_500);
        let grid = Grid::over(at(10), at(15), [&series]);
        assert_eq!(grid, Grid { start: at(10), step: Nanos::SECOND, points: 5 });
        let columns = Columns::of(&series, &grid);
        assert_eq!(format!("{:?}", columns.utilization), "[0.25, 0.25, NaN, 1.0, NaN]");
        assert_eq!(format!("{:?}", columns.power), "[NaN, NaN, 300.5, NaN, NaN]");
        assert!(columns.memory.is_empty());
    }

    #[test]
    fn empty_range_has_no_points() {
        let series = Series::new(at(7));
        let grid = Grid::over(at(7), at(7), [&series]);
        assert_eq!(grid.points, 0);
        assert_eq!(Columns::of(&series, &grid), Columns::default());
    }

    proptest! {
        /// GPUs of any start and length are on one grid, and each of their seconds is in its point.
        #[test]
        fn each_second_is_in_its_point(
            gpus in prop::collection::vec((0_u64..3_000, 1_u64..3_000), 1..4),
        ) {
            let value = |second: u64| second * 7_919 % 1_000;
            let series: Vec<_> = gpus
                .iter()
                .map(|&(from, length)| {
                    let mut series = Series::new(at(from));
                    for second in from..from + length {
                        let (from, to) = (at(second), at(second + 1));
                        series.record(Recorded::Memory, from, to, value(second));
                    }
                    series
                })
                .collect();
            let from = gpus.iter().map(|(from, _)| *from).min().unwrap();
            let to = gpus.iter().map(|(from, length)| from + length).max().unwrap();
            let grid = Grid::over(at(from), at(to), &series);
            let step = grid.step.0 / NANOS_PER_SECOND;
            prop_assert!(grid.points <= POINTS && grid.start <= at(from));
            for (series, &(from, length)) in series.iter().zip(&gpus) {
                let memory = Columns::of(series, &grid).memory;
                prop_assert_eq!(memory.len(), grid.points);
                for (point, mean) in (0..).zip(memory) {
                    let begin = grid.start.whole_second() + point * step;
                    let seconds = begin.max(from)..(begin + step).min(from + length);
                    let values: Vec<_> = seconds.map(value).collect();
                    match values.len() {
                        0 => prop_assert!(mean.is_nan()),
                        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
                        count => {
                            let expected = values.iter().sum::<u64>() as f64 / count as f64;
                            // Series have single precision.
                            prop_assert!((mean - expected).abs() <= expected * 1e-6);
                        }
                    }
                }
            }
        }
    }
}
