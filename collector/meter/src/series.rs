//! Time series of utilization, power and memory, with a bounded number of points.
//!
//! A series covers either the whole run, in points whose width doubles as it grows, or a recent
//! window. Points begin at multiples of their width since the epoch, so that series of different
//! GPUs align.

use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp};

/// Maximum number of points.
pub const POINTS: usize = 600;

/// What is recorded over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    /// Utilization, in ppm.
    Utilization,
    /// Power, in milliwatts.
    Power,
    /// Memory in use, in bytes.
    Memory,
}

impl Recorded {
    /// All of it.
    pub const ALL: [Self; 3] = [Self::Utilization, Self::Power, Self::Memory];
}

/// One point: the observed part of its time range.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// Observed time.
    pub observed: Nanos,
    /// Σ value × time, in the unit of the quantity × ns. Like the observed time, it has single
    /// precision, since series are only shown and evaluated, never billed.
    pub weighted: f64,
}

impl Point {
    /// The mean in the unit of the quantity; `None` if nothing was observed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation, not for accounts")]
    pub fn mean(&self) -> Option<f64> {
        (self.observed > Nanos::ZERO).then(|| self.weighted / self.observed.0 as f64)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.observed += other.observed;
        self.weighted += other.weighted;
    }

    /// Converts via `i64`, for which processors have an instruction. Values and times are below 2⁶³.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "a mean for evaluation, not for accounts")]
    fn add_value(&mut self, value: u64, time: Nanos) {
        self.observed += time;
        self.weighted += value.cast_signed() as f64 * time.0.cast_signed() as f64;
    }
}

/// The time series of one GPU.
#[derive(Clone, Debug)]
pub struct Series {
    /// Minimum length kept.
    keep: Nanos,
    /// Width of a point in seconds, a power of two.
    step: u64,
    /// The first point begins at `first × step` seconds since the epoch.
    first: u64,
    /// One column per quantity, in the order of [`Recorded::ALL`].
    columns: [Column; Recorded::ALL.len()],
}

/// The points of one quantity, up to the last observed one.
#[derive(Clone, Debug, Default)]
struct Column {
    /// Points before the last one.
    closed: Vec<ClosedPoint>,
    /// The last point.
    open: Option<Point>,
    /// End of the last point.
    end: Timestamp,
}

/// A point to which nothing will be added. Single precision takes half the memory, which is most of
/// that of a GPU.
#[derive(Clone, Copy, Debug, Default)]
struct ClosedPoint {
    /// Observed time in seconds: whole ones stay exact.
    observed: f32,
    /// The mean in the unit of the quantity.
    mean: f32,
}

