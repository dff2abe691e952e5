//! The ledger: time, money and effective time of one GPU, account by account.
//!
//! Accounts add up: phases + unobserved = bill, to the nano-dollar. This room must not know how
//! a charge was found, nor why time was wasted.

use std::ops::{AddAssign, Index};

use crate::money::NanoUsd;
use crate::phase::{Account, Phase};
use crate::tariff::EffectiveCost;
use crate::timeline::Piece;
use crate::units::Nanos;

/// A piece with its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// What is charged for.
    pub piece: Piece,
    /// ⌊C(to)⌋ − ⌊C(from)⌋, where C is the exact cost since the first reading.
    pub cost: NanoUsd,
    /// Σ utilization × cost, exact.
    pub effective: EffectiveCost,
}

/// One account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Time in it.
    pub time: Nanos,
    /// Σ utilization × time in ppm·ns.
    pub weighted: u128,
    /// What that time cost.
    pub cost: NanoUsd,
    effective: EffectiveCost,
}

impl Tally {
    fn enter(&mut self, charge: &Charge) {
        self.time += charge.piece.to.since(charge.piece.from);
        self.weighted += charge.piece.weighted;
        self.cost += charge.cost;
        self.effective += charge.effective;
    }

    fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time - earlier.time,
            weighted: self.weighted - earlier.weighted,
            cost: self.cost - earlier.cost,
            effective: self.effective - earlier.effective,
        }
    }

    /// Σ utilization × cost: floored, and at most the cost.
    #[must_use]
    pub fn effective_cost(&self) -> NanoUsd {
        self.effective.floor().min(self.cost)
    }

    /// What was paid for nothing: cost − effective cost.
    #[must_use]
    pub fn waste(&self) -> NanoUsd {
        self.cost - self.effective_cost()
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.weighted += other.weighted;
        self.cost += other.cost;
        self.effective += other.effective;
    }
}

/// One tally an account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts([Tally; Account::ALL.len()]);

impl Index<Account> for Accounts {
    type Output = Tally;

    fn index(&self, account: Account) -> &Tally {
        &self.0[account as usize]
    }
}

impl AddAssign<&Self> for Accounts {
    fn add_assign(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine += *theirs;
        }
    }
}

impl Accounts {
    /// Books a charge.
    pub fn enter(&mut self, charge: &Charge) {
        self.0[charge.piece.account as usize].enter(charge);
    }

    /// What was booked since they were `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (mine, theirs) in since.0.iter_mut().zip(&earlier.0) {
            *mine = mine.since(theirs);
        }
        since
    }

    /// The sum of the accounts of one phase.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> Tally {
        self.sum(|account| account.phase() == Some(phase))
    }

    /// The sum of everything observed.
    #[must_use]
    pub fn observed(&self) -> Tally {
        self.sum(|account| account.phase().is_some())
    }

    /// The sum of everything.
    #[must_use]
    pub fn all(&self) -> Tally {
        self.sum(|_| true)
    }

    /// Effective cost: each account's, summed.
    #[must_use]
    pub fn effective_cost(&self) -> NanoUsd {
        Account::OBSERVED.iter().map(|account| self[*account].effective_cost()).sum()
    }

    /// Waste: observed cost − effective cost.
    #[must_use]
    pub fn waste(&self) -> NanoUsd {
        Account::OBSERVED.iter().map(|account| self[*account].waste()).sum()
    }

    fn sum(&self, belongs: impl Fn(Account) -> bool) -> Tally {
        let mut sum = Tally::default();
        for account in Account::ALL.into_iter().filter(|account| belongs(*account)) {
            sum += self[account];
        }
        sum
    }
}
