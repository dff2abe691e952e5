//! Pools: every second's waste lies in exactly one, named by why it was wasted.
//!
//! Starvation is the waste inside bouncing stretches, where a GPU waits for its input; idle the
//! waste of idle seconds elsewhere; occupancy the rest. Whether a second lies in a bouncing
//! stretch is known only afterwards, so it waits in a tail until then. This room must not know
//! what could be done about it.

use std::ops::Index;

use crate::ledger::{Accounts, Charge};
use crate::money::NanoUsd;
use crate::pattern::Turn;
use crate::phase::{Account, Phase};
use crate::units::Timestamp;

/// Why something was wasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pool {
    /// The GPU waited for its input: waste inside bouncing stretches.
    Starvation,
    /// Nothing ran: waste of idle seconds elsewhere.
    Idle,
    /// It was not full: all other waste.
    Occupancy,
}

impl Pool {
    /// All pools, in the order reports list them.
    pub const ALL: [Self; 3] = [Self::Starvation, Self::Idle, Self::Occupancy];

    /// As it stands in reports and on the wire.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starvation => "starvation",
            Self::Idle => "idle",
            Self::Occupancy => "occupancy",
        }
    }
}

/// The waste of each pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pools {
    /// Waste inside bouncing stretches.
    pub starvation: NanoUsd,
    /// Waste of idle seconds elsewhere.
    pub idle: NanoUsd,
    /// All other waste.
    pub occupancy: NanoUsd,
}

impl Pools {
    /// All waste.
    #[must_use]
    pub fn sum(&self) -> NanoUsd {
        Pool::ALL.into_iter().map(|pool| self[pool]).sum()
    }
}

impl Index<Pool> for Pools {
    type Output = NanoUsd;

    fn index(&self, pool: Pool) -> &NanoUsd {
        match pool {
            Pool::Starvation => &self.starvation,
            Pool::Idle => &self.idle,
            Pool::Occupancy => &self.occupancy,
        }
    }
}

/// Sorts charges into inside and outside of bouncing stretches.
#[derive(Clone, Debug, Default)]
pub struct Stretches {
    /// From where the stretch in progress runs, and up to where it reaches.
    stretch: Option<(Timestamp, Timestamp)>,
    /// Inside stretches that are over.
    starved: Accounts,
    /// Inside the stretch in progress.
    inside: Accounts,
    /// After it, and inside if another cycle follows.
    tail: Accounts,
}

impl Stretches {
    /// Books a charge. A second belongs to the stretch in which it begins.
    pub fn enter(&mut self, charge: &Charge) {
        let Some((from, to)) = self.stretch else { return };
        let second = charge.piece.from.floor_second();
        if charge.piece.account == Account::Unobserved || second < from {
        } else if second < to {
            self.inside.enter(charge);
        } else {
            self.tail.enter(charge);
        }
    }

    /// Follows what a reading changed. `confirmed`: the stretch that ends here is a bouncing one.
    pub fn turn(&mut self, turn: Turn, confirmed: bool) {
        match turn {
            Turn::Begins(at) => {
                self.starved = self.starved(confirmed);
                self.inside = Accounts::default();
                self.tail = Accounts::default();
                self.stretch = Some((at, at));
            }
            Turn::Reaches(at) => {
                self.inside += &self.tail;
                self.tail = Accounts::default();
                if let Some((_, to)) = &mut self.stretch {
                    *to = at;
                }
            }
        }
    }

    /// The waste `total` of what was booked since they were `earlier`, by pool, if the stretch in
    /// progress ended now. The pools sum to it. `earlier` has followed each turn since.
    #[must_use]
    pub fn pools_since(&self, earlier: &Self, total: &Accounts, confirmed: bool) -> Pools {
        let starved = self.starved(confirmed).since(&earlier.starved(confirmed));
        let mut pools = Pools::default();
        for account in Account::OBSERVED {
            let waste = total[account].waste();
            let inside = starved[account].waste().min(waste);
            pools.starvation += inside;
            if account.phase() == Some(Phase::Idle) {
                pools.idle += waste - inside;
            } else {
                pools.occupancy += waste - inside;
            }
        }
        pools
    }

    fn starved(&self, confirmed: bool) -> Accounts {
        let mut starved = self.starved;
        if confirmed {
            starved += &self.inside;
        }
        starved
    }
}
