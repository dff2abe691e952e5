//! The division of one GPU: who holds it, and what each has paid for so far.

use super::assignments::{Assignment, Assignments};
use super::energy::EnergyOfHolders;
use super::parts::Parts;
use super::rounding::Carry;
use super::row_id::RowId;
use super::rows::{Row, Rows};
use super::shares::{Shares, Usage};
use super::uses::Uses;
use crate::accounts::{Accounts, Charge, ChargeShare};
use crate::holder::{AllocationMethod, Grant, Holder, HolderAccount, HolderUse};
use crate::phase::Account;
use crate::units::{Nanos, Timestamp, Utilization};

/// Maximum number of grants of an assignment. What is granted to more is nobody's.
pub(super) const MAX_GRANTS: usize = 256;

/// The number of holders that use the GPU without a grant, at a time. What more of them use is nobody's.
const MAX_UNGRANTED: usize = 64;

/// Who holds a GPU, and what each has paid for so far.
#[derive(Clone, Debug)]
pub(super) struct Division {
    pub(super) rows: Rows,
    pub(super) nobody: Accounts,
    /// Nobody's energy.
    pub(super) picojoules: u128,
    /// What nobody had where the part of the run in progress began, if that is not the start: accounts and energy.
    before_part: Option<Box<(Accounts, u128)>>,
    pub(super) energy: EnergyOfHolders,
    assignments: Assignments,
    uses: Uses,
    /// Those that hold or use the GPU now, in the order of holders, so that rounding is the same in any order of
    /// arrival.
    pub(super) holdings: Vec<Holding>,
    grants: Parts,
    pub(super) of_nobody: Carries,
    /// The time up to which charges are divided.
    posted: Timestamp,
    /// How the last charge was divided.
    pub(super) shares: Vec<ChargeShare>,
    /// The start of the last assignment that was touched as a whole.
    touched: Option<Timestamp>,
    dropped: u64,
}

/// What is carried of time and of cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carries {
    pub(super) time: Carry,
    pub(super) cost: Carry,
}

/// One that holds or uses the GPU.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) row: RowId,
    /// How the GPU is divided if no use is known; `None` if it was granted nothing.
    granted: Option<AllocationMethod>,
    /// By account of the holder.
    pub(super) carries: [Carries; HolderAccount::ALL.len()],
}

impl Division {
    pub(super) fn new(max_ended: usize, nobody: Accounts, picojoules: u128) -> Self {
        Self {
            rows: Rows::new(max_ended),
            nobody,
            picojoules,
            before_part: None,
            energy: EnergyOfHolders::begin(picojoules),
            assignments: Assignments::default(),
            uses: Uses::default(),
            holdings: Vec::new(),
            grants: Parts::of(&[]),
            of_nobody: Carries::default(),
            posted: Timestamp::EPOCH,
            shares: Vec::new(),
            touched: None,
            dropped: 0,
        }
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped + self.rows.refused
    }

    /// Another part of the run begins, of which nobody has had this much less than all.
    pub(super) fn begin_part(&mut self, nobody: Accounts, picojoules: u128) {
        self.rows.begin_part();
        self.before_part = Some(Box::new((nobody, picojoules)));
    }

    /// The same with the accounts of the part of the run in progress only.
    pub(super) fn of_part(&self) -> Self {
        let (nobody, picojoules) = match self.before_part.as_deref() {
            None => (self.nobody, self.picojoules),
            Some((nobody, picojoules)) => (self.nobody.since(nobody), self.picojoules - picojoules),
        };
        Self { rows: self.rows.of_part(), ..Self::new(0, nobody, picojoules) }
    }

    /// The part of the GPU that a holder is granted now, known or divided equally; `None` if it holds none.
    pub(super) fn part(&self, holder: &Holder) -> Option<f64> {
        let holdings = self.holdings.iter().zip(&self.grants.parts);
        let mut own = holdings.filter(|(it, _)| {
            it.granted.is_some() && self.rows.get(it.row).is_some_and(|row| *row.holder == *holder)
        });
        let (_, part) = own.next()?;
        Some(*part as f64 / self.grants.denominator.max(1) as f64)
    }

    pub(super) fn assign(&mut self, at: Timestamp, grants: Vec<Grant>) {
        let over = grants.len().saturating_sub(MAX_GRANTS);
        self.dropped += u64::try_from(over).unwrap_or(u64::MAX);
        let (mut of_rows, mut of_others) = (Vec::new(), Vec::new());
        for (place, Grant { holder, share }) in grants.into_iter().enumerate() {
            let mut row = || self.rows.find_or_add(&holder, at, self.posted);
            match Some(place).filter(|place| *place < MAX_GRANTS).and_then(|_| row()) {
                Some(row) => of_rows.push((row, share)),
                None => of_others.push(share),
            }
        }
        let mut grants = of_rows;
        grants.sort_by_key(|(row, _)| *row);
        // It may replace one that was touched.
        self.touched.take_if(|touched| *touched == at);
        let is_taken = self.assignments.push(Assignment { from: at, grants, of_others });
        self.dropped += u64::from(!is_taken);
    }

