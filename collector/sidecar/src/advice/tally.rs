//! What was counted of each policy since the start: for whoever watches the sidecar.
//!
//! Whoever asks a policy counts; whoever watches looks when it likes. This room must not know of
//! either.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phasemeter_rules::fault::Fault;
use phasemeter_rules::policy::Usage;

/// What was counted of one policy, or of a file that is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How often it was asked.
    pub runs: u64,
    /// How often it failed, by the kind of fault.
    pub faults: BTreeMap<&'static str, u64>,
    /// What all its answers took.
    pub fuel: u64,
    /// How long all its answers took.
    pub time: Duration,
    /// The linear memory of its last run, in bytes.
    pub memory: usize,
    /// Whether it failed the last time.
    pub failing: bool,
}

/// The tally of each, by name.
#[derive(Debug, Default)]
pub(super) struct Tallies(Mutex<BTreeMap<String, Tally>>);

impl Tallies {
    /// A policy was asked.
    pub(super) fn count(&self, name: &str, usage: &Usage, fault: Option<&Fault>) {
        let mut all = self.lock();
        let tally = all.entry(name.to_owned()).or_default();
        tally.runs += 1;
        tally.fuel = tally.fuel.saturating_add(usage.fuel);
        tally.time += usage.time;
        tally.memory = usage.memory;
        tally.fail(fault);
    }

    /// A file was not taken into use.
    pub(super) fn refuse(&self, file: &str, fault: &Fault) {
        self.lock().entry(file.to_owned()).or_default().fail(Some(fault));
    }

    /// All of them, now.
    pub(super) fn all(&self) -> BTreeMap<String, Tally> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Tally>> {
        // Sums, whole between any two statements.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn fail(&mut self, fault: Option<&Fault>) {
        self.failing = fault.is_some();
        if let Some(fault) = fault {
            *self.faults.entry(fault.kind()).or_default() += 1;
        }
    }
}
