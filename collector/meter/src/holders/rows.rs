//! The holders of a GPU that are kept apart: a bounded table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::accounts::HolderAccounts;
use super::earlier::Earlier;
use super::row_id::RowId;
use crate::holder::Holder;
use crate::holder_details::HolderDetails;
use crate::units::Timestamp;

/// Maximum number of holders that have not ended. More are refused.
const MAX_HOLDING: usize = 512;

/// The holders of a GPU.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    ids: BTreeMap<Arc<Holder>, RowId>,
    rows: BTreeMap<RowId, Row>,
    next: RowId,
    /// Those that have ended, by their ends.
    ended: BTreeSet<(Timestamp, RowId)>,
    /// Maximum number of holders that have ended and are kept apart.
    max_ended: usize,
    /// Those that are not kept apart any more.
    pub(super) earlier: Earlier,
    /// How often a holder was refused.
    pub(super) refused: u64,
    /// What those whose accounts have changed in the part of the run in progress had before it, unless it is the first.
    before_part: Option<BTreeMap<RowId, HolderAccounts>>,
}

/// A holder.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) holder: Arc<Holder>,
    /// Its accounts, once it has held or used the GPU.
    pub(super) accounts: Option<HolderAccounts>,
    /// What is known of it besides.
    details: Option<Arc<HolderDetails>>,
    /// When it was or will first be touched.
    pub(super) touched: Option<Timestamp>,
    /// The latest instant that anything is known of.
    known_until: Timestamp,
}

impl Row {
    /// Its accounts, which begin at `at` if it has none.
    pub(super) fn begin(&mut self, at: Timestamp) -> &mut HolderAccounts {
        self.accounts.get_or_insert_with(|| HolderAccounts::new(at))
    }

    /// It is touched from `at` on, if not earlier.
    pub(super) fn touch(&mut self, at: Timestamp) {
        self.touched = Some(self.touched.map_or(at, |touched| touched.min(at)));
    }
}

impl Rows {
    pub(super) fn new(max_ended: usize) -> Self {
        Self {
            ids: BTreeMap::new(),
            rows: BTreeMap::new(),
            next: 0,
            ended: BTreeSet::new(),
            max_ended,
            earlier: Earlier::new(max_ended),
            refused: 0,
            before_part: None,
        }
    }

    /// The row of a holder of which something is known up to `until`; `None` if there are too many. All time
    /// before `posted` is posted.
    pub(super) fn find_or_add(
        &mut self,
        holder: &Holder,
        until: Timestamp,
        posted: Timestamp,
    ) -> Option<RowId> {
        if let Some(&id) = self.ids.get(holder) {
            let row = self.rows.get_mut(&id)?;
            row.known_until = row.known_until.max(until);
            return Some(id);
        }
        if self.rows.len() >= self.max_ended + MAX_HOLDING {
            self.forget_unused(posted);
        }
        if self.rows.len() >= self.max_ended + MAX_HOLDING {
            self.refused += 1;
            return None;
        }
        let (id, holder) = (self.next, Arc::new(holder.clone()));
        self.next += 1;
        self.ids.insert(Arc::clone(&holder), id);
        let (accounts, details, touched) = (None, None, None);
        self.rows.insert(id, Row { holder, accounts, details, touched, known_until: until });
        Some(id)
    }

    /// Adds a holder with the accounts that another meter states.
    pub(super) fn add_stated(&mut self, holder: &Holder, accounts: HolderAccounts) {
        let row = self.find_or_add(holder, Timestamp::EPOCH, Timestamp::EPOCH);
        if let Some(row) = row.and_then(|id| self.rows.get_mut(&id)) {
            row.accounts = Some(accounts);
        }
    }

    pub(super) fn get(&self, id: RowId) -> Option<&Row> {
        self.rows.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: RowId) -> Option<&mut Row> {
        self.rows.get_mut(&id)
    }

    /// The accounts of a holder.
    pub(super) fn accounts(&self, holder: &Holder) -> Option<&HolderAccounts> {
        self.rows.get(self.ids.get(holder)?)?.accounts.as_ref()
    }

    /// What is known of a holder besides.
    pub(super) fn details(&self, holder: &Holder) -> Option<&HolderDetails> {
        self.rows.get(self.ids.get(holder)?)?.details.as_deref()
    }

    /// Replaces what is known of a holder besides, if it has a row.
    pub(super) fn describe(&mut self, holder: &Holder, details: Arc<HolderDetails>) {
        let row = self.ids.get(holder).and_then(|id| self.rows.get_mut(id));
        if let Some(row) = row {
            row.details = Some(details);
        }
    }

