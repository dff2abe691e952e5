//! What was counted of the policies of one generation: for whoever watches the sidecar.
//!
//! Whoever asks a policy counts; whoever watches looks when it likes. This room must not know of
//! either, and keeps no policy in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phasemeter_rules::digest::Digest;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::Generation;
use phasemeter_rules::policy::{Policy, Usage};

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

/// A policy of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its version, in its own words.
    pub version: String,
    /// The digest of its file.
    pub digest: Digest,
}

/// The tallies of one generation, from zero.
#[derive(Debug)]
pub struct Tallies {
    /// The number of the generation.
    pub generation: u64,
    /// Its policies, in the order that they are asked.
    pub members: Vec<Member>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the name of the policy, or of the file of what is none.
    each: BTreeMap<String, Tally>,
    /// The files that were not taken into use, at the last look.
    refused: Vec<String>,
}

impl Tallies {
    /// Nothing was counted yet.
    pub(super) fn of(generation: &Generation) -> Self {
        let member = |policy: &Policy| Member {
            name: policy.manifest().name.clone(),
            version: policy.manifest().version.clone(),
            digest: policy.digest(),
        };
        Self {
            generation: generation.number,
            members: generation.policies.iter().map(|policy| member(policy)).collect(),
            state: Mutex::default(),
        }
    }

    /// A digest over those of its policies, in their order: that of the text that has one a line.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let lines = self.members.iter().map(|member| format!("{}\n", member.digest));
        Digest::of(lines.collect::<String>().as_bytes())
    }

    /// A policy was asked.
    pub(super) fn count(&self, name: &str, usage: &Usage, fault: Option<&PolicyError>) {
        let mut state = self.lock();
        let tally = state.each.entry(name.to_owned()).or_default();
        tally.runs += 1;
        tally.fuel = tally.fuel.saturating_add(usage.fuel);
        tally.time += usage.time;
        tally.memory = usage.memory;
        tally.fail(fault);
    }

    /// The files were looked at again: these are not taken into use.
    pub(super) fn refuse<'a>(&self, files: impl Iterator<Item = (&'a str, &'a PolicyError)>) {
        let mut state = self.lock();
        state.refused.clear();
        for (file, fault) in files {
            state.refused.push(file.to_owned());
            state.each.entry(file.to_owned()).or_default().fail(Some(fault));
        }
    }

    /// All of them, now, by the name of the policy, or of the file of what is none.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Tally> {
        self.lock().each.clone()
    }

    /// The files that were not taken into use, at the last look.
    #[must_use]
    pub fn refused(&self) -> Vec<String> {
        self.lock().refused.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Sums, whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tally {
    fn fail(&mut self, fault: Option<&PolicyError>) {
        self.failing = fault.is_some();
        if let Some(fault) = fault {
            *self.faults.entry(fault.kind()).or_default() += 1;
        }
    }
}
