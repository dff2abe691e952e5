//! Generations: the set of active policies, replaced as a whole while evaluations continue.
//!
//! A window is evaluated with one generation from start to end, never with a mix. A rejected file
//! changes nothing: the policy loaded from it before stays active. Must not depend on where
//! candidates come from, or when.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::candidate::Candidate;
use crate::error::PolicyError;
use crate::host::Host;
use crate::policy::Policy;

/// The set of policies active at one time.
#[derive(Debug, Default)]
pub struct Generation {
    /// How often the set of active policies has changed; 0 before the first load.
    pub number: u64,
    /// In the order of the candidates, with unique names.
    pub policies: Vec<Arc<Policy>>,
    /// What the last reload rejected.
    pub rejected: Vec<Rejection>,
}

/// A file that was not loaded.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {error}")]
pub struct Rejection {
    /// Its path.
    pub file: String,
    /// The cause.
    #[source]
    pub error: PolicyError,
}

impl Rejection {
    pub(crate) fn new(file: &Path, error: impl Into<PolicyError>) -> Self {
        Self { file: file.display().to_string(), error: error.into() }
    }
}

/// Holds the current generation and loads the next.
pub struct Generations {
    host: Arc<Host>,
    current: ArcSwap<Generation>,
    /// Held during a reload.
    reloading: Mutex<()>,
}

impl Generations {
    /// Starts with no policies.
    #[must_use]
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, current: ArcSwap::default(), reloading: Mutex::new(()) }
    }

    /// The current generation. It stays usable after a reload, for as long as it is held.
    #[must_use]
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Replaces the active policies by these candidates.
    ///
    /// Each candidate is loaded or rejected on its own. If one is rejected, the policy loaded from
    /// the same file before stays active. One that has not changed is not loaded again. Of several
    /// policies with the same name, the last is used. Policies without a candidate are removed: do
    /// not call this with an empty list because a directory could not be read.
    pub fn reload(&self, candidates: Vec<Result<Candidate, Rejection>>) -> Arc<Generation> {
        let _guard = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let mut policies: Vec<Arc<Policy>> = Vec::new();
        let mut rejected = Vec::new();
        for candidate in candidates {
            let file = match &candidate {
                Ok(candidate) => candidate.file.clone(),
                Err(rejection) => rejection.file.clone(),
            };
            let last = before.policies.iter().find(|policy| policy.file() == file);
            let loaded = candidate.and_then(|candidate| {
                let loaded = self.load_if_changed(candidate, last);
                loaded.map_err(|error| Rejection { file, error })
            });
            let policy = match loaded {
                Ok(policy) => Some(policy),
                Err(rejection) => {
                    rejected.push(rejection);
                    last.cloned()
                }
            };
            if let Some(policy) = policy {
                policies.retain(|other| other.manifest().name != policy.manifest().name);
                policies.push(policy);
            }
        }
        let unchanged = policies.len() == before.policies.len()
            && policies.iter().zip(&before.policies).all(|(a, b)| Arc::ptr_eq(a, b));
        let number = before.number + u64::from(!unchanged);
        let generation = Arc::new(Generation { number, policies, rejected });
        self.current.store(Arc::clone(&generation));
        generation
    }

    fn load_if_changed(
        &self,
        candidate: Candidate,
        last: Option<&Arc<Policy>>,
    ) -> Result<Arc<Policy>, PolicyError> {
        let digest = self.host.verify(&candidate)?;
        match last {
            Some(last) if last.digest() == digest && settings_equal(last, &candidate) => {
                Ok(Arc::clone(last))
            }
            _ => self.host.load(candidate).map(Arc::new),
        }
    }
}

fn settings_equal(policy: &Policy, candidate: &Candidate) -> bool {
    policy.raw_settings() == candidate.settings_of(&policy.manifest().name)
}