impl Series {
    /// A series of the whole run, starting in the second of `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self::recent(Nanos(u64::MAX), start)
    }

    /// A series of a recent window: data older than `keep` may be dropped, which bounds the width
    /// of points.
    #[must_use]
    pub fn recent(keep: Nanos, start: Timestamp) -> Self {
        Self { keep, step: 1, first: start.whole_second(), columns: Default::default() }
    }

    /// The width of a point.
    #[must_use]
    pub const fn step(&self) -> Nanos {
        Nanos::from_secs(self.step)
    }

    /// The start of each point, and the point. Time before and after them is unobserved.
    pub fn points(&self, quantity: Recorded) -> impl Iterator<Item = (Timestamp, Point)> {
        let points = self.columns[quantity as usize].points();
        (self.first..).zip(points).map(|(slot, point)| (self.start(slot), point))
    }

    /// The sum of all points of a quantity.
    #[must_use]
    pub fn sum(&self, quantity: Recorded) -> Point {
        let mut sum = Point::default();
        self.columns[quantity as usize].points().for_each(|point| sum.add(point));
        sum
    }

    /// Records `value` from `from` to `to`. Values of a quantity must be in time order.
    #[inline]
    pub fn record(&mut self, quantity: Recorded, from: Timestamp, to: Timestamp, value: u64) {
        let column = &mut self.columns[quantity as usize];
        match &mut column.open {
            Some(open) if to <= column.end => open.add_value(value, to.since(from)),
            _ => self.record_beyond_end(quantity, from, to, value),
        }
    }

    /// Like [`Series::record`], for time after the last point.
    #[cold]
    fn record_beyond_end(
        &mut self,
        quantity: Recorded,
        from: Timestamp,
        to: Timestamp,
        value: u64,
    ) {
        self.extend_to(to);
        let mut at = from.max(self.start(self.first));
        while at < to {
            let slot = at.whole_second() / self.step;
            let end = self.start(slot + 1);
            let column = &mut self.columns[quantity as usize];
            let index = usize::try_from(slot.saturating_sub(self.first)).unwrap_or(POINTS);
            column.point(index).add_value(value, end.min(to).since(at));
            column.end = end;
            at = end;
        }
    }

    /// Extends the series up to `to`. If there would be too many points, drops those older than the
    /// kept window, or else doubles the width of points.
    fn extend_to(&mut self, to: Timestamp) {
        let last_second = to.saturating_sub(Nanos(1)).whole_second();
        while (last_second / self.step).saturating_sub(self.first) >= POINTS as u64 {
            let kept = to.saturating_sub(self.keep).whole_second() / self.step;
            if self.first < kept {
                let dropped = usize::try_from(kept - self.first).unwrap_or(usize::MAX);
                self.columns.iter_mut().for_each(|column| column.drop_oldest(dropped));
                self.first = kept;
                continue;
            }
            for column in &mut self.columns {
                column.downsample(self.first);
            }
            self.first /= 2;
            self.step *= 2;
        }
    }

    fn start(&self, slot: u64) -> Timestamp {
        let nanos = slot.saturating_mul(self.step).saturating_mul(NANOS_PER_SECOND);
        Timestamp::EPOCH + Nanos(nanos)
    }
}

impl Column {
    fn points(&self) -> impl Iterator<Item = Point> {
        self.closed.iter().map(|closed| closed.point()).chain(self.open)
    }

    /// The last point, which has this index. Closes those before it, also unobserved ones.
    fn point(&mut self, index: usize) -> &mut Point {
        if self.closed.len() < index {
            let capacity = index.next_multiple_of(64).min(POINTS);
            self.closed.reserve_exact(capacity.saturating_sub(self.closed.len()));
            self.closed.extend(self.open.take().map(ClosedPoint::from));
            self.closed.resize(index, ClosedPoint::default());
        }
        self.open.get_or_insert_default()
    }

    /// Drops the oldest `count` points.
    fn drop_oldest(&mut self, count: usize) {
        if count > self.closed.len() {
            self.open = None;
        }
        self.closed.drain(..count.min(self.closed.len()));
    }

    /// Joins points in pairs. `first` is the slot of the first point.
    fn downsample(&mut self, first: u64) {
        let mut joined = Self { end: self.end, ..Self::default() };
        for (slot, point) in (first..).zip(self.points()) {
            let index = usize::try_from(slot / 2 - first / 2).unwrap_or(POINTS);
            joined.point(index).add(point);
        }
        *self = joined;
    }
}

impl ClosedPoint {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time, rounded on purpose"
    )]
    fn point(self) -> Point {
        let nanos = (f64::from(self.observed) * NANOS_PER_SECOND as f64).round();
        Point { observed: Nanos(nanos as u64), weighted: nanos * f64::from(self.mean) }
    }
}

impl From<Point> for ClosedPoint {
    #[expect(clippy::cast_possible_truncation, reason = "rounded on purpose")]
    fn from(point: Point) -> Self {
        let mean = point.mean().unwrap_or_default();
        Self { observed: point.observed.as_secs_f64() as f32, mean: mean as f32 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Relative error of points: each of the 13 joins in the tests rounds to 24 bits.
    const ROUNDING: f64 = 13.0 / (1 << 23) as f64;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis).unwrap()
    }

    fn record(series: &mut Series, from: u64, to: u64, ppm: u64) {
        series.record(Recorded::Utilization, at(from), at(to), ppm);
    }

