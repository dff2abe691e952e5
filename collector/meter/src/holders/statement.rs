//! What another meter states of some holders of a GPU: their accounts at an instant.

use std::collections::BTreeMap;

use super::accounts::HolderAccounts;
use crate::accounts::Accounts;
use crate::holder::{Holder, HolderAccount};
use crate::phase::Account;
use crate::units::Timestamp;

/// The accounts of some holders of a GPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statement(BTreeMap<Holder, HolderAccounts>);

impl Statement {
    /// Adds the accounts of a holder, to those that it has.
    pub fn add(&mut self, holder: Holder, accounts: &HolderAccounts) {
        self.0
            .entry(holder)
            .and_modify(|known| {
                // The later one may hold the GPU still, or again.
                let to = accounts.to.and(known.to.max(accounts.to));
                known.absorb(accounts);
                known.to = to;
            })
            .or_insert_with(|| accounts.clone());
    }

    /// A later state of the same accounts. Holders that are not in it any more keep what they had. Returns false, and
    /// changes nothing, if one has less than before.
    pub(crate) fn update(&mut self, later: Self) -> bool {
        let follows = |(holder, now): (&Holder, &HolderAccounts)| {
            self.0.get(holder).is_none_or(|before| now.follows(before))
        };
        let is_valid = later.0.iter().all(follows);
        if is_valid {
            self.0.extend(later.0);
        }
        is_valid
    }

    /// The difference to an earlier state, without those that have nothing since then.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let since = self.0.iter().map(|(holder, now)| {
            let before = earlier.0.get(holder);
            (holder.clone(), before.map_or_else(|| now.clone(), |before| now.since(before)))
        });
        Self(since.filter(|(_, accounts)| !accounts.is_empty()).collect())
    }

    /// Adds all of another one.
    pub(crate) fn join(&mut self, other: Self) {
        other.0.into_iter().for_each(|(holder, accounts)| self.add(holder, &accounts));
    }

    /// Those that held the GPU before an instant.
    pub(crate) fn held_before(&self, at: Timestamp) -> Self {
        let held = self.0.iter().filter(|(_, accounts)| accounts.from() < at);
        Self(held.map(|(holder, accounts)| (holder.clone(), accounts.clone())).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The sum of all holders, by account of the GPU.
    #[must_use]
    pub fn accounts(&self) -> Accounts {
        let mut sum = Accounts::default();
        for accounts in self.0.values() {
            for account in Account::ALL {
                for of in HolderAccount::ALL {
                    *sum.balance_mut(account) += accounts.balance(of, account);
                }
            }
        }
        sum
    }

    /// Since when any holds the GPU, and until when; `None` if one still does, or there are none.
    pub(crate) fn span(&self) -> (Option<Timestamp>, Option<Timestamp>) {
        let first = self.0.values().map(HolderAccounts::from).min();
        let ends = self.0.values().map(HolderAccounts::to);
        (first, ends.reduce(|a, b| Some(a?.max(b?))).flatten())
    }

    /// The energy of all holders.
    pub(crate) fn picojoules(&self) -> u128 {
        self.0.values().fold(0, |sum, accounts| sum.saturating_add(accounts.picojoules()))
    }

    /// The accounts of each holder, in the order of holders.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Holder, &HolderAccounts)> {
        self.0.iter()
    }
}
