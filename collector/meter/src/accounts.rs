//! Accounts of one GPU: time, cost and utilized cost per account.
//!
//! Phases + unobserved = bill, to the nano-dollar.

use std::ops::{AddAssign, Index};
use std::sync::Arc;

use crate::accrual::UtilizedCost;
use crate::holder::Holder;
use crate::money::{NanoUsd, Rate};
use crate::phase::{Account, Phase};
use crate::timeline::TimeSlice;
use crate::units::{Nanos, Timestamp};

/// A time slice and its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Charge {
    /// The slice charged for.
    pub slice: TimeSlice,
    /// Its time, of a whole GPU: what holders have of it, if only they are charged.
    pub time: Nanos,
    /// Σ utilization × time of that, in ppm·ns.
    pub weighted: u128,
    /// What that costs. Of the whole slice: ⌊C(to)⌋ − ⌊C(from)⌋, with C the exact cost since the first reading.
    pub cost: NanoUsd,
    /// Σ utilization × cost, exact.
    pub utilized: UtilizedCost,
}

impl Charge {
    /// The charge of all of a slice, which has cost this much so far.
    #[must_use]
    pub const fn of(slice: TimeSlice, cost: NanoUsd, utilized: UtilizedCost) -> Self {
        let (time, weighted) = (slice.to.since(slice.from), slice.weighted);
        Self { slice, time, weighted, cost, utilized }
    }

    /// What those have of it that share it.
    pub(crate) fn shared<'a>(&self, shares: impl Iterator<Item = &'a ChargeShare>) -> Self {
        let mut own = Self { time: Nanos::ZERO, weighted: 0, cost: NanoUsd::ZERO, ..*self };
        for share in shares {
            own.time += share.time;
            own.weighted += share.weighted;
            own.cost += share.cost;
        }
        Self { utilized: self.utilized.part(own.weighted, self.weighted), ..own }
    }
}

/// What one of those among whom a charge is divided has of a part of its time. Of one part they sum to what it cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeShare {
    /// Its holder; `None` if it is nobody's.
    pub holder: Option<Arc<Holder>>,
    /// Start of the part.
    pub from: Timestamp,
    /// End of the part (exclusive).
    pub to: Timestamp,
    /// The time, of a whole GPU: an hour of a quarter is 15 minutes.
    pub time: Nanos,
    /// Σ utilization × time that it used, in ppm·ns.
    pub weighted: u128,
    /// What it pays.
    pub cost: NanoUsd,
}

impl ChargeShare {
    /// Adds to it.
    pub(crate) fn add(&mut self, time: Nanos, weighted: u128, cost: NanoUsd) {
        self.time += time;
        self.weighted += weighted;
        self.cost += cost;
    }
}

/// The balance of one account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Total time.
    pub time: Nanos,
    /// Σ utilization × time, in ppm·ns.
    pub weighted: u128,
    /// Cost of that time.
    pub cost: NanoUsd,
    utilized: UtilizedCost,
}

impl Balance {
    pub(crate) fn post(&mut self, charge: &Charge) {
        self.time += charge.time;
        self.weighted += charge.weighted;
        self.cost += charge.cost;
        self.utilized += charge.utilized;
    }

    /// Time, Σ utilization × time in ppm·ns, cost and utilized cost.
    #[must_use]
    pub const fn of(time: Nanos, weighted: u128, cost: NanoUsd, utilized: UtilizedCost) -> Self {
        Self { time, weighted, cost, utilized }
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        Self {
            time: self.time - earlier.time,
            weighted: self.weighted - earlier.weighted,
            cost: self.cost - earlier.cost,
            utilized: self.utilized - earlier.utilized,
        }
    }

    /// Whether nothing in it is less than in an `earlier` state.
    pub(crate) fn follows(&self, earlier: &Self) -> bool {
        self.time >= earlier.time
            && self.weighted >= earlier.weighted
            && self.cost >= earlier.cost
            && self.utilized >= earlier.utilized
    }

