//! Energy of a GPU, by what it is computed from.

use std::ops::AddAssign;

pub use super::energy_basis::EnergyBasis;
use crate::units::Nanos;

/// Picojoules per millijoule. 1 pJ is 1 mW × 1 ns.
pub(crate) const PICOJOULES: u128 = 1_000_000_000;

/// Energy computed from one basis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyPart {
    /// The time it covers.
    pub time: Nanos,
    pub(crate) picojoules: u128,
}

impl EnergyPart {
    /// In joules.
    #[must_use]
    pub fn joules(&self) -> f64 {
        joules(self.picojoules)
    }

    const fn since(self, earlier: Self) -> Self {
        Self {
            time: Nanos(self.time.0.saturating_sub(earlier.time.0)),
            picojoules: self.picojoules.saturating_sub(earlier.picojoules),
        }
    }
}

impl AddAssign for EnergyPart {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.picojoules += other.picojoules;
    }
}

/// Picojoules in joules.
#[expect(clippy::cast_precision_loss, reason = "exported as a double")]
pub(crate) fn joules(picojoules: u128) -> f64 {
    // A counter has whole millijoules, which a double holds exactly.
    let (millijoules, rest) = (picojoules / PICOJOULES, picojoules % PICOJOULES);
    millijoules as f64 / 1e3 + rest as f64 / 1e12
}

/// Energy by basis. Each instant is covered by at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Energy([EnergyPart; EnergyBasis::ALL.len()]);

impl Energy {
    /// The bases that cover any time, in report order.
    pub fn parts(&self) -> impl Iterator<Item = (EnergyBasis, EnergyPart)> {
        let parts = EnergyBasis::ALL.into_iter().zip(self.0);
        parts.filter(|(_, part)| part.time > Nanos::ZERO)
    }

    /// The sum over all bases in joules; `None` if none covers any time.
    #[must_use]
    pub fn joules(&self) -> Option<f64> {
        let all = self.parts().map(|(_, part)| part).reduce(|mut sum, part| {
            sum += part;
            sum
        });
        all.map(|all| all.joules())
    }

    /// The sum over all bases.
    pub(crate) fn picojoules(&self) -> u128 {
        self.0.iter().map(|part| part.picojoules).sum()
    }

    /// The difference to an `earlier` state.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (mine, theirs) in since.0.iter_mut().zip(earlier.0) {
            *mine = mine.since(theirs);
        }
        since
    }

    pub(crate) const fn part_mut(&mut self, basis: EnergyBasis) -> &mut EnergyPart {
        &mut self.0[basis.index()]
    }
}

impl AddAssign<&Self> for Energy {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }
}
