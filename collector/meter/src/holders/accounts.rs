//! The accounts of one holder of a GPU.

use crate::accounts::Balance;
use crate::energy::joules;
use crate::holder::{AllocationMethod, HolderAccount};
use crate::phase::Account;
use crate::units::{Nanos, Timestamp};

/// The number of balances: of each account of a holder, one per account of the GPU.
const BALANCES: usize = HolderAccount::ALL.len() * Account::ALL.len();

/// What one holder used and held of a GPU, and what it pays.
///
/// Time is that of a whole GPU: an hour of a quarter is 15 minutes. Of used time the balance has all as utilized,
/// and none of other time, so that the waste of a holder is what it held and did not use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HolderAccounts {
    pub(super) from: Timestamp,
    pub(super) to: Option<Timestamp>,
    pub(super) first_touch: Option<Timestamp>,
    balances: Box<[Balance; BALANCES]>,
    methods: [Nanos; AllocationMethod::ALL.len()],
    granted: Nanos,
    pub(super) picojoules: u128,
}

impl HolderAccounts {
    /// The accounts of a holder that has nothing yet.
    #[must_use]
    pub fn new(from: Timestamp) -> Self {
        Self {
            from,
            to: None,
            first_touch: None,
            balances: Box::default(),
            methods: [Nanos::ZERO; AllocationMethod::ALL.len()],
            granted: Nanos::ZERO,
            picojoules: 0,
        }
    }

    /// The balance of one of its accounts, in the time of one account of the GPU. They tile the accounts of the
    /// GPU, together with those of other holders and with what is nobody's.
    #[must_use]
    pub fn balance(&self, of: HolderAccount, account: Account) -> Balance {
        self.balances[index(of, account)]
    }

    /// The balance of one of its accounts, over all accounts of the GPU.
    #[must_use]
    pub fn total(&self, of: HolderAccount) -> Balance {
        let mut total = Balance::default();
        Account::ALL.into_iter().for_each(|account| total += self.balance(of, account));
        total
    }

    /// The end of its last grant, and its first touch, as another meter states them.
    pub const fn set_bounds(&mut self, to: Option<Timestamp>, first_touch: Option<Timestamp>) {
        (self.to, self.first_touch) = (to, first_touch);
    }

    /// Adds to one of its accounts.
    pub fn add(&mut self, of: HolderAccount, account: Account, amount: Balance) {
        self.balances[index(of, account)] += amount;
    }

    /// Adds to what it was granted.
    pub fn add_granted(&mut self, time: Nanos) {
        self.granted += time;
    }

    /// Adds time that was divided by a method.
    pub fn add_method(&mut self, method: AllocationMethod, time: Nanos) {
        self.methods[method as usize] += time;
    }

    /// Adds the accounts of a holder that is not kept apart any more.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.from = self.from.min(other.from);
        self.to = self.to.max(other.to);
        let touches = [self.first_touch, other.first_touch];
        self.first_touch = touches.into_iter().flatten().min();
        self.balances
            .iter_mut()
            .zip(other.balances.iter())
            .for_each(|(mine, other)| *mine += *other);
        self.methods.iter_mut().zip(other.methods).for_each(|(mine, other)| *mine += other);
        self.granted += other.granted;
        self.add_picojoules(other.picojoules);
    }

    /// The difference to an earlier state of these accounts.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut since = self.clone();
        let balances = since.balances.iter_mut().zip(earlier.balances.iter());
        balances.for_each(|(mine, before)| *mine = mine.since(before));
        let methods = since.methods.iter_mut().zip(earlier.methods);
        methods.for_each(|(mine, before)| *mine = *mine - before);
        since.granted = since.granted - earlier.granted;
        since.picojoules -= earlier.picojoules;
        since
    }

    /// Whether nothing in them is less than in an `earlier` state.
    pub(super) fn follows(&self, earlier: &Self) -> bool {
        let balances = self.balances.iter().zip(earlier.balances.iter());
        let methods = self.methods.iter().zip(earlier.methods.iter());
        balances.into_iter().all(|(now, before)| now.follows(before))
            && methods.into_iter().all(|(now, before)| now >= before)
            && self.granted >= earlier.granted
            && self.picojoules >= earlier.picojoules
    }

    /// Adds to its part of the energy of the GPU.
    pub const fn add_picojoules(&mut self, picojoules: u128) {
        self.picojoules = self.picojoules.saturating_add(picojoules);
    }

    /// Its part of the energy of the GPU in picojoules.
    #[must_use]
    pub const fn picojoules(&self) -> u128 {
        self.picojoules
    }

    /// Whether there is neither time nor energy in them.
    pub(super) fn is_empty(&self) -> bool {
        self.picojoules == 0 && self.balances.iter().all(|balance| balance.time == Nanos::ZERO)
    }

    /// Its balances in the time of one account of the GPU.
    pub(super) fn balances_mut(&mut self, account: Account) -> impl Iterator<Item = &mut Balance> {
        self.balances.iter_mut().skip(account as usize).step_by(Account::ALL.len())
    }

    /// All that it pays.
    #[must_use]
    pub fn all(&self) -> Balance {
        let mut all = Balance::default();
        HolderAccount::ALL.into_iter().for_each(|of| all += self.total(of));
        all
    }

    /// What it was granted: its part of the GPU over time, used by it, by others or not at all. Each time slice is rounded
    /// down to a nanosecond.
    #[must_use]
    pub const fn granted(&self) -> Nanos {
        self.granted
    }

    /// Its part of the energy of the GPU in joules, which follows its part of the time.
    #[must_use]
    pub fn joules(&self) -> f64 {
        joules(self.picojoules)
    }

    /// When it was first granted a part or used any.
    #[must_use]
    pub const fn from(&self) -> Timestamp {
        self.from
    }

    /// The end of its last grant, or of its use after that; `None` while it holds the GPU.
    #[must_use]
    pub const fn to(&self) -> Option<Timestamp> {
        self.to
    }

    /// When it was first touched: a use at or above the idle threshold, or a compute process; `None` if it was not.
    #[must_use]
    pub const fn first_touch(&self) -> Option<Timestamp> {
        self.first_touch
    }

    /// How the GPU was divided for most of its time.
    #[must_use]
    pub fn method(&self) -> AllocationMethod {
        // Of equal times the less certain one.
        let most = self.methods().max_by_key(|(_, time)| *time);
        most.map_or(AllocationMethod::Equal, |(method, _)| method)
    }

    /// How the GPU was divided, each method with its time.
    pub fn methods(&self) -> impl Iterator<Item = (AllocationMethod, Nanos)> {
        let times = AllocationMethod::ALL.into_iter().zip(self.methods);
        times.filter(|(_, time)| *time > Nanos::ZERO)
    }
}

const fn index(of: HolderAccount, account: Account) -> usize {
    of as usize * Account::ALL.len() + account as usize
}
