//! Sums of a report: of one GPU, or added up over several.

use std::ops::AddAssign;

use phasemeter_meter::accounts::{Accounts, Balance};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::reading::MissingReason;
use phasemeter_meter::summary::{self, Summary};
use phasemeter_meter::units::Nanos;
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_terminal::percent::{Percent, percents};

use super::input::GpuInput;
use super::model::{PhaseTotals, Phases, UnobservedReason, UnobservedTime, WasteUsd};
use super::value::{Seconds, Usd};

/// Sums over GPUs. A GPU without a price adds no money.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    pub(super) accounts: Accounts,
    pub(super) utilized: NanoUsd,
    pub(super) waste: NanoUsd,
    waste_by_category: WasteByCategory,
    unobserved: summary::Unobserved,
    /// Σ utilization × time in ppm·ns: of all GPUs, and of those that have a price.
    pub(super) weighted: u128,
    pub(super) priced_weighted: u128,
    /// Whether any GPU has a price.
    priced: bool,
    /// Whether holding was known for any GPU at any time.
    holding_known: bool,
    /// The held idle time that schedulers granted and nothing had touched; `None` if they granted none.
    never_touched: Option<Balance>,
}

impl Sums {
    pub(super) fn of(gpu: &GpuInput<'_>, summary: &Summary) -> Self {
        let accounts = summary.accounts;
        let priced = gpu.price.is_ok();
        let weighted = accounts.observed().weighted;
        Self {
            accounts,
            utilized: accounts.utilized_cost(),
            waste: accounts.waste(),
            waste_by_category: summary.waste,
            unobserved: summary.unobserved,
            weighted,
            priced_weighted: if priced { weighted } else { 0 },
            priced,
            holding_known: summary.holding_known,
            never_touched: gpu.holders().idle_never_touched(),
        }
    }

    pub(super) fn bill(&self) -> NanoUsd {
        self.accounts.all().cost
    }

    pub(super) fn unobserved_cost(&self) -> NanoUsd {
        self.accounts[Account::Unobserved].cost
    }

    /// An amount; `None` if no GPU has a price.
    pub(super) fn usd(&self, amount: NanoUsd) -> Option<Usd> {
        self.priced.then_some(Usd(amount))
    }

    pub(super) fn waste_by_category(&self) -> WasteUsd {
        WasteUsd {
            starvation: self.usd(self.waste_by_category.starvation),
            idle: self.usd(self.waste_by_category.idle),
            underload: self.usd(self.waste_by_category.underload),
        }
    }

    pub(super) fn reasons(&self) -> Vec<UnobservedTime> {
        let missing = MissingReason::ALL.map(UnobservedReason::from);
        let missing = missing.into_iter().zip(self.unobserved.missing);
        std::iter::once((UnobservedReason::NoReading, self.unobserved.no_reading))
            .chain(missing)
            .filter(|(_, time)| *time > Nanos::ZERO)
            .map(|(reason, time)| UnobservedTime { reason, seconds: Seconds(time) })
            .collect()
    }

    pub(super) fn phases(&self) -> Phases {
        let never_touched = self.never_touched.unwrap_or_default();
        let observed = Account::OBSERVED.map(|account| {
            let balance = self.accounts[account];
            (balance.time, balance.cost)
        });
        let [(held, held_cost), free, unknown, underutilized, productive, compute_bound] = observed;
        // Held idle time in two parts, so that percentages sum up.
        let leaves = [
            (never_touched.time, never_touched.cost),
            (held - never_touched.time, held_cost - never_touched.cost),
            free,
            unknown,
            underutilized,
            productive,
            compute_bound,
        ];
        let shares = percents(leaves.map(|(time, _)| time));
        let totals = std::array::from_fn(|leaf| {
            let (time, cost) = leaves[leaf];
            let percent = shares.map(|shares| shares[leaf]);
            PhaseTotals { seconds: Seconds(time), percent, cost_usd: self.usd(cost) }
        });
        let [never_touched, touched, free, unknown, underutilized, productive, compute_bound] =
            totals;
        let held = never_touched.and(touched);
        Phases {
            idle: held.and(free).and(unknown),
            idle_held: self.holding_known.then_some(held),
            idle_never_touched: self.never_touched.map(|_| never_touched),
            idle_free: self.holding_known.then_some(free),
            idle_unknown: unknown,
            underutilized,
            productive,
            compute_bound,
        }
    }
}

impl AddAssign<&Self> for Sums {
    fn add_assign(&mut self, other: &Self) {
        self.accounts += &other.accounts;
        self.utilized += other.utilized;
        self.waste += other.waste;
        self.waste_by_category.starvation += other.waste_by_category.starvation;
        self.waste_by_category.idle += other.waste_by_category.idle;
        self.waste_by_category.underload += other.waste_by_category.underload;
        self.unobserved.no_reading += other.unobserved.no_reading;
        for (mine, theirs) in self.unobserved.missing.iter_mut().zip(other.unobserved.missing) {
            *mine += theirs;
        }
        self.weighted += other.weighted;
        self.priced_weighted += other.priced_weighted;
        self.priced |= other.priced;
        self.holding_known |= other.holding_known;
        if let Some(never_touched) = other.never_touched {
            *self.never_touched.get_or_insert_default() += never_touched;
        }
    }
}

impl PhaseTotals {
    /// The sum of both.
    fn and(self, other: Self) -> Self {
        let percent = self.percent.zip(other.percent);
        let cost = self.cost_usd.zip(other.cost_usd);
        Self {
            seconds: Seconds(self.seconds.0 + other.seconds.0),
            percent: percent.map(|(a, b): (Percent, Percent)| a + b),
            cost_usd: cost.map(|(Usd(a), Usd(b))| Usd(a + b)),
        }
    }
}

impl From<MissingReason> for UnobservedReason {
    fn from(reason: MissingReason) -> Self {
        match reason {
            MissingReason::NotCollected => Self::NoUtilizationColumn,
            MissingReason::NotSupported => Self::NotSupported,
            MissingReason::Lost => Self::GpuLost,
            MissingReason::Unreadable => Self::Unreadable,
            MissingReason::Vanished => Self::GpuVanished,
        }
    }
}
