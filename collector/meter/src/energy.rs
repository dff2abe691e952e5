//! The energy a GPU used: the difference of its counter where it has one, else the integral of
//! its power.
//!
//! This room must not know where either came from.

use crate::series::Point;
use crate::units::{Millijoules, Nanos};

/// What the energy was found from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyBasis {
    /// The difference of the driver's counter.
    Counter,
    /// Power × the time that power readings cover.
    Power,
}

/// Adds energy up.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    last: Option<Millijoules>,
    counted: Option<u64>,
}

impl Energy {
    /// The counter said so. A counter that falls was reset (the driver was loaded anew): what it
    /// counted in between is not known, and not guessed.
    pub fn count(&mut self, counter: Millijoules) {
        let step = self.last.map_or(0, |last| counter.0.saturating_sub(last.0));
        self.counted = Some(self.counted.unwrap_or(0).saturating_add(step));
        self.last = Some(counter);
    }

    /// The energy in joules since the first reading, and its basis; `None` where nothing told.
    /// `drawn`: the power that readings cover, in mW·ns, which is pJ.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "joules are for people and the wire")]
    pub fn joules(&self, drawn: Point) -> Option<(f64, EnergyBasis)> {
        match self.counted {
            Some(millijoules) => Some((Millijoules(millijoules).joules(), EnergyBasis::Counter)),
            None if drawn.observed == Nanos::ZERO => None,
            None => Some((drawn.weighted as f64 / 1e12, EnergyBasis::Power)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_before_the_integral() {
        let mut energy = Energy::default();
        assert_eq!(energy.joules(Point::default()), None);
        let time = Nanos::from_secs(10);
        let drawn = Point { observed: time, weighted: 300_000 * u128::from(time.0) };
        assert_eq!(energy.joules(drawn), Some((3_000.0, EnergyBasis::Power)));
        for counter in [5_000, 7_500, 100, 1_100] {
            energy.count(Millijoules(counter));
        }
        assert_eq!(energy.joules(drawn), Some((3.5, EnergyBasis::Counter)));
    }
}
