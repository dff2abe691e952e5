//! Bars: the utilization of each GPU over time, on a common axis.

use phasemeter_meter::phase::{Phase, Thresholds};
use phasemeter_meter::series::{Point, Recorded, Series};
use phasemeter_meter::units::{Nanos, PPM, Timestamp};
use phasemeter_meter::wall_time::WallOffset;

use super::input::Input;

/// Utilization levels, lowest first.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The GPU was metered, but its utilization is unknown.
const UNOBSERVED: char = '·';

/// The data of the bars.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    thresholds: Thresholds,
    wall: WallOffset,
    series: Vec<&'a Series>,
}

/// One column of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// A level, `·` for unobserved time, or a blank outside the span of the GPU.
    pub(super) glyph: char,
    /// The phase of the mean; `None` if nothing was observed.
    pub(super) phase: Option<Phase>,
}

impl<'a> Bars<'a> {
    /// One bar per GPU, in order.
    #[must_use]
    pub fn of(input: &Input<'a>) -> Self {
        let series = input.gpus.iter().map(|gpu| gpu.meter.series()).collect();
        Self { thresholds: input.thresholds, wall: input.wall, series }
    }

    /// The bar of the GPU at `index`, metered during `span`: the time of `axis` in `count` columns.
    /// Empty if `axis` is empty. Both are in wall time.
    pub(super) fn columns(
        &self,
        index: usize,
        span: (Timestamp, Timestamp),
        axis: (Timestamp, Timestamp),
        count: usize,
    ) -> Vec<Column> {
        let Some(series) = self.series.get(index) else { return Vec::new() };
        let instants = |(from, to)| (self.wall.instant(from), self.wall.instant(to));
        let (span, axis) = (instants(span), instants(axis));
        let edges = edges(axis, count);
        let columns = edges.iter().zip(edges.iter().skip(1));
        let mut points = series.points(Recorded::Utilization).peekable();
        columns
            .map(|(&from, &to)| {
                let mut mean = Mean::default();
                while let Some((at, point)) = points.peek() {
                    let end = *at + series.step();
                    let covered = ((*at).max(span.0), end.min(span.1));
                    mean.add_part(point, covered, (from, to));
                    if end > to {
                        break;
                    }
                    points.next();
                }
                self.column(mean, span.0 < to && from < span.1)
            })
            .collect()
    }

    fn column(&self, mean: Mean, metered: bool) -> Column {
        let Some(ppm) = mean.ppm() else {
            return Column { glyph: if metered { UNOBSERVED } else { ' ' }, phase: None };
        };
        let level = usize::try_from(ppm * LEVELS.len() as u64 / u64::from(PPM)).ok();
        let glyph = level.and_then(|level| LEVELS.get(level)).unwrap_or(&'█');
        let phase = self.thresholds.classify(ppm * Nanos::SECOND.0, Nanos::SECOND);
        Column { glyph: *glyph, phase: Some(phase) }
    }
}

/// The edges of the columns: `count` + 1 instants; empty if the time is.
fn edges((from, to): (Timestamp, Timestamp), count: usize) -> Vec<Timestamp> {
    let length = u128::from(to.since(from).0);
    if length == 0 || count == 0 {
        return Vec::new();
    }
    (0..=count)
        .map(|edge| length * edge as u128 / count as u128)
        .map(|offset| from + Nanos(u64::try_from(offset).unwrap_or(u64::MAX)))
        .collect()
}

/// The mean utilization of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    /// Observed time, in ns.
    observed: f64,
    /// Σ utilization × time, in ppm·ns.
    weighted: f64,
}

impl Mean {
    /// Adds the part of a point, spread evenly over `covered`, that lies in a column.
    fn add_part(
        &mut self,
        point: &Point,
        covered: (Timestamp, Timestamp),
        column: (Timestamp, Timestamp),
    ) {
        let overlap = covered.1.min(column.1).since(covered.0.max(column.0));
        if overlap > Nanos::ZERO {
            let part = overlap.0 as f64 / covered.1.since(covered.0).0 as f64;
            self.observed += point.observed.0 as f64 * part;
            self.weighted += point.weighted * part;
        }
    }

    /// The mean, to one ppm; `None` if nothing was observed.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to a million")]
    fn ppm(self) -> Option<u64> {
        (self.observed > 0.0).then(|| (self.weighted / self.observed).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_fleet::{START, TestGpu, every_second, input, lose, user_price};
    use super::*;

    fn bar(gpus: &[TestGpu], span: (u64, u64), axis: (u64, u64), count: usize) -> String {
        let at = |second| Timestamp::default() + Nanos::from_secs(START + second);
        let input = input("bar", gpus);
        let (span, axis) = ((at(span.0), at(span.1)), (at(axis.0), at(axis.1)));
        Bars::of(&input).columns(0, span, axis, count).iter().map(|column| column.glyph).collect()
    }

    /// A gap differs from low utilization, and from time outside the span of the GPU.
    #[test]
    fn idle_unobserved_and_outside_are_distinct() {
        let mut readings = every_second(40, |second| if second < 10 { 0 } else { 100 });
        lose(&mut readings, 20, 30);
        let gpus = [TestGpu::new(0, user_price("1"), &readings)];
        assert_eq!(bar(&gpus, (0, 40), (0, 40), 4), "▁█·█");
        assert_eq!(bar(&gpus, (0, 40), (0, 50), 5), "▁█·█ ");
        assert_eq!(bar(&gpus, (0, 40), (0, 40), 8), "▁▁██··██");
        assert_eq!(bar(&gpus, (0, 40), (0, 40), 2), "▅█", "the observed part of a column");
    }

    #[test]
    fn empty_axis_has_no_columns() {
        let gpus = [TestGpu::new(0, user_price("1"), &[])];
        assert_eq!(bar(&gpus, (0, 0), (0, 0), 48), "");
        assert_eq!(bar(&gpus, (0, 0), (0, 9), 0), "");
    }

    /// Points are wider than columns at first, narrower later; none is lost or counted twice.
    #[test]
    fn columns_narrower_than_points_repeat_them() {
        let readings = every_second(4, |second| if second < 2 { 100 } else { 50 });
        let gpus = [TestGpu::new(0, user_price("1"), &readings)];
        assert_eq!(bar(&gpus, (0, 4), (0, 4), 8), "████▅▅▅▅");
    }
}
