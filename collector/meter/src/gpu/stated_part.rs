//! The part of a report that has what another meter states of some holders of a GPU. Nothing else depends on it.

use super::GpuMeter;
use super::part::GpuPart;
use super::stated::StatedAccounts;
use crate::accounts::Accounts;
use crate::apportion::apportion;
use crate::energy::Energy;
use crate::holders::Holders;
use crate::money::{NanoUsd, Rate};
use crate::phase::{Account, Phase};
use crate::summary::{Summary, Unobserved};
use crate::units::Nanos;
use crate::waste::WasteByCategory;

impl GpuMeter {
    /// What is stated of this GPU, in place of its own accounts, at this rate; `None` if that is nothing. Pattern,
    /// utilization and memory are those of the whole GPU, as measured here. So are the categories of waste and the
    /// sources of energy, in proportion.
    #[must_use]
    pub fn part_of(&self, stated: &StatedAccounts, rate: Option<Rate>) -> Option<GpuPart> {
        let (from, until) = stated.span()?;
        let holders = stated.holders();
        // A holder may come and go within the run.
        let (first, last) = holders.span();
        let from = from.max(first.unwrap_or(from));
        let span = (from, until.min(last.unwrap_or(until)).max(from));
        let (own, accounts) = (self.summary(), holders.accounts());
        let mut unobserved = Unobserved::default();
        *unobserved.time_mut(None) = accounts[Account::Unobserved].time;
        let held = [Account::IdleHeld, Account::IdleFree].map(|it| accounts[it].time);
        let summary = Summary {
            span: Some(span),
            rate,
            accounts,
            holding_known: own.holding_known || held.iter().any(|time| *time > Nanos::ZERO),
            unobserved,
            waste: waste(&own.waste, &accounts),
            energy: energy(&own.energy, holders.picojoules()),
            ..own
        };
        let periods = stated.periods.until_now(&accounts);
        let holders = Holders::stated(&holders);
        Some(GpuPart { summary, periods, holders, absent: Nanos::ZERO, is_share: true })
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
