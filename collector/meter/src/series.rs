//! Utilization over a whole run as a fixed number of points, whose width doubles as time goes on.
//!
//! Points stand at multiples of their width since the epoch, so two series can be laid side by
//! side whenever each began. This room must not know how it is drawn.

use crate::timeline::Piece;
use crate::units::{NANOS_PER_SECOND, Nanos, Timestamp};

/// The most points there are.
pub const POINTS: usize = 600;

/// One point: the observed part of its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Point {
    /// Time observed.
    pub observed: Nanos,
    /// Σ utilization × time in ppm·ns.
    pub weighted: u128,
}

impl Point {
    fn add(&mut self, other: Self) {
        self.observed += other.observed;
        self.weighted += other.weighted;
    }

    /// The mean utilization in ppm; `None` where nothing was observed.
    #[must_use]
    pub fn mean_ppm(&self) -> Option<u128> {
        self.weighted.checked_div(u128::from(self.observed.0))
    }
}

/// Utilization over time.
#[derive(Clone, Debug)]
pub struct Series {
    /// The width of a point in seconds, a power of two.
    step: u64,
    /// The first point stands at `first × step` seconds since the epoch.
    first: u64,
    points: Vec<Point>,
}

impl Default for Series {
    fn default() -> Self {
        Self { step: 1, first: 0, points: Vec::new() }
    }
}

impl Series {
    /// The width of a point.
    #[must_use]
    pub const fn step(&self) -> Nanos {
        Nanos::from_secs(self.step)
    }

    /// Where each point begins, and the point; those before and after them are unobserved.
    pub fn points(&self) -> impl Iterator<Item = (Timestamp, Point)> {
        (self.first..).zip(&self.points).map(|(slot, point)| (self.start(slot), *point))
    }

    /// Adds an observed piece.
    pub fn add(&mut self, piece: &Piece) {
        self.reach(piece);
        let (mut at, length) = (piece.from, u128::from(piece.to.since(piece.from).0));
        while at < piece.to {
            let slot = at.whole_second() / self.step;
            let end = self.start(slot + 1).min(piece.to);
            let observed = end.since(at);
            // A piece of more than one point is whole seconds of one utilization: its parts are
            // exact. Divided first, since the product of centuries does not fit.
            let weighted = match u128::from(observed.0) {
                all if all == length => piece.weighted,
                part => piece.weighted / length * part,
            };
            let place = usize::try_from(slot - self.first).ok();
            match place.and_then(|place| self.points.get_mut(place)) {
                Some(point) if end > at => point.add(Point { observed, weighted }),
                _ => return,
            }
            at = end;
        }
    }

    /// Makes room up to the end of the piece, widening the points where they would be too many.
    fn reach(&mut self, piece: &Piece) {
        if self.points.is_empty() {
            self.first = piece.from.whole_second() / self.step;
        }
        let last_second = Timestamp::saturating_sub(piece.to, Nanos(1)).whole_second();
        loop {
            let needed = (last_second / self.step).saturating_sub(self.first) + 1;
            match usize::try_from(needed) {
                Ok(needed) if needed <= POINTS => {
                    if needed > self.points.len() {
                        self.points.resize(needed, Point::default());
                    }
                    return;
                }
                _ => self.widen(),
            }
        }
    }

    fn widen(&mut self) {
        let mut wider: Vec<Point> = Vec::with_capacity(self.points.len() / 2 + 1);
        for (slot, point) in (self.first..).zip(&self.points) {
            let place = usize::try_from(slot / 2 - self.first / 2).unwrap_or(usize::MAX);
            match wider.get_mut(place) {
                Some(wide) => wide.add(*point),
                None => wider.push(*point),
            }
        }
        self.points = wider;
        self.first /= 2;
        self.step *= 2;
    }

    fn start(&self, slot: u64) -> Timestamp {
        let nanos = slot.saturating_mul(self.step).saturating_mul(NANOS_PER_SECOND);
        Timestamp::default() + Nanos(nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::phase::Account;

    fn piece(from: u64, to: u64, ppm: u64) -> Piece {
        let at = |millis| Timestamp::from_millis(millis).unwrap();
        let weighted = u128::from(ppm) * u128::from((to - from) * 1_000_000);
        Piece { from: at(from), to: at(to), account: Account::IdleFree, weighted }
    }

    proptest! {
        /// However far it reaches: nothing is lost, there are at most 600 points, and each piece
        /// lies within its points.
        #[test]
        fn nothing_is_lost(steps in prop::collection::vec((0_u64..5_000_000, 1_u64..1_000), 1..60)) {
            let (mut series, mut at, mut total) = (Series::default(), 1_000, Point::default());
            for (pause, length) in steps {
                // A piece lies within one second.
                at += pause;
                let to = (at + length).min((at / 1_000 + 1) * 1_000);
                let piece = piece(at, to, 500_000);
                series.add(&piece);
                total.add(Point { observed: piece.to.since(piece.from), weighted: piece.weighted });
                at = to;
            }
            let mut sum = Point::default();
            series.points().for_each(|(_, point)| sum.add(point));
            prop_assert_eq!(sum, total);
            prop_assert!(series.points().count() <= POINTS);
        }
    }

    #[test]
    fn points_stand_at_multiples_of_their_width() {
        let mut series = Series::default();
        series.add(&piece(3_000, 4_000, 1_000_000));
        series.add(&piece(700_000, 1_300_000, 500_000));
        assert_eq!(series.step(), Nanos::from_secs(4));
        assert_eq!(series.points().next().map(|(at, _)| at), Timestamp::from_millis(0));
    }
}
