//! Divides the accounts of a GPU among its holders.
//!
//! A time slice is divided once it is charged. Within a slice grants are constant: [`Holders::next_change`] is where
//! it must be cut. What a holder used is its mean over the slice, as the utilization of the GPU is. How a slice is
//! divided: see [`shares`].

mod accounts;
mod assignments;
mod division;
mod earlier;
mod energy;
mod parts;
mod posting;
mod pricing;
mod rounding;
mod row_id;
mod rows;
mod shares;
mod statement;
mod uses;

use std::sync::Arc;

pub use self::accounts::HolderAccounts;
use self::division::Division;
pub use self::earlier::EarlierHolders;
pub use self::statement::Statement;
use crate::accounts::{Accounts, Balance, Charge, ChargeShare};
use crate::energy::joules;
use crate::holder::{Grant, Holder, HolderAccount, HolderUse};
use crate::holder_details::HolderDetails;
use crate::money::Rate;
use crate::phase::Account;
use crate::units::{Timestamp, Utilization};

/// The accounts of a GPU by holder: a second partition of the time, cost and energy of the GPU, beside phases.
///
/// The accounts of all holders, those of [earlier](Self::earlier) ones and what is nobody's sum to the accounts of
/// the GPU, of each phase and in all: time to the nanosecond, cost to the nano-dollar.
#[derive(Clone, Debug, Default)]
pub struct Holders(Option<Box<Division>>);

impl Holders {
    /// Maximum number of holders with a grant at a time, in their order. What is granted to more is nobody's.
    pub const MAX_GRANTS: usize = division::MAX_GRANTS;

    /// Whether no source ever named a holder. Then there are no accounts: the GPU is not known to be nobody's.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The accounts of each holder, in the order of holders, ended or not. Holders that ended first may not be kept
    /// apart: see [`Self::earlier`].
    pub fn iter(&self) -> impl Iterator<Item = (&Holder, &HolderAccounts)> {
        self.0.iter().flat_map(|division| division.rows.iter())
    }

    /// The accounts of one holder.
    #[must_use]
    pub fn get(&self, holder: &Holder) -> Option<&HolderAccounts> {
        self.0.as_ref()?.rows.accounts(holder)
    }

    /// What is known of a holder besides; `None` if that is nothing.
    #[must_use]
    pub fn details(&self, holder: &Holder) -> Option<&HolderDetails> {
        self.0.as_ref()?.rows.details(holder)
    }

    /// The part of the GPU that a holder is granted at the end of what is posted, 0–1: as a source states it, else its
    /// equal part of what others leave. `None` if it holds none.
    #[must_use]
    pub fn part(&self, holder: &Holder) -> Option<f64> {
        self.0.as_ref()?.part(holder)
    }

