//! What another meter states of some holders of a GPU over a run or a part of it, in place of the accounts of the GPU.

use super::part::GpuPart;
use crate::accounts::Accounts;
use crate::apportion::apportion;
use crate::energy::Energy;
use crate::holders::{Holders, Statement};
use crate::money::{NanoUsd, Rate};
use crate::periods::PeriodList;
use crate::phase::{Account, Phase};
use crate::summary::{Summary, Unobserved};
use crate::units::{Nanos, Timestamp};
use crate::waste::WasteByCategory;

/// What is stated over a run or a part of it. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct StatedPart {
    /// The time range; `None` if nothing is stated.
    pub span: Option<(Timestamp, Timestamp)>,
    pub(super) holders: Statement,
    pub(super) periods: PeriodList,
    /// The first ranges of time before its end that are not in what is stated.
    pub gaps: Vec<(Timestamp, Timestamp)>,
    /// All such time.
    pub missing: Nanos,
}

impl StatedPart {
    /// Whether no time is in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.span.is_none() || self.holders.accounts().is_empty()
    }

    /// It in place of the accounts of the whole GPU, at this rate; `None` if nothing is stated. Pattern, utilization and
    /// memory are those of the `whole`, as measured meanwhile. So are the categories of waste and the sources of energy,
    /// in proportion.
    #[must_use]
    pub fn of_gpu(&self, whole: &Summary, rate: Option<Rate>) -> Option<GpuPart> {
        let (from, until) = self.span?;
        // A holder may come and go within the run.
        let (first, last) = self.holders.span();
        let from = from.max(first.unwrap_or(from));
        let span = (from, until.min(last.unwrap_or(until)).max(from));
        let accounts = self.holders.accounts();
        let mut unobserved = Unobserved::default();
        *unobserved.time_mut(None) = accounts[Account::Unobserved].time;
        let held = [Account::IdleHeld, Account::IdleFree].map(|it| accounts[it].time);
        let summary = Summary {
            span: Some(span),
            rate,
            accounts,
            holding_known: whole.holding_known || held.iter().any(|time| *time > Nanos::ZERO),
            unobserved,
            waste: waste(&whole.waste, &accounts),
            energy: energy(&whole.energy, self.holders.picojoules()),
            ..*whole
        };
        Some(GpuPart {
            summary,
            periods: self.periods.clone(),
            holders: Holders::stated(&self.holders),
            absent: Nanos::ZERO,
            alerts: None,
            share_of: Some(Box::new(*whole)),
        })
    }
}

/// The waste of these accounts by category: idle or not by the accounts, and starvation in the proportion that was
/// measured.
fn waste(measured: &WasteByCategory, accounts: &Accounts) -> WasteByCategory {
    let of = |is_idle: bool| -> NanoUsd {
        let all = Account::OBSERVED.into_iter();
        let its = all.filter(|account| (account.phase() == Some(Phase::Idle)) == is_idle);
        its.map(|account| accounts[account].waste()).sum()
    };
    let (idle, underload) = (of(true), of(false));
    let nano = |amount: NanoUsd| u128::try_from(amount.0).unwrap_or_default();
    let all = idle + underload;
    let parts = [measured.starvation, measured.idle + measured.underload].map(nano);
    let starvation = apportion(nano(all), &parts).and_then(|parts| parts.first().copied());
    let starvation = i128::try_from(starvation.unwrap_or_default()).map_or(NanoUsd::ZERO, NanoUsd);
    // A stretch in which it waits for input has mostly idle seconds.
    let of_idle = starvation.min(idle);
    WasteByCategory {
        starvation,
        idle: idle - of_idle,
        underload: underload - (starvation - of_idle),
    }
}

/// This much energy, by the bases that were measured.
fn energy(measured: &Energy, picojoules: u128) -> Energy {
    let parts: Vec<_> = measured.parts().collect();
    let each: Vec<u128> = parts.iter().map(|(_, part)| part.picojoules).collect();
    let mut energy = Energy::default();
    for ((basis, part), picojoules) in
        parts.iter().zip(apportion(picojoules, &each).unwrap_or_default())
    {
        let stated = energy.part_mut(*basis);
        (stated.time, stated.picojoules) = (part.time, picojoules);
    }
    energy
}
