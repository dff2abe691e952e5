//! Generations: which policies are in use, swapped as a whole while others still run.
//!
//! Who judges a window takes one generation for all of it and keeps it until it is done, so no
//! window is judged by a mix. What is rejected changes nothing: the policy that was loaded from
//! there before stays in use. This room must not know where candidates come from, nor when.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::fault::Fault;
use crate::host::{Candidate, Host};
use crate::policy::Policy;

/// The policies in use at one time.
#[derive(Debug, Default)]
pub struct Generation {
    /// Counts how often what is in use has changed; 0 before anything was loaded.
    pub number: u64,
    /// In the order of the candidates; one of each name.
    pub policies: Vec<Arc<Policy>>,
    /// What was not taken into use at the last reload, and why.
    pub rejected: Vec<Rejection>,
}

/// A file that was not taken into use.
#[derive(Debug, thiserror::Error)]
#[error("{file}: {fault}")]
pub struct Rejection {
    /// Which.
    pub file: String,
    /// Why not.
    #[source]
    pub fault: Fault,
}

impl Rejection {
    pub(crate) fn new(file: &Path, fault: impl Into<Fault>) -> Self {
        Self { file: file.display().to_string(), fault: fault.into() }
    }
}

/// The generation in use, and how the next one comes about.
pub struct Generations {
    host: Arc<Host>,
    current: ArcSwap<Generation>,
    /// One reload at a time.
    reloading: Mutex<()>,
}

impl Generations {
    /// Nothing is in use yet.
    #[must_use]
    pub fn new(host: Arc<Host>) -> Self {
        Self { host, current: ArcSwap::default(), reloading: Mutex::new(()) }
    }

    /// The generation in use. Whoever holds it keeps it whole, however long.
    #[must_use]
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Takes these candidates into use, and drops what none of them names.
    ///
    /// Each is taken or rejected alone. One that is rejected leaves what was loaded from its file
    /// before in use; one that has not changed is not loaded again; of two policies of one name
    /// the later is used. A folder that cannot be read should not get here: an empty list takes
    /// everything out of use.
    pub fn reload(&self, candidates: Vec<Result<Candidate, Rejection>>) -> Arc<Generation> {
        let _one = self.reloading.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.current();
        let mut policies: Vec<Arc<Policy>> = Vec::new();
        let mut rejected = Vec::new();
        for candidate in candidates {
            let file = match &candidate {
                Ok(candidate) => candidate.file.clone(),
                Err(rejection) => rejection.file.clone(),
            };
            let last = before.policies.iter().find(|policy| policy.file() == file);
            let taken = candidate.and_then(|candidate| {
                let taken = self.take(candidate, last);
                taken.map_err(|fault| Rejection { file, fault })
            });
            let policy = match taken {
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
        let same = policies.len() == before.policies.len()
            && policies.iter().zip(&before.policies).all(|(a, b)| Arc::ptr_eq(a, b));
        let number = before.number + u64::from(!same);
        let generation = Arc::new(Generation { number, policies, rejected });
        self.current.store(Arc::clone(&generation));
        generation
    }

    fn take(&self, candidate: Candidate, last: Option<&Arc<Policy>>) -> Result<Arc<Policy>, Fault> {
        let digest = self.host.vouch(&candidate)?;
        match last {
            Some(last) if last.digest() == digest && has_settings_of(last, &candidate) => {
                Ok(Arc::clone(last))
            }
            _ => self.host.load(candidate).map(Arc::new),
        }
    }
}

fn has_settings_of(policy: &Policy, candidate: &Candidate) -> bool {
    policy.given() == candidate.settings_of(&policy.manifest().name)
}