    /// The holders that ended and are not kept apart any more, by who pays for them.
    pub fn earlier(&self) -> impl Iterator<Item = EarlierHolders<'_>> {
        self.0.iter().flat_map(|division| division.rows.earlier.iter())
    }

    /// What is nobody's: time in which nobody was granted the GPU, parts that were not granted, and what others than
    /// known holders used.
    #[must_use]
    pub fn nobody(&self, account: Account) -> Balance {
        let nobody = self.0.as_ref().map(|division| division.nobody[account]);
        nobody.unwrap_or_default()
    }

    /// Held idle time that schedulers granted to holders before these first touched the GPU; `None` if they granted
    /// none to any.
    #[must_use]
    pub fn idle_never_touched(&self) -> Option<Balance> {
        let kept = self.iter().filter(|(holder, _)| holder.is_scheduled());
        let all = kept.map(|(_, accounts)| accounts).chain(self.earlier().map(|it| it.accounts));
        let balances = all.map(|it| it.balance(HolderAccount::NeverTouched, Account::IdleHeld));
        balances.reduce(|mut sum, balance| {
            sum += balance;
            sum
        })
    }

    /// Nobody's part of the energy of the GPU, in joules.
    #[must_use]
    pub fn nobody_joules(&self) -> f64 {
        joules(self.0.as_ref().map_or(0, |division| division.picojoules))
    }

    /// How often something about a holder was dropped, since too much waited: grants and uses of too many holders at
    /// a time, which are nobody's, and changes.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.as_ref().map_or(0, |division| division.dropped())
    }

    /// The accounts of holders that another meter states, without any that are nobody's.
    pub(crate) fn stated(statement: &Statement) -> Self {
        let mut division = Division::new(statement.iter().count(), Accounts::default(), 0);
        for (holder, accounts) in statement.iter() {
            division.rows.add_stated(holder, accounts.clone());
        }
        Self(Some(Box::new(division)))
    }

    /// Begins with a GPU whose time so far is nobody's. Of the holders that have ended, at most `max_ended` are kept
    /// apart.
    pub(crate) fn begin(&mut self, max_ended: usize, so_far: &Accounts, picojoules: u128) {
        self.0 = Some(Box::new(Division::new(max_ended, *so_far, picojoules)));
    }

    /// Another part of the run begins.
    pub(crate) fn begin_part(&mut self) {
        if let Some(division) = &mut self.0 {
            let (nobody, picojoules) = (division.nobody, division.picojoules);
            division.begin_part(nobody, picojoules);
        }
    }

    /// Of the time before the first holder was named, this much is before the part of the run in progress.
    pub(crate) fn began_before(&mut self, nobody: Accounts, picojoules: u128) {
        self.0.iter_mut().for_each(|division| division.begin_part(nobody, picojoules));
    }

    /// The accounts of the part of the run in progress.
    pub(crate) fn of_part(&self) -> Self {
        Self(self.0.as_ref().map(|division| Box::new(division.of_part())))
    }

    /// From `at` on, which is not posted, exactly these hold the GPU.
    pub(crate) fn assign(&mut self, at: Timestamp, grants: Vec<Grant>) {
        if let Some(division) = &mut self.0 {
            division.assign(at, grants);
        }
    }

    /// What a holder used of time that is not posted. It touches the GPU if its own
    /// utilization is `idle` or more.
    pub(crate) fn push_use(&mut self, used: &HolderUse, idle: Utilization) {
        self.0.iter_mut().for_each(|division| division.push_use(used, idle));
    }

    /// A holder touched the GPU at `at`, which is not posted.
    pub(crate) fn touch(&mut self, at: Timestamp, holder: &Holder) {
        self.0.iter_mut().for_each(|division| division.touch(at, holder));
    }

    /// Notes what is known of a holder besides. One of which nothing else is known is ignored.
    pub(crate) fn describe(&mut self, holder: &Holder, details: Arc<HolderDetails>) {
        if let Some(division) = &mut self.0 {
            division.rows.describe(holder, details);
        }
    }

    /// The GPU was touched at `at`, which is not posted: by any of those that hold it, unless uses are known,
    /// or they have parts of their own, such as MIG instances.
    pub(crate) fn touch_any(&mut self, at: Timestamp, are_parts: bool) {
        self.0.iter_mut().for_each(|division| division.touch_any(at, are_parts));
    }

    /// Records the energy of the GPU at a reading, in picojoules.
    pub(crate) fn record_energy(&mut self, at: Timestamp, total: u128) {
        self.0.iter_mut().for_each(|division| division.energy.record(at, total));
    }

    /// Whether a scheduler has allocated the GPU at `at`, which is not posted. `None` if that is unknown: before the
    /// first assignment, and if only others hold the GPU, like processes.
    pub(crate) fn is_allocated(&self, at: Timestamp) -> Option<bool> {
        self.0.as_ref()?.is_allocated(at)
    }

    /// The first instant after `at` at which grants change, or uses become known or unknown: no slice reaches beyond.
    pub(crate) fn next_change(&self, at: Timestamp) -> Option<Timestamp> {
        self.0.as_ref()?.next_change(at)
    }

    /// How the charges since [`Self::begin_charge`] were divided.
    pub(crate) fn shares(&self) -> &[ChargeShare] {
        self.0.as_ref().map_or(&[], |division| &division.shares)
    }

    /// Forgets what nobody has of the charges since then.
    pub(crate) fn remove_nobodys_shares(&mut self) {
        let divided = self.0.iter_mut();
        divided.for_each(|division| division.shares.retain(|share| share.holder.is_some()));
    }

    /// What is divided from now on is one charge.
    pub(crate) fn begin_charge(&mut self) {
        self.0.iter_mut().for_each(|division| division.shares.clear());
    }

    /// Divides the next charge, or a part of it.
    pub(crate) fn post(&mut self, charge: &Charge) {
        self.0.iter_mut().for_each(|division| division.post(charge));
    }

    /// Prices all time so far, of which `accounts` have the cost at this rate.
    pub(crate) fn price(&mut self, rate: Rate, accounts: &Accounts) {
        self.0.iter_mut().for_each(|division| division.price(rate, accounts));
    }

    /// Ends the input: all energy is divided.
    pub(crate) fn finish(&mut self) {
        self.0.iter_mut().for_each(|division| division.finish());
    }
}