    proptest! {
        /// At any length: there are at most 600 points, and each covers its time, in single
        /// precision, however often it was joined.
        #[test]
        fn points_cover_their_time_after_downsampling(
            start in 0_u64..10_000_000,
            steps in prop::collection::vec(
                (prop_oneof![Just(0), 0_u64..5_000_000], 1_u64..1_000_000, 0_u64..1_000), 1..60,
            ),
        ) {
            let mut series = Series::new(at(start));
            let (mut now, mut held) = (start, Vec::new());
            for (pause, length, value) in steps {
                let (from, to) = (now + pause, now + pause + length);
                series.record(Recorded::Power, at(from), at(to), value);
                held.push((from, to, value));
                now = to;
            }
            let width = series.step().0 / 1_000_000;
            for (begin, point) in series.points(Recorded::Power) {
                let begin = begin.as_nanos() / 1_000_000;
                let inside = |from: u64, to: u64| to.min(begin + width).saturating_sub(from.max(begin));
                let held = || held.iter().map(|&(from, to, value)| (inside(from, to), value));
                let observed: u64 = held().map(|(time, _)| time).sum();
                let weighted: u64 = held().map(|(time, value)| time * value).sum();
                for (found, millis) in [(point.observed.0 as f64, observed), (point.weighted, weighted)] {
                    let exact = millis as f64 * 1e6;
                    prop_assert!((found - exact).abs() <= exact * ROUNDING, "{point:?} ≠ {exact}");
                }
            }
            let all: u64 = held.iter().map(|(from, to, _)| to - from).sum();
            let found = series.sum(Recorded::Power).observed.as_secs_f64() * 1e3;
            prop_assert!((found - all as f64).abs() <= all as f64 * ROUNDING);
            prop_assert!(series.points(Recorded::Power).count() <= POINTS);
            prop_assert_eq!(series.points(Recorded::Memory).count(), 0);
        }

        /// The kept window is complete, in points no wider than necessary.
        #[test]
        fn recent_window_is_kept(
            keep in 1_u64..100_000,
            steps in prop::collection::vec(
                (prop_oneof![9 => Just(0), 1 => 0_u64..200_000], 1_u64..4_000), 1..200,
            ),
        ) {
            let mut series = Series::recent(Nanos::from_secs(keep), at(0));
            let (mut now, mut held) = (0, Vec::new());
            for (pause, length) in steps {
                let (from, to) = (now + pause, now + pause + length);
                let [start, end] = [from, to].map(|second| at(second * 1_000));
                series.record(Recorded::Power, start, end, 1);
                held.push((from, to));
                now = to;
            }
            let from = now.saturating_sub(keep);
            let expected: u64 = held.iter().map(|(a, b)| b.saturating_sub(*a.max(&from))).sum();
            let width = series.step().0 / 1_000_000_000;
            let points = || series.points(Recorded::Power);
            let kept = points().filter(|(begin, _)| begin.whole_second() + width > from);
            let kept: Nanos = kept.map(|(_, point)| point.observed).sum();
            prop_assert!(kept >= Nanos::from_secs(expected));
            prop_assert!(kept <= Nanos::from_secs(expected + width));
            prop_assert!(points().count() <= POINTS);
            prop_assert!(width == 1 || width * POINTS as u64 <= 4 * keep);
        }
    }

    #[test]
    fn points_begin_at_multiples_of_their_width() {
        let mut series = Series::new(at(3_000));
        record(&mut series, 3_000, 4_000, 1_000_000);
        record(&mut series, 700_000, 1_300_000, 500_000);
        assert_eq!(series.step(), Nanos::from_secs(4));
        let first = series.points(Recorded::Utilization).next();
        assert_eq!(first.map(|(at, point)| (at, point.mean())), Some((at(0), Some(1_000_000.0))));
    }

    #[test]
    fn series_extends_to_last_timestamp() {
        let mut series = Series::new(Timestamp::EPOCH);
        series.record(Recorded::Power, Timestamp::EPOCH, Timestamp::LAST, 1);
        assert_eq!(series.sum(Recorded::Power).observed, Timestamp::LAST.since(Timestamp::EPOCH));
    }
}
