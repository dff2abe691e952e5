//! Bars: the utilization of each GPU over time, on one axis for all of them.
//!
//! This room must not know where on a page a bar stands, or in what colours.

use phasemeter_meter::phase::{Phase, Thresholds};
use phasemeter_meter::series::{Point, Quantity, Series};
use phasemeter_meter::units::{Nanos, PPM, Timestamp};

use super::Input;

/// From the lowest utilization to the highest.
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The GPU was there, but its utilization is not known.
const UNOBSERVED: char = '·';

/// What bars are drawn from.
#[derive(Clone, Debug)]
pub struct Bars<'a> {
    thresholds: Thresholds,
    series: Vec<&'a Series>,
}

/// One column of a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// What stands there: a level, `·` for unobserved time, a blank outside of the GPU's time.
    pub(super) glyph: char,
    /// The phase of its mean; `None` where nothing was observed.
    pub(super) phase: Option<Phase>,
}

impl<'a> Bars<'a> {
    /// The bars of these GPUs, in their order.
    #[must_use]
    pub fn of(input: &Input<'a>) -> Self {
        let series = input.gpus.iter().map(|gpu| gpu.meter.series()).collect();
        Self { thresholds: input.thresholds, series }
    }

    /// The bar of the GPU at this place, which was there from the first instant of `span` to the
    /// last: the time of `axis` in `count` columns. Empty where either is no time at all.
    pub(super) fn columns(
        &self,
        place: usize,
        span: (Timestamp, Timestamp),
        axis: (Timestamp, Timestamp),
        count: usize,
    ) -> Vec<Column> {
        let Some(series) = self.series.get(place) else { return Vec::new() };
        let edges = edges(axis, count);
        let columns = edges.iter().zip(edges.iter().skip(1));
        let mut points = series.points(Quantity::Utilization).peekable();
        columns
            .map(|(&from, &to)| {
                let mut mean = Point::default();
                while let Some((at, point)) = points.peek() {
                    let end = *at + series.step();
                    let there = ((*at).max(span.0), end.min(span.1));
                    add_part(&mut mean, point, there, (from, to));
                    if end > to {
                        break;
                    }
                    points.next();
                }
                self.column(mean, span.0 < to && from < span.1)
            })
            .collect()
    }

    fn column(&self, mean: Point, there: bool) -> Column {
        let Some(ppm) = mean.mean().and_then(|ppm| u64::try_from(ppm).ok()) else {
            return Column { glyph: if there { UNOBSERVED } else { ' ' }, phase: None };
        };
        let level = usize::try_from(ppm * LEVELS.len() as u64 / u64::from(PPM)).ok();
        let glyph = level.and_then(|level| LEVELS.get(level)).unwrap_or(&'█');
        let phase = self.thresholds.classify(ppm * Nanos::SECOND.0, Nanos::SECOND);
        Column { glyph: *glyph, phase: Some(phase) }
    }
}

/// Where columns begin and end: `count` + 1 instants, or none for no time.
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

/// Adds the part of a point, spread evenly over the time it was `there`, that lies in a column.
fn add_part(
    mean: &mut Point,
    point: &Point,
    there: (Timestamp, Timestamp),
    column: (Timestamp, Timestamp),
) {
    let overlap = u128::from(there.1.min(column.1).since(there.0.max(column.0)).0);
    let length = u128::from(there.1.since(there.0).0);
    // Saturates only where one point is a century wide.
    let part = |whole: u128| (whole.saturating_mul(overlap)).checked_div(length).unwrap_or(0);
    let observed = part(u128::from(point.observed.0));
    mean.observed += Nanos(u64::try_from(observed).unwrap_or(u64::MAX));
    mean.weighted += part(point.weighted);
}

#[cfg(test)]
mod tests {
    use super::super::fleet::{Made, START, every_second, given, input, lost};
    use super::*;

    fn bar(gpus: &[Made], span: (u64, u64), axis: (u64, u64), count: usize) -> String {
        let at = |second| Timestamp::default() + Nanos::from_secs(START + second);
        let input = input("bar", gpus);
        let (span, axis) = ((at(span.0), at(span.1)), (at(axis.0), at(axis.1)));
        Bars::of(&input).columns(0, span, axis, count).iter().map(|column| column.glyph).collect()
    }

    /// A gap is no low, and what lies outside of the GPU's time is no gap.
    #[test]
    fn low_unobserved_and_outside_look_different() {
        let mut readings = every_second(40, |second| if second < 10 { 0 } else { 100 });
        lost(&mut readings, 20, 30);
        let gpus = [Made::new(0, given("1"), &readings)];
        assert_eq!(bar(&gpus, (0, 40), (0, 40), 4), "▁█·█");
        assert_eq!(bar(&gpus, (0, 40), (0, 50), 5), "▁█·█ ");
        assert_eq!(bar(&gpus, (0, 40), (0, 40), 8), "▁▁██··██");
        assert_eq!(bar(&gpus, (0, 40), (0, 40), 2), "▅█", "what was observed of a column");
    }

    #[test]
    fn no_time_has_no_columns() {
        let gpus = [Made::new(0, given("1"), &[])];
        assert_eq!(bar(&gpus, (0, 0), (0, 0), 48), "");
        assert_eq!(bar(&gpus, (0, 0), (0, 9), 0), "");
    }

    /// Points are wider than columns at the start, narrower later; none is lost or counted twice.
    #[test]
    fn columns_narrower_than_points_show_the_points() {
        let readings = every_second(4, |second| if second < 2 { 100 } else { 50 });
        let gpus = [Made::new(0, given("1"), &readings)];
        assert_eq!(bar(&gpus, (0, 4), (0, 4), 8), "████▅▅▅▅");
    }
}
