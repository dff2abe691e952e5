//! Energy of a GPU: the difference of its energy counter, else the integral of its power.
//!
//! Must not depend on the source of either.

use crate::series::Point;
use crate::units::{Millijoules, Nanos};

/// What energy is computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EnergyBasis {
    /// Differences of the driver's energy counter.
    Counter,
    /// Power × the time covered by power readings.
    Power,
}

/// Accumulates energy.
#[derive(Clone, Debug, Default)]
pub struct Energy {
    last: Option<Millijoules>,
    counted: Option<u64>,
}

impl Energy {
    /// Records the energy counter. A falling counter was reset (the driver was reloaded): energy
    /// used in between is unknown and not estimated.
    pub fn record(&mut self, counter: Millijoules) {
        let step = self.last.map_or(0, |last| counter.0.saturating_sub(last.0));
        self.counted = Some(self.counted.unwrap_or(0).saturating_add(step));
        self.last = Some(counter);
    }

    /// Energy in joules since the first reading, and its basis; `None` if there was neither counter
    /// nor power. `drawn`: the power covered by readings, in mW·ns, which is pJ.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "exported as a double")]
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
    fn counter_takes_precedence_over_power() {
        let mut energy = Energy::default();
        assert_eq!(energy.joules(Point::default()), None);
        let time = Nanos::from_secs(10);
        let drawn = Point { observed: time, weighted: 300_000 * u128::from(time.0) };
        assert_eq!(energy.joules(drawn), Some((3_000.0, EnergyBasis::Power)));
        for counter in [5_000, 7_500, 100, 1_100] {
            energy.record(Millijoules(counter));
        }
        assert_eq!(energy.joules(drawn), Some((3.5, EnergyBasis::Counter)));
    }
}
