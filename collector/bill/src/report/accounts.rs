//! Time and cost by account.

use std::fmt;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::phase::Account;
use phasemeter_meter::units::Nanos;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{Seconds, Usd};

/// Time and cost by account. An absent account has neither.
#[derive(Clone, Debug, Default)]
pub struct Accounts(pub(super) [AccountTotals; Account::ALL.len()]);

/// Time and cost of one account.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct AccountTotals {
    /// Time.
    pub seconds: Seconds,
    /// Cost; `None` without a price.
    pub cost_usd: Option<Usd>,
}

impl Accounts {
    /// The time in an account.
    #[must_use]
    pub const fn time(&self, account: Account) -> Nanos {
        self.0[account as usize].seconds.0
    }

    /// The cost of an account; zero without a price.
    #[must_use]
    pub fn cost(&self, account: Account) -> NanoUsd {
        self.0[account as usize].cost_usd.unwrap_or_default().0
    }

    /// The time in these accounts.
    #[must_use]
    pub fn time_in(&self, accounts: &[Account]) -> Nanos {
        accounts.iter().map(|account| self.time(*account)).sum()
    }

    /// The cost of these accounts.
    #[must_use]
    pub fn cost_of(&self, accounts: &[Account]) -> NanoUsd {
        accounts.iter().map(|account| self.cost(*account)).sum()
    }

    /// Whether any account has a cost.
    pub(crate) fn is_priced(&self) -> bool {
        self.0.iter().any(|totals| totals.cost_usd.is_some())
    }
}

struct AccountsVisitor;

impl<'de> Visitor<'de> for AccountsVisitor {
    type Value = Accounts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of accounts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Accounts, A::Error> {
        let mut accounts = [None; Account::ALL.len()];
        while let Some(name) = map.next_key::<String>()? {
            let account = Account::ALL.into_iter().find(|account| account.name() == name);
            let account =
                account.ok_or_else(|| A::Error::custom(format!("unknown account {name:?}")))?;
            if accounts[account as usize].replace(map.next_value()?).is_some() {
                return Err(A::Error::custom(format!("account {name:?} is repeated")));
            }
        }
        Ok(Accounts(accounts.map(Option::unwrap_or_default)))
    }
}

impl<'de> Deserialize<'de> for Accounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(AccountsVisitor)
    }
}
