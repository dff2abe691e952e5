//! Posts a charge to the accounts of those among whom it is divided.

use std::sync::Arc;

use super::division::{Carries, Division};
use super::rounding::{self, Carry};
use super::shares::Shares;
use crate::accounts::{Balance, Charge, ChargeShare};
use crate::apportion::apportion;
use crate::holder::HolderAccount;
use crate::money::NanoUsd;
use crate::units::Nanos;

impl Division {
    /// Posts a divided charge.
    pub(super) fn post_shares(&mut self, charge: &Charge, shares: &Shares) {
        let slice = &charge.slice;
        let time = slice.to.since(slice.from);
        let mut lines = Vec::with_capacity(3 * self.holdings.len() + 1);
        let mut carries = Vec::with_capacity(lines.capacity());
        for (index, holding) in self.holdings.iter().enumerate() {
            let touched = self.rows.get(holding.row).and_then(|row| row.touched);
            let before = touched.map_or(time, |touched| touched.since(slice.from)).0.min(time.0);
            // What is not used is the same at any time of the slice.
            let parts = [time.0 - before, before];
            let rest = apportion(shares.unused[index], &parts);
            lines.push(shares.used[index] * shares.denominator);
            lines.extend(rest.unwrap_or_else(|| vec![0; parts.len()]));
            carries.extend(holding.carries);
        }
        lines.push(shares.hidden * shares.denominator + shares.free);
        carries.push(self.of_nobody);
        let Some(fractions) = rounding::fractions(&lines) else { return };
        let divide = |total: i128, carry: fn(&mut Carries) -> &mut Carry, all: &mut [Carries]| {
            let mut carries: Vec<Carry> = all.iter_mut().map(|it| *carry(it)).collect();
            let amounts = rounding::divide(total, &fractions, &mut carries);
            all.iter_mut().zip(carries).for_each(|(all, new)| *carry(all) = new);
            amounts
        };
        let times = divide(time.0.into(), |it| &mut it.time, &mut carries);
        let costs = divide(charge.cost.0, |it| &mut it.cost, &mut carries);
        let mut amounts = times
            .iter()
            .zip(costs)
            .map(|(time, cost)| (Nanos(u64::try_from(*time).unwrap_or_default()), NanoUsd(cost)));
        let mut rest = charge.utilized;
        let share = |holder| {
            let (from, to, time, cost) = (slice.from, slice.to, Nanos::ZERO, NanoUsd::ZERO);
            ChargeShare { holder, from, to, time, weighted: 0, cost }
        };
        for (index, holding) in self.holdings.iter_mut().enumerate() {
            let mut carries = carries.iter().skip(index * HolderAccount::ALL.len());
            let row = self.rows.get(holding.row).filter(|row| row.accounts.is_some());
            let mut all = share(row.map(|row| Arc::clone(&row.holder)));
            let mut accounts = self.rows.accounts_of_mut(holding.row);
            for (account, (time, cost)) in HolderAccount::ALL.into_iter().zip(amounts.by_ref()) {
                let used = if account == HolderAccount::Used { shares.used[index] } else { 0 };
                let utilized = charge.utilized.part(used, slice.weighted);
                rest = rest - utilized;
                let amount = Balance::of(time, used, cost, utilized);
                match &mut accounts {
                    Some(accounts) => accounts.add(account, slice.account, amount),
                    None => *self.nobody.balance_mut(slice.account) += amount,
                }
                self.energy.add(Some(holding.row), time);
                all.add(time, used, cost);
            }
            self.shares.push(all);
            holding.carries.iter_mut().zip(carries.by_ref()).for_each(|(mine, new)| *mine = *new);
        }
        if let (Some((time, cost)), Some(carry)) = (amounts.next(), carries.last()) {
            let nobody = Balance::of(time, shares.hidden, cost, rest);
            *self.nobody.balance_mut(slice.account) += nobody;
            self.energy.add(None, time);
            let mut all = share(None);
            all.add(time, shares.hidden, cost);
            self.shares.push(all);
            self.of_nobody = *carry;
        }
        for holding in &self.holdings {
            let Some(row) = self.rows.get_mut(holding.row) else { continue };
            let touched = row.touched.filter(|touched| *touched < slice.to);
            if let (Some(touched), Some(accounts)) = (touched, &mut row.accounts) {
                accounts.first_touch.get_or_insert(touched.max(accounts.from));
            }
        }
    }
}
