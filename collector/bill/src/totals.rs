//! Totals of a group: GPU time, effective time, cost, utilized cost.

use std::ops::AddAssign;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;

use crate::division::Part;
use crate::report::{Gpu, Period, Usd};

/// Nanoseconds per hour.
const HOUR: f64 = 3.6e12;

/// Totals of a group. Times are in nanoseconds, of which a fleet may have more than 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// GPU time, observed or not.
    pub time: u128,
    /// Σ utilization × time.
    pub effective: u128,
    /// Part of the GPU time without a price.
    pub unpriced: u128,
    /// Cost.
    pub cost: NanoUsd,
    /// Σ utilization × cost.
    pub utilized: NanoUsd,
    /// Part of the cost that is of idle time.
    pub idle: NanoUsd,
    /// Part of the cost that is of unobserved time.
    pub unobserved: NanoUsd,
    /// Part of the GPU time that holders had, of GPUs that were divided among them.
    pub held: u128,
    /// What holders were granted of them over time.
    pub granted: u128,
    /// Part of the cost that holders were granted and did not use, and part that they never touched.
    pub unused: [NanoUsd; 2],
    /// Part of the GPU time that nobody had, of the same GPUs.
    pub nobodys: u128,
    /// Part of the cost at prices that are estimates.
    pub estimated: NanoUsd,
    /// That part at the lowest and at the highest prices of the estimates.
    pub estimated_range: [NanoUsd; 2],
}

/// A period, split by who pays for it if it has no owner.
pub(crate) struct Split {
    pub(crate) working: Totals,
    pub(crate) idle: Totals,
    pub(crate) unobserved: Totals,
}

impl Totals {
    /// The totals of a period.
    pub(crate) fn of(period: &Period, is_priced: bool) -> Self {
        let time = u128::from(period.accounts.time_in(&Account::ALL).0);
        Self {
            time,
            effective: u128::from(period.effective_seconds.0.0),
            unpriced: if is_priced { 0 } else { time },
            cost: period.accounts.cost_of(&Account::ALL),
            utilized: period.utilized_usd.map_or(NanoUsd::ZERO, |Usd(utilized)| utilized),
            idle: period.accounts.cost_of(&Account::IDLE),
            unobserved: period.accounts.cost(Account::Unobserved),
            ..Self::default()
        }
    }

    /// The totals of a part of a divided GPU, whose idle cost is unknown.
    pub(crate) fn of_part(part: &Part<'_>, is_priced: bool) -> Self {
        let time = u128::from(part.time.0);
        let (held, nobodys) = if part.holder.is_some() { (time, 0) } else { (0, time) };
        Self {
            time,
            effective: u128::from(part.effective.0),
            unpriced: if is_priced { 0 } else { time },
            cost: part.cost,
            utilized: part.utilized,
            unobserved: part.unobserved,
            held,
            granted: u128::from(part.granted.0),
            unused: part.unused,
            nobodys,
            ..Self::default()
        }
    }

    /// Whether any of it is a part of a GPU that was divided among holders.
    #[must_use]
    pub const fn is_divided(&self) -> bool {
        self.held + self.nobodys > 0
    }

    /// The same, at the price of this GPU, which may be an estimate.
    pub(crate) fn priced_as(self, gpu: &Gpu) -> Self {
        match gpu.range_of(self.cost) {
            Some(estimated_range) => Self { estimated: self.cost, estimated_range, ..self },
            None => self,
        }
    }

    /// Whether none of the time has a price.
    #[must_use]
    pub const fn has_no_price(&self) -> bool {
        self.time > 0 && self.unpriced == self.time
    }

    /// The cost at the lowest and the highest prices; `None` if all prices are exact.
    #[must_use]
    pub fn range(&self) -> Option<[NanoUsd; 2]> {
        let exact = self.cost - self.estimated;
        (self.estimated > NanoUsd::ZERO).then(|| self.estimated_range.map(|bound| exact + bound))
    }

    /// The totals of a period by the kind of its time. Utilized cost and effective time are first of
    /// the time at work.
    pub(crate) fn split(period: &Period, is_priced: bool) -> Split {
        let all = Self::of(period, is_priced);
        let part = |accounts: &[Account]| {
            let time = u128::from(period.accounts.time_in(accounts).0);
            let unpriced = if is_priced { 0 } else { time };
            Self { time, unpriced, cost: period.accounts.cost_of(accounts), ..Self::default() }
        };
        let (mut working, mut idle) = (part(&Account::WORKING), part(&Account::IDLE));
        working.utilized = all.utilized.min(working.cost);
        idle.utilized = all.utilized - working.utilized;
        working.effective = all.effective.min(working.time);
        idle.effective = all.effective - working.effective;
        idle.idle = idle.cost;
        let mut unobserved = part(&[Account::Unobserved]);
        unobserved.unobserved = unobserved.cost;
        Split { working, idle, unobserved }
    }

    /// Observed cost minus utilized cost.
    #[must_use]
    pub fn waste(&self) -> NanoUsd {
        self.cost - self.unobserved - self.utilized
    }

    /// GPU time in hours.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn hours(&self) -> f64 {
        self.time as f64 / HOUR
    }

    /// Effective time in hours.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn effective_hours(&self) -> f64 {
        self.effective as f64 / HOUR
    }

    /// Time without a price, in hours.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for display only")]
    pub fn unpriced_hours(&self) -> f64 {
        self.unpriced as f64 / HOUR
    }
}

impl AddAssign<&Self> for Totals {
    fn add_assign(&mut self, other: &Self) {
        self.time += other.time;
        self.effective += other.effective;
        self.unpriced += other.unpriced;
        self.cost += other.cost;
        self.utilized += other.utilized;
        self.idle += other.idle;
        self.unobserved += other.unobserved;
        self.held += other.held;
        self.granted += other.granted;
        self.nobodys += other.nobodys;
        for (sum, unused) in self.unused.iter_mut().zip(other.unused) {
            *sum += unused;
        }
        self.estimated += other.estimated;
        for (sum, bound) in self.estimated_range.iter_mut().zip(other.estimated_range) {
            *sum += bound;
        }
    }
}
