//! The holders that have ended and are not kept apart any more: together by who pays for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::accounts::HolderAccounts;
use super::row_id::RowId;
use crate::holder::Holder;
use crate::holder_details::HolderDetails;

/// Maximum number of payers.
const MAX_PAYERS: usize = 64;

/// Maximum number of holders of which it is known whose row they joined: what is divided late, as energy is, is theirs.
const MAX_RECENT: usize = 64;

/// Holders of one GPU that have ended and are not kept apart any more: those of one namespace of which the same is
/// known besides. Beyond 64 such groups, those of one namespace together; beyond another 64, all others.
#[derive(Clone, Copy, Debug)]
pub struct EarlierHolders<'a> {
    /// Their namespace, if known.
    pub namespace: Option<&'a str>,
    /// What is known of each of them; `None` if that is nothing, or differs.
    pub details: Option<&'a HolderDetails>,
    /// Their number.
    pub count: u64,
    /// Their accounts together.
    pub accounts: &'a HolderAccounts,
}

/// Who pays. The first is anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Payer {
    namespace: Option<String>,
    details: Option<Arc<HolderDetails>>,
}

/// Accounts by payer.
#[derive(Clone, Debug, Default)]
pub(super) struct Earlier {
    max: usize,
    payers: BTreeMap<Arc<Payer>, Joined>,
    recent: BTreeMap<RowId, Arc<Payer>>,
}

/// Those of one payer.
#[derive(Clone, Debug)]
struct Joined {
    count: u64,
    accounts: HolderAccounts,
    /// What they had before the part of the run in progress.
    before: Option<Before>,
}

#[derive(Clone, Debug)]
struct Before {
    count: u64,
    accounts: HolderAccounts,
}

impl Earlier {
    /// Of a GPU that keeps at most `max_ended` apart.
    pub(super) fn new(max_ended: usize) -> Self {
        Self { max: max_ended.min(MAX_PAYERS), ..Self::default() }
    }

    /// A holder joins those of its payer. `before` is what it had before the part of the run in progress, if that is
    /// not the first.
    pub(super) fn join(
        &mut self,
        (id, holder): (RowId, &Holder),
        details: Option<Arc<HolderDetails>>,
        accounts: HolderAccounts,
        before: Option<HolderAccounts>,
    ) {
        let payer = self.payer(holder, details);
        self.recent.insert(id, Arc::clone(&payer));
        if self.recent.len() > MAX_RECENT {
            self.recent.pop_first();
        }
        match self.payers.get_mut(&payer) {
            Some(joined) => {
                joined.count += 1;
                joined.accounts.absorb(&accounts);
                if let (Some(mine), Some(before)) = (&mut joined.before, before) {
                    mine.accounts.absorb(&before);
                }
            }
            None => {
                let before = before.map(|accounts| Before { count: 0, accounts });
                self.payers.insert(payer, Joined { count: 1, accounts, before });
            }
        }
    }

    /// Who pays for a holder: by the most that is known of it, if its row exists or can be added.
    fn payer(&self, holder: &Holder, details: Option<Arc<HolderDetails>>) -> Arc<Payer> {
        let namespace = holder.namespace().map(str::to_owned);
        let of_namespace = Payer { namespace: namespace.clone(), details: None };
        let candidates = [(Payer { namespace, details }, self.max), (of_namespace, 2 * self.max)];
        for (payer, max) in candidates {
            if let Some((known, _)) = self.payers.get_key_value(&payer) {
                return Arc::clone(known);
            }
            if self.payers.len() < max {
                return Arc::new(payer);
            }
        }
        Arc::default()
    }

    /// The accounts of which a holder's are part.
    pub(super) fn accounts_of_mut(&mut self, id: RowId) -> Option<&mut HolderAccounts> {
        let payer = self.recent.get(&id).or_else(|| self.payers.keys().next()).cloned()?;
        self.payers.get_mut(&payer).map(|joined| &mut joined.accounts)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = EarlierHolders<'_>> {
        self.payers.iter().map(|(payer, joined)| EarlierHolders {
            namespace: payer.namespace.as_deref(),
            details: payer.details.as_deref(),
            count: joined.count,
            accounts: &joined.accounts,
        })
    }

    /// All accounts.
    pub(super) fn accounts_mut(&mut self) -> impl Iterator<Item = &mut HolderAccounts> {
        self.payers.values_mut().map(|joined| &mut joined.accounts)
    }

    /// Another part of the run begins.
    pub(super) fn begin_part(&mut self) {
        for joined in self.payers.values_mut() {
            let Joined { count, accounts, .. } = joined.clone();
            joined.before = Some(Before { count, accounts });
        }
    }

    /// The same with the accounts of the part of the run in progress only: of those that have any.
    pub(super) fn of_part(&self) -> Self {
        let mut of_part = Self { recent: BTreeMap::new(), ..self.clone() };
        of_part.payers.retain(|_, joined| {
            if let Some(before) = joined.before.take() {
                joined.count = (joined.count - before.count).max(1);
                joined.accounts = joined.accounts.since(&before.accounts);
            }
            !joined.accounts.is_empty()
        });
        of_part
    }
}