    pub(super) fn push_use(&mut self, used: &HolderUse, idle: Utilization) {
        let Some(id) = self.rows.find_or_add(&used.holder, used.to, self.posted) else {
            return self.uses.cover(used.from, used.to);
        };
        if used.own.is_some_and(|own| own >= idle) {
            self.rows.get_mut(id).into_iter().for_each(|row| row.touch(used.from));
        }
        let is_taken = self.uses.push(id, used.from, used.to, used.utilization);
        self.dropped += u64::from(!is_taken);
    }

    pub(super) fn touch(&mut self, at: Timestamp, holder: &Holder) {
        let row = self.rows.find_or_add(holder, at, self.posted);
        let row = row.and_then(|row| self.rows.get_mut(row));
        row.into_iter().for_each(|row| row.touch(at));
    }

    /// If holders have parts of their own, or if uses have been known since those hold it, only they touch, also while uses
    /// are missing: a neighbor may have caused what the GPU did then. A holder of the whole GPU uses all that the GPU does.
    pub(super) fn touch_any(&mut self, at: Timestamp, are_parts: bool) {
        let Self { assignments, rows, uses, touched, .. } = self;
        let Some(assignment) = assignments.at(at) else { return };
        let by_use = are_parts || uses.were_known(assignment.from, at);
        let by_use = by_use && !assignment.is_exclusive();
        if *touched == Some(assignment.from) || by_use {
            return;
        }
        *touched = Some(assignment.from);
        for (row, _) in &assignment.grants {
            rows.get_mut(*row).into_iter().for_each(|row| row.touch(at));
        }
    }

    pub(super) fn is_allocated(&self, at: Timestamp) -> Option<bool> {
        let grants = &self.assignments.at(at)?.grants;
        let is_scheduled =
            |row| self.rows.get(row).is_some_and(|row: &Row| row.holder.is_scheduled());
        let is_any = grants.iter().any(|(row, _)| is_scheduled(*row));
        (is_any || grants.is_empty()).then_some(is_any)
    }

