//! Time and cost of one GPU by period: whole UTC hours, and longer periods in a long run.
//!
//! Periods tile the span of the GPU and sum to its accounts, to the nanosecond and the nano-dollar.
//! Their number is limited: beyond it they are joined, and later ones are as long.

use std::sync::Arc;

use crate::accounts::Accounts;
use crate::money::{NanoUsd, Rate};
use crate::phase::Account;
use crate::units::{NANOS_PER_HOUR, Nanos, PPM, Timestamp};
use crate::wall_time::WallOffset;

/// Maximum number of periods that have ended. Hours are kept for four days, days for three months.
pub const PERIODS: usize = 96;

/// A day, in hours.
const DAY: u64 = 24;

const ACCOUNTS: usize = Account::ALL.len();

/// Time and cost of one period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period {
    /// Start: a whole hour, but for the first period and after a step of the wall clock.
    pub from: Timestamp,
    /// Σ utilization × time.
    pub effective: Nanos,
    time: [Nanos; ACCOUNTS],
    /// In nano-USD. A period is shorter than the 210 years that fit at the maximum rate.
    cost: [u64; ACCOUNTS],
    utilized: u64,
}

impl Period {
    /// The time between two states of the accounts.
    fn between(from: Timestamp, before: &Accounts, after: &Accounts) -> Self {
        let part = after.since(before);
        Self {
            from,
            effective: effective(after) - effective(before),
            time: Account::ALL.map(|account| part[account].time),
            cost: Account::ALL.map(|account| nano_usd(part[account].cost)),
            utilized: nano_usd(after.utilized_cost() - before.utilized_cost()),
        }
    }

    /// Its length.
    #[must_use]
    pub fn length(&self) -> Nanos {
        self.time.iter().copied().sum()
    }

    /// The time in an account.
    #[must_use]
    pub const fn time(&self, account: Account) -> Nanos {
        self.time[account as usize]
    }

    /// The cost of that time.
    #[must_use]
    pub fn cost(&self, account: Account) -> NanoUsd {
        NanoUsd(self.cost[account as usize].into())
    }

    /// Σ utilization × cost; at most the cost of the observed time.
    #[must_use]
    pub fn utilized(&self) -> NanoUsd {
        NanoUsd(self.utilized.into())
    }

    fn observed_cost(&self) -> u64 {
        Account::OBSERVED.iter().map(|account| self.cost[*account as usize]).sum()
    }

    /// Appends the next period.
    fn join(&mut self, next: &Self) {
        self.effective += next.effective;
        self.utilized += next.utilized;
        for account in 0..ACCOUNTS {
            self.time[account] += next.time[account];
            self.cost[account] += next.cost[account];
        }
    }
}

/// The periods of one GPU.
#[derive(Clone, Debug)]
pub struct Periods {
    /// In time order. Shared with reports, so that a report takes no second copy.
    ended: Arc<Vec<Period>>,
    /// Start of the period in progress, and the accounts then.
    open: Option<(Timestamp, Accounts)>,
    /// Its end.
    end: Timestamp,
    /// Length of periods.
    length: Nanos,
    wall: WallOffset,
    /// The accounts where the first one begins, if that is not the start.
    before: Option<Box<Accounts>>,
}

impl Default for Periods {
    fn default() -> Self {
        Self {
            ended: Arc::default(),
            open: None,
            end: Timestamp::EPOCH,
            length: Nanos(NANOS_PER_HOUR),
            wall: WallOffset::default(),
            before: None,
        }
    }
}

impl Periods {
    /// The end of the period in progress. Time up to it belongs to that period.
    #[inline]
    pub(crate) const fn end(&self) -> Timestamp {
        self.end
    }

    /// Forgets all periods before `at`, the first instant that is not in `accounts`.
    pub(crate) fn restart(&mut self, at: Timestamp, accounts: &Accounts) {
        let (open, before) = (Some((at, *accounts)), Some(Box::new(*accounts)));
        *self = Self { open, before, wall: self.wall, ..Self::default() };
        self.end = self.end_of(at);
    }

    /// Lengthens periods until those of the time from `from` to `to` can be kept.
    pub(crate) fn reserve(&mut self, from: Timestamp, to: Timestamp) {
        let more = |length: Nanos| to.since(from).0 / length.0 + 2;
        while more(self.length).saturating_add(self.ended.len() as u64) > PERIODS as u64 {
            self.downsample();
        }
    }

    /// Begins the period that contains `at`, the first instant that is not in `accounts`. Returns its
    /// end.
    pub(crate) fn begin(&mut self, at: Timestamp, accounts: &Accounts) -> Timestamp {
        if self.open.is_none() || at >= self.end {
            if let Some((from, before)) = self.open.replace((at, *accounts)) {
                self.push(Period::between(from, &before, accounts));
            }
            self.end = self.end_of(at);
        }
        self.end
    }

    /// Changes the wall time from `at` on. Hours are those of the wall clock.
    pub(crate) fn step_wall_clock(&mut self, at: Timestamp, wall: WallOffset) {
        self.wall = wall;
        if self.open.is_some() {
            self.end = self.end_of(at);
        }
    }

