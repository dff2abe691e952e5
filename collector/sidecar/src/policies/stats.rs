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
pub struct PolicyStats {
    /// How often it was asked.
    pub evaluations: u64,
    /// How often it failed, by the kind of fault.
    pub errors: BTreeMap<&'static str, u64>,
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
pub struct ActivePolicy {
    /// Its name.
    pub name: String,
    /// Its version, in its own words.
    pub version: String,
    /// The digest of its file.
    pub digest: Digest,
}

/// The tallies of one generation, from zero.
#[derive(Debug)]
pub struct GenerationStats {
    /// The number of the generation.
    pub generation: u64,
    /// Its policies, in the order that they are asked.
    pub policies: Vec<ActivePolicy>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the name of the policy, or of the file of what is none.
    each: BTreeMap<String, PolicyStats>,
    /// The files that were not taken into use, at the last look.
    rejected: Vec<String>,
}

impl GenerationStats {
    /// Nothing was counted yet.
    pub(super) fn of(generation: &Generation) -> Self {
        let active = |policy: &Policy| ActivePolicy {
            name: policy.manifest().name.clone(),
            version: policy.manifest().version.clone(),
            digest: policy.digest(),
        };
        Self {
            generation: generation.number,
            policies: generation.policies.iter().map(|policy| active(policy)).collect(),
            state: Mutex::default(),
        }
    }

    /// A digest over those of its policies, in their order: that of the text that has one a line.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let lines = self.policies.iter().map(|policy| format!("{}\n", policy.digest));
        Digest::of(lines.collect::<String>().as_bytes())
    }

    /// A policy was asked.
    pub(super) fn record(&self, name: &str, usage: &Usage, error: Option<&PolicyError>) {
        let mut state = self.lock();
        let stats = state.each.entry(name.to_owned()).or_default();
        stats.evaluations += 1;
        stats.fuel = stats.fuel.saturating_add(usage.fuel);
        stats.time += usage.time;
        stats.memory = usage.memory;
        stats.fail(error);
    }

    /// The files were looked at again: these are not taken into use.
    pub(super) fn record_rejected<'a>(
        &self,
        files: impl Iterator<Item = (&'a str, &'a PolicyError)>,
    ) {
        let mut state = self.lock();
        state.rejected.clear();
        for (file, error) in files {
            state.rejected.push(file.to_owned());
            state.each.entry(file.to_owned()).or_default().fail(Some(error));
        }
    }

    /// All of them, now, by the name of the policy, or of the file of what is none.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, PolicyStats> {
        self.lock().each.clone()
    }

    /// The files that were not taken into use, at the last look.
    #[must_use]
    pub fn rejected(&self) -> Vec<String> {
        self.lock().rejected.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Sums, whole between any two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PolicyStats {
    fn fail(&mut self, error: Option<&PolicyError>) {
        self.failing = error.is_some();
        if let Some(error) = error {
            *self.errors.entry(error.kind()).or_default() += 1;
        }
    }
}
