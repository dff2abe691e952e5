//! Statistics of the policies of one generation, for internal telemetry.
//!
//! Written by evaluations, read at any time.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phasemeter_rules::digest::Digest;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::Generation;
use phasemeter_rules::policy::{Policy, Usage};

/// Statistics of one policy, or of a rejected file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyStats {
    /// The number of evaluations.
    pub evaluations: u64,
    /// The number of errors by kind.
    pub errors: BTreeMap<&'static str, u64>,
    /// Total fuel consumed.
    pub fuel: u64,
    /// Total duration.
    pub time: Duration,
    /// Linear memory of the last evaluation, in bytes.
    pub memory: usize,
    /// Whether the last evaluation failed.
    pub failing: bool,
}

/// An active policy of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivePolicy {
    /// Its name.
    pub name: String,
    /// Its version, from its manifest.
    pub version: String,
    /// The digest of its file.
    pub digest: Digest,
}

/// Statistics of one generation; they start at zero.
#[derive(Debug)]
pub struct GenerationStats {
    /// The number of the generation.
    pub generation: u64,
    /// Its policies in evaluation order.
    pub policies: Vec<ActivePolicy>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By policy name, or by file if it was rejected.
    each: BTreeMap<String, PolicyStats>,
    /// The files rejected at the last reload.
    rejected: Vec<String>,
}

impl GenerationStats {
    /// All zero.
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

    /// The digest of a text with the digests of its policies, one per line, in evaluation order.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let lines = self.policies.iter().map(|policy| format!("{}\n", policy.digest));
        Digest::of(lines.collect::<String>().as_bytes())
    }

    /// Records an evaluation.
    pub(super) fn record(&self, name: &str, usage: &Usage, error: Option<&PolicyError>) {
        let mut state = self.lock();
        let stats = state.each.entry(name.to_owned()).or_default();
        stats.evaluations += 1;
        stats.fuel = stats.fuel.saturating_add(usage.fuel);
        stats.time += usage.time;
        stats.memory = usage.memory;
        stats.fail(error);
    }

    /// Records the files rejected at the last reload.
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

    /// A snapshot by policy name, or by file if it was rejected.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, PolicyStats> {
        self.lock().each.clone()
    }

    /// The files rejected at the last reload.
    #[must_use]
    pub fn rejected(&self) -> Vec<String> {
        self.lock().rejected.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Independent sums, so a poisoned value is valid.
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
