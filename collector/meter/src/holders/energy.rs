//! Divides the energy of a GPU among its holders.
//!
//! What was consumed between two readings is divided like the time in between: in proportion to what each holder
//! pays for, used or not. A time slice that contains a reading counts for what was consumed before the reading
//! after it.

use std::collections::VecDeque;

use super::row_id::RowId;
use crate::apportion::apportion;
use crate::units::{Nanos, Timestamp};

/// Maximum number of readings that wait for the time before them to be charged.
const MAX_WAITING: usize = 4_096;

/// Maximum number of holders between two readings of energy. If there are more, or energy is not read at all, the
/// earlier ones have no part.
const MAX_TIMES: usize = 512;

/// Energy that is not divided yet, and the time that it is divided by.
#[derive(Clone, Debug, Default)]
pub(super) struct EnergyOfHolders {
    /// The energy of the GPU at readings, in picojoules.
    totals: VecDeque<(Timestamp, u128)>,
    last: u128,
    divided: u128,
    /// Time since the last division; nobody's is that of `None`.
    times: Vec<(Option<RowId>, Nanos)>,
}

impl EnergyOfHolders {
    /// Division begins after `total`.
    pub(super) fn begin(total: u128) -> Self {
        Self { last: total, divided: total, ..Self::default() }
    }

    /// Records the energy of the GPU at a reading.
    pub(super) fn record(&mut self, at: Timestamp, total: u128) {
        if total > self.last {
            self.last = total;
            if self.totals.len() == MAX_WAITING {
                self.totals.pop_back();
            }
            self.totals.push_back((at, total));
        }
    }

    /// Adds time that a holder pays for.
    pub(super) fn add(&mut self, row: Option<RowId>, time: Nanos) {
        match self.times.iter_mut().find(|(of, _)| *of == row) {
            Some((_, sum)) => *sum += time,
            None => {
                if self.times.len() == MAX_TIMES {
                    self.times.clear();
                }
                self.times.push((row, time));
            }
        }
    }

    /// Divides the energy at readings up to `at`. `pay` receives picojoules.
    pub(super) fn divide(&mut self, at: Timestamp, pay: impl FnMut(Option<RowId>, u128)) {
        let mut total = self.divided;
        while let Some((_, next)) = self.totals.pop_front_if(|(read, _)| *read <= at) {
            total = next;
        }
        self.divide_up_to(total, pay);
    }

    /// Divides all energy.
    pub(super) fn finish(&mut self, pay: impl FnMut(Option<RowId>, u128)) {
        self.totals.clear();
        self.divide_up_to(self.last, pay);
    }

    fn divide_up_to(&mut self, total: u128, mut pay: impl FnMut(Option<RowId>, u128)) {
        if total == self.divided {
            return;
        }
        let times = std::mem::take(&mut self.times);
        let parts: Vec<u64> = times.iter().map(|(_, time)| time.0).collect();
        let amount = total - self.divided;
        self.divided = total;
        match apportion(amount, &parts) {
            Some(amounts) => times.iter().zip(amounts).for_each(|((row, _), part)| pay(*row, part)),
            None => pay(None, amount),
        }
    }
}