    /// Prices all periods at this rate; `accounts` is their sum, of which costs are those of its periods.
    pub(crate) fn price(&mut self, rate: Rate, accounts: &mut Accounts) {
        let (mut before, mut sum) = (Nanos::ZERO, [NanoUsd::ZERO; ACCOUNTS]);
        let mut price = |times: [Nanos; ACCOUNTS]| {
            let costs = Accounts::costs_at_rate(times, rate, before);
            before += times.into_iter().sum();
            sum.iter_mut().zip(costs).for_each(|(sum, cost)| *sum += cost);
            (costs, sum)
        };
        let (mut effective, mut utilized) = (Nanos::ZERO, 0);
        for period in Arc::make_mut(&mut self.ended) {
            period.cost = price(period.time).0.map(nano_usd);
            effective += period.effective;
            period.utilized = nano_usd(rate.cost(effective)) - utilized;
            utilized += period.utilized;
        }
        if let Some((_, before)) = &mut self.open {
            let part = accounts.since(before);
            let (_, ended) = price([Nanos::ZERO; ACCOUNTS]);
            let (_, all) = price(Account::ALL.map(|account| part[account].time));
            *before = before.priced(rate, ended);
            *accounts = accounts.priced(rate, all);
        }
    }

    /// The periods until now, since the last restart. `accounts` are those of the GPU.
    #[must_use]
    pub fn until_now(&self, accounts: &Accounts) -> PeriodList {
        let open = self.open.as_ref();
        let open = open.map(|(from, before)| Period::between(*from, before, accounts));
        let part = self.before.as_ref().map(|before| accounts.since(before));
        let utilized = part.as_ref().unwrap_or(accounts).utilized_cost();
        PeriodList { ended: Arc::clone(&self.ended), open, utilized }
    }

    fn end_of(&self, at: Timestamp) -> Timestamp {
        self.start_of(at) + self.length
    }

    fn start_of(&self, at: Timestamp) -> Timestamp {
        self.wall.floor(at, self.length)
    }

    fn push(&mut self, period: Period) {
        while self.ended.len() >= PERIODS {
            self.downsample();
        }
        self.append(period);
    }

    /// Adds the next period, or joins it to the last one if both begin in the same.
    fn append(&mut self, period: Period) {
        let start = self.start_of(period.from);
        let joins = self.ended.last().is_some_and(|last| self.start_of(last.from) == start);
        let ended = Arc::make_mut(&mut self.ended);
        match ended.last_mut() {
            Some(last) if joins => last.join(&period),
            _ => {
                if ended.len() == ended.capacity() {
                    ended.reserve_exact(PERIODS / 6);
                }
                ended.push(period);
            }
        }
    }

    /// Lengthens periods: to two hours, four, eight, a day, two days and so on.
    fn downsample(&mut self) {
        let hours = match self.length.0 / NANOS_PER_HOUR {
            8 => DAY,
            hours => hours.saturating_mul(2),
        };
        self.length = Nanos(NANOS_PER_HOUR).saturating_mul(hours);
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|period| self.append(*period));
        if let Some((from, _)) = self.open {
            self.end = self.end_of(from).max(self.end);
        }
    }
}

/// The periods of a GPU at an instant; by default none. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeriodList {
    ended: Arc<Vec<Period>>,
    open: Option<Period>,
    utilized: NanoUsd,
}

impl PeriodList {
    /// The periods in time order. The next one begins where one ends.
    ///
    /// Utilized cost is rounded per account of the whole span, so that of a period may exceed its
    /// observed cost by nano-dollars. They are moved to other periods.
    #[must_use]
    pub fn to_vec(&self) -> Vec<Period> {
        let mut periods: Vec<Period> = self.ended.iter().copied().chain(self.open).collect();
        let mut left = nano_usd(self.utilized);
        for period in &mut periods {
            period.utilized = period.utilized.min(period.observed_cost()).min(left);
            left -= period.utilized;
        }
        for period in periods.iter_mut().rev() {
            let moved = (period.observed_cost() - period.utilized).min(left);
            period.utilized += moved;
            left -= moved;
        }
        periods
    }
}

/// Effective time, rounded down.
fn effective(accounts: &Accounts) -> Nanos {
    let exact = accounts.observed().weighted / u128::from(PPM);
    Nanos(u64::try_from(exact).unwrap_or(u64::MAX))
}

/// An amount that is never negative.
fn nano_usd(amount: NanoUsd) -> u64 {
    u64::try_from(amount.0.max(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_is_small() {
        assert!(size_of::<Period>() <= 136, "{} bytes", size_of::<Period>());
    }

    /// Two more than the whole hours: time may begin and end within one.
    #[test]
    fn periods_are_lengthened_only_if_hours_exceed_the_maximum() {
        let hour = Nanos(NANOS_PER_HOUR);
        let most = PERIODS as u64 - 2;
        for (hours, length) in [(most, hour), (most + 1, hour.saturating_mul(2))] {
            let mut periods = Periods::default();
            periods.reserve(Timestamp::EPOCH, Timestamp::EPOCH + hour.saturating_mul(hours));
            assert_eq!(periods.length, length, "{hours} h");
        }
    }
}
