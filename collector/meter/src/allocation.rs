//! Idle time of allocations that nothing has touched: a scheduler keeps other work off a GPU, and its holder
//! never used it.
//!
//! Such time is a part of the account `idle_held`.

use std::collections::BTreeMap;

use crate::accounts::{Balance, Charge};
use crate::money::Rate;
use crate::phase::Account;
use crate::reading::{Allocation, MAX_ALLOCATIONS};

/// Held idle time and cost by allocation, as long as nothing has touched it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllocationMeter {
    /// The last allocation.
    last: Option<Last>,
    /// The balances of untouched allocations, by number.
    untouched: BTreeMap<u32, Balance>,
    /// Those of allocations that are too many to be kept apart.
    older: Balance,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    number: u32,
    has_ended: bool,
    is_touched: bool,
}

impl AllocationMeter {
    /// Records a reading. Once an allocation is touched, none of its time is of the untouched.
    pub(crate) fn record(&mut self, allocation: Allocation, is_touched: bool) {
        match (allocation, &mut self.last) {
            (Allocation::Held(number), Some(last)) if last.number == number => {
                last.has_ended = false;
                last.is_touched |= is_touched;
            }
            (Allocation::Held(number), last) => {
                *last = Some(Last { number, has_ended: false, is_touched });
            }
            (Allocation::Unknown | Allocation::None, Some(last)) => last.has_ended = true,
            (Allocation::Unknown | Allocation::None, None) => {}
        }
        if is_touched && let Some(last) = self.last.filter(|last| !last.has_ended) {
            self.untouched.remove(&last.number);
        }
    }

    /// Posts the held idle time of an allocation that nothing has touched so far.
    #[inline]
    pub(crate) fn post(&mut self, charge: &Charge) {
        if let Some(last) = self.last
            && charge.slice.account == Account::IdleHeld
            && !(last.is_touched || last.has_ended)
        {
            self.untouched.entry(last.number).or_default().post(charge);
            if self.untouched.len() > MAX_ALLOCATIONS
                && let Some((_, oldest)) = self.untouched.pop_first()
            {
                self.older += oldest;
            }
        }
    }

    /// Prices all time so far, as if this had always been the rate.
    pub(crate) fn price(&mut self, rate: Rate) {
        let all = self.untouched.values_mut().chain([&mut self.older]);
        all.for_each(|balance| *balance = balance.at_rate(rate));
    }

    /// The balances of untouched allocations, by number.
    pub(crate) const fn untouched(&self) -> &BTreeMap<u32, Balance> {
        &self.untouched
    }

    /// All of them together.
    pub(crate) fn total(&self) -> Balance {
        let mut total = self.older;
        self.untouched.values().for_each(|balance| total += *balance);
        total
    }
}
