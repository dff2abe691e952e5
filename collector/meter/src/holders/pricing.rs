//! The cost of holders of a GPU whose price becomes known late.

use super::division::Division;
use crate::accounts::{Accounts, Balance};
use crate::accrual::UtilizedCost;
use crate::apportion::apportion;
use crate::money::{NanoUsd, Rate};
use crate::phase::Account;

impl Division {
    /// At a constant rate, the cost of an account of the GPU is divided by the time that each has of it.
    pub(super) fn price(&mut self, rate: Rate, accounts: &Accounts) {
        for account in Account::ALL {
            let nobody = [self.nobody.balance_mut(account)];
            let holders =
                self.rows.accounts_mut().into_iter().flat_map(|all| all.balances_mut(account));
            let mut balances: Vec<&mut Balance> = nobody.into_iter().chain(holders).collect();
            let times: Vec<u64> = balances.iter().map(|balance| balance.time.0).collect();
            let cost = u128::try_from(accounts[account].cost.0).unwrap_or_default();
            let Some(costs) = apportion(cost, &times) else { continue };
            for (balance, cost) in balances.iter_mut().zip(costs) {
                let utilized = UtilizedCost::of(balance.weighted, rate);
                let cost = NanoUsd(i128::try_from(cost).unwrap_or_default());
                **balance = Balance::of(balance.time, balance.weighted, cost, utilized);
            }
        }
    }
}