    /// The holders that have accounts, in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Holder, &HolderAccounts)> {
        let row = |(holder, id)| {
            let (holder, id): (&Arc<Holder>, &RowId) = (holder, id);
            Some((holder.as_ref(), self.rows.get(id)?.accounts.as_ref()?))
        };
        self.ids.iter().filter_map(row)
    }

    /// All accounts, in the order of holders.
    pub(super) fn accounts_mut(&mut self) -> Vec<&mut HolderAccounts> {
        let mut rows: Vec<&mut Row> = self.rows.values_mut().collect();
        rows.sort_unstable_by(|a, b| a.holder.cmp(&b.holder));
        let accounts = rows.into_iter().filter_map(|row| row.accounts.as_mut());
        accounts.chain(self.earlier.accounts_mut()).collect()
    }

    /// The accounts of a holder, those of the earlier ones if it was folded.
    pub(super) fn accounts_of_mut(&mut self, id: RowId) -> Option<&mut HolderAccounts> {
        let Some(accounts) = self.rows.get_mut(&id).and_then(|row| row.accounts.as_mut()) else {
            return self.earlier.accounts_of_mut(id);
        };
        if let Some(before) = &mut self.before_part {
            before.entry(id).or_insert_with(|| accounts.clone());
        }
        Some(accounts)
    }

    /// Another part of the run begins.
    pub(super) fn begin_part(&mut self) {
        self.before_part = Some(BTreeMap::new());
        self.earlier.begin_part();
    }

    /// The same with the accounts of the part of the run in progress only: of those that have any.
    pub(super) fn of_part(&self) -> Self {
        let mut of_part = Self::new(self.max_ended);
        for (holder, id) in &self.ids {
            let Some(row) = self.rows.get(id) else { continue };
            let accounts = row.accounts.as_ref();
            let accounts = accounts.and_then(|accounts| match &self.before_part {
                None => Some(accounts.clone()),
                Some(before) => Some(accounts.since(before.get(id)?)),
            });
            let Some(accounts) = accounts.filter(|accounts| !accounts.is_empty()) else { continue };
            of_part.ids.insert(Arc::clone(holder), *id);
            let row = Row {
                holder: Arc::clone(holder),
                accounts: Some(accounts),
                details: row.details.clone(),
                touched: None,
                known_until: Timestamp::EPOCH,
            };
            of_part.rows.insert(*id, row);
        }
        of_part.earlier = self.earlier.of_part();
        of_part
    }

    /// A holder is granted a part from `at` on.
    pub(super) fn grant(&mut self, id: RowId, at: Timestamp) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        if let Some(end) = row.begin(at).to.take() {
            self.ended.remove(&(end, id));
        }
    }

    /// The grant of a holder or, without one, its use ends at `at`, which is later than before.
    pub(super) fn end(&mut self, id: RowId, at: Timestamp) {
        let accounts = self.rows.get_mut(&id).and_then(|row| row.accounts.as_mut());
        let Some(accounts) = accounts else { return };
        if let Some(end) = accounts.to.replace(at) {
            self.ended.remove(&(end, id));
        }
        self.ended.insert((at, id));
    }

    /// Folds those that ended first, if more have ended than are kept apart, and nothing at or after `now` is known
    /// of them.
    pub(super) fn fold_earlier(&mut self, now: Timestamp) {
        while self.ended.len() > self.max_ended {
            let is_over = |id: &RowId| self.rows.get(id).is_none_or(|row| row.known_until < now);
            let Some(first) = self.ended.iter().find(|(_, id)| is_over(id)).copied() else {
                return;
            };
            self.ended.remove(&first);
            self.fold(first.1);
        }
    }

    fn fold(&mut self, id: RowId) {
        let Some(row) = self.rows.remove(&id) else { return };
        self.ids.remove(&row.holder);
        let Some(accounts) = row.accounts else { return };
        let before = self.before_part.as_mut();
        let before = before.map(|before| before.remove(&id).unwrap_or_else(|| accounts.clone()));
        self.earlier.join((id, &row.holder), row.details, accounts, before);
    }

    /// Removes holders that were announced and never came.
    fn forget_unused(&mut self, posted: Timestamp) {
        let is_used = |row: &Row| row.accounts.is_some() || row.known_until >= posted;
        self.rows.retain(|_, row| is_used(row));
        self.ids.retain(|_, id| self.rows.contains_key(id));
    }
}