    /// Σ utilization × cost, not rounded.
    #[must_use]
    pub const fn utilized(&self) -> UtilizedCost {
        self.utilized
    }

    /// Σ utilization × cost, rounded down; at most the cost.
    #[must_use]
    pub fn utilized_cost(&self) -> NanoUsd {
        self.utilized.floor().min(self.cost)
    }

    /// Cost − utilized cost.
    #[must_use]
    pub fn waste(&self) -> NanoUsd {
        self.cost - self.utilized_cost()
    }
}

impl AddAssign for Balance {
    fn add_assign(&mut self, other: Self) {
        self.time += other.time;
        self.weighted += other.weighted;
        self.cost += other.cost;
        self.utilized += other.utilized;
    }
}

/// The balance of every account.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts([Balance; Account::ALL.len()]);

impl Index<Account> for Accounts {
    type Output = Balance;

    fn index(&self, account: Account) -> &Balance {
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
    /// Posts a charge to its account.
    pub fn post(&mut self, charge: &Charge) {
        self.0[charge.slice.account as usize].post(charge);
    }

    /// The balance of an account, to add to.
    pub(crate) const fn balance_mut(&mut self, account: Account) -> &mut Balance {
        &mut self.0[account as usize]
    }

    /// These accounts at a constant rate. Their time begins `before` after the start of accrual.
    ///
    /// Costs are rounded as if the accounts followed one another in their order, so that they sum to
    /// ⌊C(end)⌋ − ⌊C(begin)⌋.
    #[must_use]
    pub fn at_rate(&self, rate: Rate, before: Nanos) -> Self {
        let times = self.0.map(|balance| balance.time);
        self.priced(rate, Self::costs_at_rate(times, rate, before))
    }

    /// The costs of these times at a constant rate, in the order of accounts. They begin `before` after
    /// the start of accrual.
    pub(crate) fn costs_at_rate<const N: usize>(
        times: [Nanos; N],
        rate: Rate,
        before: Nanos,
    ) -> [NanoUsd; N] {
        let mut end = before;
        let mut charged = rate.cost(end);
        times.map(|time| {
            end += time;
            let cost = rate.cost(end) - charged;
            charged += cost;
            cost
        })
    }

    /// These accounts with these costs, at a constant rate.
    pub(crate) fn priced(&self, rate: Rate, costs: [NanoUsd; Account::ALL.len()]) -> Self {
        let mut priced = *self;
        for (balance, cost) in priced.0.iter_mut().zip(costs) {
            balance.cost = cost;
            balance.utilized = UtilizedCost::of(balance.weighted, rate);
        }
        priced
    }

    /// The difference to `earlier` balances of the same accounts.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (mine, theirs) in since.0.iter_mut().zip(&earlier.0) {
            *mine = mine.since(theirs);
        }
        since
    }

    /// Whether all accounts are empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|balance| balance.time == Nanos::ZERO)
    }

    /// Sum of the accounts of one phase.
    #[must_use]
    pub fn phase(&self, phase: Phase) -> Balance {
        self.sum(|account| account.phase() == Some(phase))
    }

    /// Sum of the accounts of observed time.
    #[must_use]
    pub fn observed(&self) -> Balance {
        self.sum(|account| account.phase().is_some())
    }

    /// Sum of all accounts: the bill.
    #[must_use]
    pub fn all(&self) -> Balance {
        self.sum(|_| true)
    }

    /// Utilized cost: the sum over accounts of observed time.
    #[must_use]
    pub fn utilized_cost(&self) -> NanoUsd {
        Account::OBSERVED.iter().map(|account| self[*account].utilized_cost()).sum()
    }

    /// Waste: observed cost − utilized cost.
    #[must_use]
    pub fn waste(&self) -> NanoUsd {
        Account::OBSERVED.iter().map(|account| self[*account].waste()).sum()
    }

    fn sum(&self, belongs: impl Fn(Account) -> bool) -> Balance {
        let mut sum = Balance::default();
        for account in Account::ALL.into_iter().filter(|account| belongs(*account)) {
            sum += self[account];
        }
        sum
    }
}
