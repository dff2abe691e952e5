//! Divides the accounts of a GPU among its holders.

mod accounts;

use std::collections::BTreeMap;

pub use self::accounts::HolderAccounts;
use crate::accounts::{Accounts, Balance};
use crate::energy::joules;
use crate::holder::{Grant, Holder, HolderUse};
use crate::phase::Account;
use crate::units::Timestamp;

/// The accounts of a GPU by holder: a second partition of the time, cost and energy of the GPU, beside phases.
///
/// The accounts of all holders, those of earlier ones and what is nobody's sum to the accounts of the GPU, of each
/// phase and in all: time to the nanosecond, cost to the nano-dollar.
#[derive(Clone, Debug, Default)]
pub struct Holders(Option<Box<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    rows: BTreeMap<Holder, HolderAccounts>,
    earlier: Option<(u64, HolderAccounts)>,
    nobody: Accounts,
    picojoules: u128,
}

impl Holders {
    /// Whether no source ever named a holder. Then there are no accounts: the GPU is not known to be nobody's.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The accounts of each holder, in the order of holders, ended or not. Of the holders that ended first, at most
    /// some are kept apart: see [`Self::earlier`].
    pub fn iter(&self) -> impl Iterator<Item = (&Holder, &HolderAccounts)> {
        self.0.iter().flat_map(|state| &state.rows)
    }

    /// The accounts of one holder.
    #[must_use]
    pub fn get(&self, holder: &Holder) -> Option<&HolderAccounts> {
        self.0.as_ref()?.rows.get(holder)
    }

    /// The number of holders that are not kept apart, and their accounts together; `None` if all are.
    #[must_use]
    pub fn earlier(&self) -> Option<(u64, &HolderAccounts)> {
        let (count, accounts) = self.0.as_ref()?.earlier.as_ref()?;
        Some((*count, accounts))
    }

    /// What is nobody's: time in which nobody was granted the GPU, parts that were not granted, and what others than
    /// known holders used.
    #[must_use]
    pub fn nobody(&self, account: Account) -> Balance {
        self.0.as_ref().map_or_else(Balance::default, |state| state.nobody[account])
    }

    /// Nobody's part of the energy of the GPU, in joules.
    #[must_use]
    pub fn nobody_joules(&self) -> f64 {
        joules(self.0.as_ref().map_or(0, |state| state.picojoules))
    }

    /// From `at` on exactly these hold the GPU.
    pub(crate) fn assign(&mut self, at: Timestamp, grants: Vec<Grant>) {
        let state = self.0.get_or_insert_default();
        for grant in grants {
            state.rows.entry(grant.holder).or_insert_with(|| HolderAccounts::new(at));
        }
    }

    /// What a holder used.
    pub(crate) fn push_use(&mut self, used: HolderUse) {
        let state = self.0.get_or_insert_default();
        state.rows.entry(used.holder).or_insert_with(|| HolderAccounts::new(used.from));
    }

    /// A compute process of a holder was seen.
    pub(crate) fn touch(&mut self, at: Timestamp, holder: &Holder) {
        let state = self.0.get_or_insert_default();
        let row = state.rows.entry(holder.clone()).or_insert_with(|| HolderAccounts::new(at));
        row.first_touch.get_or_insert(at);
    }
}
