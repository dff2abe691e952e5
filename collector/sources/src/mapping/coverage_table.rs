//! The time of each GPU that other meters bill.
//!
//! That of GPUs with readings is kept with them. What is reported of other GPUs may be about any name: it is
//! limited, in all and per sender, and expires.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};

use phasemeter_meter::units::{Nanos, Timestamp};

use super::coverage::Coverage;

/// Maximum number of names without readings, of all senders and of one.
const MAX_NAMES: usize = 4_096;
const MAX_NAMES_OF_SENDER: usize = 1_024;

/// How long a name without readings is kept after its last coverage.
const KEPT: Nanos = Nanos::from_secs(24 * 3_600);

/// Coverage by GPU.
#[derive(Debug, Default)]
pub(super) struct CoverageTable {
    /// Of GPUs with readings, by index.
    known: Vec<Coverage>,
    /// Of earlier runs, until the GPUs have readings.
    earlier: HashMap<String, Coverage>,
    /// Of other names.
    pending: HashMap<String, Pending>,
    /// The names by their last use.
    by_use: BTreeMap<u64, String>,
    /// The last uses of each sender.
    by_sender: BTreeSet<(u64, u64)>,
    senders: HashMap<u64, usize>,
    uses: u64,
    hasher: RandomState,
}

/// Coverage of a name without readings.
#[derive(Debug)]
struct Pending {
    coverage: Coverage,
    sender: u64,
    arrived: Nanos,
    last_use: u64,
}

impl CoverageTable {
    /// The coverage of a GPU with readings.
    pub(super) fn of(&self, gpu: usize) -> Option<&Coverage> {
        self.known.get(gpu)
    }

    /// The next GPU has readings, and this name.
    pub(super) fn add_gpu(&mut self, name: &str) {
        let mut coverage = self.earlier.remove(name).unwrap_or_default();
        if let Some(pending) = self.remove(name) {
            let all = pending.within(Timestamp::EPOCH, Timestamp::LAST);
            all.for_each(|(from, to)| coverage.add(from, to));
        }
        self.known.push(coverage);
    }

    /// An earlier run has billed this time of a GPU.
    pub(super) fn resume(&mut self, name: &str, from: Timestamp, to: Timestamp) {
        self.earlier.entry(name.to_owned()).or_default().add(from, to);
    }

    /// A sender has billed this time of a GPU with readings.
    pub(super) fn cover(&mut self, gpu: usize, from: Timestamp, to: Timestamp) {
        if let Some(coverage) = self.known.get_mut(gpu) {
            coverage.add(from, to);
        }
    }

    /// A sender has billed this time of a GPU without readings.
    pub(super) fn cover_pending(
        &mut self,
        name: &str,
        (from, to): (Timestamp, Timestamp),
        sender: &str,
        arrived: Nanos,
    ) {
        let sender = self.hasher.hash_one(sender);
        let mut coverage = self.remove(name).unwrap_or_default();
        coverage.add(from, to);
        if self.senders.get(&sender).is_some_and(|names| *names >= MAX_NAMES_OF_SENDER) {
            let oldest = self.by_sender.range((sender, 0)..).next();
            self.remove_use(oldest.map(|(_, last_use)| *last_use));
        }
        let is_old = |pending: &Pending| pending.arrived + KEPT < arrived;
        while let Some((last_use, oldest)) = self.by_use.first_key_value()
            && (self.pending.len() >= MAX_NAMES || self.pending.get(oldest).is_some_and(is_old))
        {
            self.remove_use(Some(*last_use));
        }
        let last_use = self.uses;
        self.uses += 1;
        self.by_use.insert(last_use, name.to_owned());
        self.by_sender.insert((sender, last_use));
        *self.senders.entry(sender).or_default() += 1;
        let pending = Pending { coverage, sender, arrived, last_use };
        self.pending.insert(name.to_owned(), pending);
    }

    fn remove_use(&mut self, last_use: Option<u64>) {
        let name = last_use.and_then(|last_use| self.by_use.get(&last_use)).cloned();
        name.and_then(|name| self.remove(&name));
    }

    fn remove(&mut self, name: &str) -> Option<Coverage> {
        let Pending { coverage, sender, last_use, .. } = self.pending.remove(name)?;
        self.by_use.remove(&last_use);
        self.by_sender.remove(&(sender, last_use));
        if let Some(names) = self.senders.get_mut(&sender) {
            *names -= 1;
            if *names == 0 {
                self.senders.remove(&sender);
            }
        }
        Some(coverage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000).unwrap()
    }

    fn pend(table: &mut CoverageTable, name: &str, sender: &str, arrived: u64) {
        let range = (at(10), at(20));
        table.cover_pending(name, range, sender, Nanos::from_secs(arrived));
    }

    fn is_covered(table: &mut CoverageTable, name: &str) -> bool {
        table.add_gpu(name);
        table.known.last().is_some_and(|coverage| coverage.contains(at(15)))
    }

    /// Guarantee: a sender of any number of names displaces its own only, and many senders none of a GPU with
    /// readings or of an earlier run.
    #[test]
    fn names_of_one_sender_displace_its_own() {
        let mut table = CoverageTable::default();
        pend(&mut table, "real", "agent", 0);
        table.resume("earlier", at(10), at(20));
        for n in 0..3 * MAX_NAMES {
            pend(&mut table, &format!("fake {n}"), "stranger", 1);
        }
        assert_eq!(table.pending.len(), 1 + MAX_NAMES_OF_SENDER);
        assert!(is_covered(&mut table, "real"));
        for n in 0..3 * MAX_NAMES {
            pend(&mut table, &format!("fake {n}"), &format!("stranger {n}"), 1);
        }
        table.cover(0, at(20), at(30));
        assert!(table.of(0).unwrap().contains(at(25)) && is_covered(&mut table, "earlier"));
        let sizes = [table.pending.len(), table.by_use.len(), table.by_sender.len()];
        assert_eq!(sizes, [MAX_NAMES; 3]);
        assert_eq!(table.senders.values().sum::<usize>(), MAX_NAMES);
    }

    #[test]
    fn name_without_readings_expires() {
        let mut table = CoverageTable::default();
        let day = 24 * 3_600;
        pend(&mut table, "old", "a", 0);
        pend(&mut table, "used", "a", 0);
        pend(&mut table, "used", "a", day);
        pend(&mut table, "new", "a", day + 1);
        assert_eq!(table.pending.len(), 2);
        assert!(is_covered(&mut table, "used") && !is_covered(&mut table, "old"));
    }
}
