//! The energy a GPU used: the difference of its counter where it has one, else the integral of
//! its power.
//!
//! This room must not know where either came from.

use crate::units::{Millijoules, Milliwatts, Nanos};

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
    /// mW·ns, which is pJ.
    integral: Option<u128>,
}

impl Energy {
    /// The counter said so. A counter that falls was reset (the driver was loaded anew): what it
    /// counted in between is not known, and not guessed.
    pub fn count(&mut self, counter: Millijoules) {
        let step = self.last.map_or(0, |last| counter.0.saturating_sub(last.0));
        self.counted = Some(self.counted.unwrap_or(0).saturating_add(step));
        self.last = Some(counter);
    }

    /// The GPU drew `power` for `time`.
    pub fn draw(&mut self, power: Milliwatts, time: Nanos) {
        let drawn = u128::from(power.get()) * u128::from(time.0);
        self.integral = Some(self.integral.unwrap_or(0) + drawn);
    }

    /// The energy in joules since the first reading, and its basis; `None` where nothing told.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "joules are for people and the wire")]
    pub fn joules(&self) -> Option<(f64, EnergyBasis)> {
        match (self.counted, self.integral) {
            (Some(millijoules), _) => {
                Some((Millijoules(millijoules).joules(), EnergyBasis::Counter))
            }
            (None, Some(picojoules)) => Some((picojoules as f64 / 1e12, EnergyBasis::Power)),
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_goes_before_the_integral() {
        let mut energy = Energy::default();
        assert_eq!(energy.joules(), None);
        energy.draw(Milliwatts::new(300_000).unwrap(), Nanos::from_secs(10));
        assert_eq!(energy.joules(), Some((3_000.0, EnergyBasis::Power)));
        for counter in [5_000, 7_500, 100, 1_100] {
            energy.count(Millijoules(counter));
        }
        assert_eq!(energy.joules(), Some((3.5, EnergyBasis::Counter)));
    }
}