    pub(super) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        let changes = [self.assignments.next_change(at), self.uses.next_change(at)];
        changes.into_iter().flatten().min()
    }

    pub(super) fn post(&mut self, charge: &Charge) {
        let slice = &charge.slice;
        // By now the reading at that instant has been recorded.
        self.divide_energy(slice.from);
        self.advance(slice.from);
        let is_known = slice.account != Account::Unobserved && self.uses.are_known(slice.from);
        let uses = is_known.then(|| self.uses_over(slice.from, slice.to));
        let uses = uses.filter(|uses| !self.is_exclusive(uses));
        let is_touched = self.touched_while_missing(slice.from, slice.to);
        let usage = match (&uses, &is_touched) {
            (Some(uses), _) => Usage::Known(uses),
            (None, Some(is_touched)) => Usage::Missing(is_touched),
            (None, None) => Usage::Unknown,
        };
        let time = slice.to.since(slice.from);
        let shares = Shares::of(time, slice.weighted, &self.grants, usage);
        self.post_shares(charge, &shares);
        for (holding, part) in self.holdings.iter().zip(&self.grants.parts) {
            let method = uses.as_ref().map_or(holding.granted, |_| Some(AllocationMethod::ByUse));
            let Some(row) = self.rows.get_mut(holding.row) else { continue };
            if let Some(method) = method {
                row.begin(slice.from).add_method(method, time);
            }
            if let Some(accounts) = row.accounts.as_mut().filter(|_| *part > 0) {
                let granted = u128::from(time.0) * u128::from(*part);
                let granted = granted / u128::from(self.grants.denominator.max(1));
                accounts.add_granted(Nanos(u64::try_from(granted).unwrap_or(time.0)));
            }
        }
        self.posted = slice.to;
        self.uses.remove_before(slice.to);
        self.end_ungranted(&shares.used);
    }

    /// Which holdings have been touched, if uses have been known since the assignment of a GPU that several hold.
    fn touched_while_missing(&self, from: Timestamp, to: Timestamp) -> Option<Vec<bool>> {
        let assignment = self.assignments.at(from).filter(|assignment| {
            self.uses.were_known(assignment.from, from) && !assignment.is_exclusive()
        });
        let is_touched = |holding: &Holding| {
            let touched = self.rows.get(holding.row).and_then(|row| row.touched);
            touched.is_some_and(|touched| touched < to)
        };
        assignment.map(|_| self.holdings.iter().map(is_touched).collect())
    }

    /// Whether the GPU is that of one holder, and no other is known to have used it.
    fn is_exclusive(&self, uses: &[u128]) -> bool {
        let exclusive = Some(AllocationMethod::Exclusive);
        let others = self.holdings.iter().zip(uses).filter(|(it, _)| it.granted != exclusive);
        self.holdings.iter().any(|holding| holding.granted == exclusive)
            && others.map(|(_, used)| *used).sum::<u128>() == 0
    }

    /// Begins the assignment that applies at `at`.
    fn advance(&mut self, at: Timestamp) {
        let Some(assignment) = self.assignments.advance(at) else { return };
        let (parts, is_exclusive) = (assignment.parts(), assignment.is_exclusive());
        let mut holdings: Vec<(Holding, u64)> = Vec::new();
        for ((row, share), part) in assignment.grants.iter().zip(&parts.parts) {
            let method = match share {
                Some(_) if is_exclusive => AllocationMethod::Exclusive,
                Some(_) => AllocationMethod::ByGrant,
                None => AllocationMethod::Equal,
            };
            match holdings.iter_mut().find(|(holding, _)| holding.row == *row) {
                Some((holding, parts)) => {
                    *parts += part;
                    holding.granted = holding.granted.max(Some(method));
                }
                None => {
                    let before = self.holdings.iter().find(|before| before.row == *row);
                    let carries = before.map(|before| before.carries).unwrap_or_default();
                    holdings.push((Holding { row: *row, granted: Some(method), carries }, *part));
                }
            }
        }
        let is_held = |row: RowId| holdings.iter().any(|(holding, _)| holding.row == row);
        let mut ungranted = Vec::new();
        for before in self.holdings.drain(..).filter(|before| !is_held(before.row)) {
            // It may use the GPU on.
            self.rows.end(before.row, at);
            ungranted.push((Holding { granted: None, ..before }, 0));
        }
        for (holding, _) in &holdings {
            self.rows.grant(holding.row, at);
        }
        holdings.extend(ungranted);
        self.hold(holdings, parts.denominator);
    }

    /// Sets those that hold or use the GPU, with their parts.
    fn hold(&mut self, mut holdings: Vec<(Holding, u64)>, denominator: u64) {
        holdings.sort_by_cached_key(|(it, _)| self.rows.get(it.row).map(|row| row.holder.clone()));
        let (holdings, parts) = holdings.into_iter().unzip();
        (self.holdings, self.grants) = (holdings, Parts { parts, denominator });
    }

    /// What each holding used of this time; others that used any are added.
    fn uses_over(&mut self, from: Timestamp, to: Timestamp) -> Vec<u128> {
        let unknown = |row: &RowId| !self.holdings.iter().any(|holding| holding.row == *row);
        let mut others: Vec<RowId> =
            self.uses.over(from, to).filter(|(_, used)| *used > 0).map(|(row, _)| row).collect();
        others.retain(unknown);
        others.sort_unstable();
        others.dedup();
        if !others.is_empty() {
            self.add_ungranted(&others, from);
        }
        let mut uses = vec![0; self.holdings.len()];
        for (row, used) in self.uses.over(from, to) {
            if let Some(index) = self.holdings.iter().position(|holding| holding.row == row) {
                uses[index] += used;
            }
        }
        uses
    }

    fn add_ungranted(&mut self, rows: &[RowId], at: Timestamp) {
        let ungranted = self.holdings.iter().filter(|holding| holding.granted.is_none()).count();
        let added = rows.len().min(MAX_UNGRANTED.saturating_sub(ungranted));
        self.dropped += u64::try_from(rows.len() - added).unwrap_or_default();
        let parts = std::mem::take(&mut self.grants.parts);
        let mut holdings: Vec<_> = self.holdings.drain(..).zip(parts).collect();
        for row in rows.iter().take(added) {
            let Some(of_row) = self.rows.get_mut(*row) else { continue };
            of_row.begin(at);
            holdings.push((Holding { row: *row, granted: None, carries: Default::default() }, 0));
        }
        self.hold(holdings, self.grants.denominator);
    }

    /// Those without a grant that used nothing of the last slice are over.
    fn end_ungranted(&mut self, used: &[u128]) {
        if self.holdings.iter().all(|holding| holding.granted.is_some()) {
            return;
        }
        let parts = std::mem::take(&mut self.grants.parts);
        let mut holdings = Vec::with_capacity(self.holdings.len());
        for ((holding, part), used) in self.holdings.drain(..).zip(parts).zip(used) {
            if holding.granted.is_none() && *used > 0 {
                self.rows.end(holding.row, self.posted);
            }
            if holding.granted.is_some() || *used > 0 {
                holdings.push((holding, part));
            }
        }
        self.hold(holdings, self.grants.denominator);
        self.rows.fold_earlier(self.posted);
    }

    fn divide_energy(&mut self, at: Timestamp) {
        let Self { energy, rows, picojoules, .. } = self;
        energy.divide(at, |row, part| pay(rows, picojoules, row, part));
    }

    pub(super) fn finish(&mut self) {
        let Self { energy, rows, picojoules, .. } = self;
        energy.finish(|row, part| pay(rows, picojoules, row, part));
    }
}

/// Posts energy to the holder of a row, or to nobody.
fn pay(rows: &mut Rows, nobody: &mut u128, row: Option<RowId>, picojoules: u128) {
    match row.and_then(|row| rows.accounts_of_mut(row)) {
        Some(accounts) => accounts.picojoules += picojoules,
        None => *nobody += picojoules,
    }
}
