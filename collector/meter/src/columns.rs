//! The series of several GPUs side by side: columns of means on one grid, as policies see them.
//!
//! Money and accounts stay integers; a mean is for judging, so it is a float. This room must not
//! know who judges.

use crate::series::{POINTS, Point, Quantity, Series};
use crate::units::{Nanos, PPM, Timestamp};

/// Where the points of columns stand: the first at `start`, each `step` after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Where the first point begins: a multiple of `step` since the epoch.
    pub start: Timestamp,
    /// From one point to the next: whole seconds, a power of two of them.
    pub step: Nanos,
    /// How many there are: at most [`POINTS`].
    pub points: usize,
}

impl Grid {
    /// The finest grid on which the time from `from` to `to` and every point of `series` fits.
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

    fn place(&self, at: Timestamp) -> Option<usize> {
        usize::try_from(at.as_nanos().checked_sub(self.start.as_nanos())? / self.step.0).ok()
    }
}

/// The columns of one GPU on a grid. Each has all its points, NaN where nothing was observed, or is
/// empty where nothing was ever observed.
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
    /// What of `series` lies on the grid.
    #[must_use]
    pub fn of(series: &Series, grid: &Grid) -> Self {
        Self {
            utilization: column(series, Quantity::Utilization, grid, f64::from(PPM)),
            power: column(series, Quantity::Power, grid, 1_000.0),
            memory: column(series, Quantity::Memory, grid, 1.0),
        }
    }
}

/// `unit`: so many of the quantity's own are one of the column's.
#[expect(clippy::cast_precision_loss, reason = "means are for judging")]
fn column(series: &Series, quantity: Quantity, grid: &Grid, unit: f64) -> Vec<f64> {
    let mut points = series.points(quantity).peekable();
    if points.peek().is_none() {
        return Vec::new();
    }
    let mut sums = vec![Point::default(); grid.points];
    for (at, point) in points {
        if let Some(sum) = grid.place(at).and_then(|place| sums.get_mut(place)) {
            sum.add(point);
        }
    }
    let mean = |sum: &Point| match sum.observed {
        Nanos::ZERO => f64::NAN,
        observed => sum.weighted as f64 / (observed.0 as f64 * unit),
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
    fn what_was_not_observed_is_no_number_and_a_column_that_was_not_there_is_empty() {
        let mut series = Series::new(at(10));
        series.hold(Quantity::Utilization, at(10), at(12), 250_000);
        series.hold(Quantity::Utilization, at(13), at(14), 1_000_000);
        series.hold(Quantity::Power, at(12), at(13), 300_500);
        let grid = Grid::over(at(10), at(15), [&series]);
        assert_eq!(grid, Grid { start: at(10), step: Nanos::SECOND, points: 5 });
        let columns = Columns::of(&series, &grid);
        assert_eq!(format!("{:?}", columns.utilization), "[0.25, 0.25, NaN, 1.0, NaN]");
        assert_eq!(format!("{:?}", columns.power), "[NaN, NaN, 300.5, NaN, NaN]");
        assert!(columns.memory.is_empty());
    }

    #[test]
    fn no_time_has_no_points() {
        let series = Series::new(at(7));
        let grid = Grid::over(at(7), at(7), [&series]);
        assert_eq!(grid.points, 0);
        assert_eq!(Columns::of(&series, &grid), Columns::default());
    }

    proptest! {
        /// GPUs that began when they liked and reach as far as they like stand on one grid, and
        /// each second of them in its point.
        #[test]
        fn every_second_stands_in_its_point(
            gpus in prop::collection::vec((0_u64..3_000, 1_u64..3_000), 1..4),
        ) {
            let value = |second: u64| second * 7_919 % 1_000;
            let series: Vec<_> = gpus
                .iter()
                .map(|&(from, length)| {
                    let mut series = Series::new(at(from));
                    for second in from..from + length {
                        let (from, to) = (at(second), at(second + 1));
                        series.hold(Quantity::Memory, from, to, value(second));
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
                            prop_assert!((mean - expected).abs() < 1e-6);
                        }
                    }
                }
            }
        }
    }
}
