//! Generations: the set of active policies, replaced as a whole while evaluations continue.
//!
//! A window is evaluated with one generation from start to end, never with a mix. A rejected file
//! changes nothing: the policy loaded from it before stays active, if it is still approved.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::candidate::{Candidate, CandidateSource, Unreadable};
use crate::error::{LoadError, PolicyError};
use crate::host::Host;
use crate::policy::Policy;
use crate::version;

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
    host: ArcSwap<Host>,
    current: ArcSwap<Generation>,
    /// Locked during a reload.
    newest: Mutex<NewestVersions>,
    /// What the reload in progress has loaded so far. Locked while a generation is activated.
    loading: Mutex<Option<Loading>>,
}

/// A reload in progress.
#[derive(Default)]
struct Loading {
    policies: Vec<Arc<Policy>>,
    rejected: Vec<Rejection>,
    /// The files that have not been loaded or rejected yet.
    pending: VecDeque<String>,
}

impl Loading {
    /// Adds the outcome of the next file.
    fn add(&mut self, file: &str, policy: Option<Arc<Policy>>, errors: Vec<PolicyError>) {
        self.pending.pop_front();
        let reject = |error| Rejection { file: file.to_owned(), error };
        self.rejected.extend(errors.into_iter().map(reject));
        if let Some(policy) = policy {
            self.policies.retain(|other| other.manifest().name != policy.manifest().name);
            self.policies.push(policy);
        }
    }
}

/// The newest version of each policy that has been in use, by name, if signatures are required.
type NewestVersions = BTreeMap<String, String>;

impl Generations {
    /// Starts with no policies.
    #[must_use]
    pub fn new(host: Arc<Host>) -> Self {
        Self {
            host: ArcSwap::new(host),
            current: ArcSwap::default(),
            newest: Mutex::default(),
            loading: Mutex::default(),
        }
    }

    /// The current generation. It stays usable after a reload, for as long as it is held.
    #[must_use]
    pub fn current(&self) -> Arc<Generation> {
        self.current.load_full()
    }

    /// Replaces the active policies by these candidates.
    ///
    /// Each candidate is read, then loaded or rejected on its own. If one is rejected, the policy loaded
    /// from the same file before stays active, unless it is no longer approved. One that has not
    /// changed is not loaded again. Of several policies with the same name, the last is used; if
    /// signatures are required, none is used that is older than one before it. Policies without a
    /// candidate are removed: do not call this with an empty list because a directory could not be
    /// read.
    pub fn reload(&self, candidates: impl IntoIterator<Item = CandidateSource>) -> Arc<Generation> {
        self.load(None, candidates)
    }

    /// The same by another host, from now on, which loads all of them again.
    pub fn reload_with(
        &self,
        host: Arc<Host>,
        candidates: impl IntoIterator<Item = CandidateSource>,
    ) -> Arc<Generation> {
        self.load(Some(host), candidates)
    }

    fn load(
        &self,
        other: Option<Arc<Host>>,
        candidates: impl IntoIterator<Item = CandidateSource>,
    ) -> Arc<Generation> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = other.is_some();
        let host = other.unwrap_or_else(|| self.host.load_full());
        self.host.store(Arc::clone(&host));
        let before = self.current();
        let candidates: VecDeque<_> = candidates.into_iter().collect();
        let pending = candidates.iter().map(|candidate| candidate.file().to_owned()).collect();
        *self.loading() = Some(Loading { pending, ..Loading::default() });
        for candidate in candidates {
            let file = candidate.file().to_owned();
            let last = before.policies.iter().find(|policy| policy.file() == file);
            let mut errors = Vec::new();
            let unchanged = last.filter(|_| !is_other);
            let policy = match load_if_changed(&host, candidate, unchanged) {
                Ok(policy) => Some(policy),
                Err(unreadable) => {
                    let Unreadable { error, approval } = *unreadable;
                    errors.push(error);
                    let approved =
                        |last: &&Arc<Policy>| host.still_approves(&approval, last.origin());
                    last.filter(approved).cloned()
                }
            };
            let policy = policy.filter(|policy| {
                let older = self.older(policy, &newest);
                let is_current = older.is_none();
                errors.extend(older.map(PolicyError::from));
                is_current
            });
            if let Some(policy) = policy.as_ref().filter(|policy| !policy.origin().embedded)
                && host.requires_signatures()
            {
                let manifest = policy.manifest();
                newest.insert(manifest.name.clone(), manifest.version.clone());
            }
            if let Some(loading) = self.loading().as_mut() {
                loading.add(&file, policy, errors);
            }
        }
        let mut loading = self.loading();
        let Loading { policies, rejected, .. } = loading.take().unwrap_or_default();
        self.activate(policies, rejected)
    }

    /// Activates what a reload in progress has loaded so far. The other files are rejected until they
    /// are loaded.
    pub fn activate_loaded(&self) -> Arc<Generation> {
        let loading = self.loading();
        let Some(Loading { policies, pending, .. }) = &*loading else { return self.current() };
        let reject =
            |file: &String| Rejection { file: file.clone(), error: LoadError::Pending.into() };
        self.activate(policies.clone(), pending.iter().map(reject).collect())
    }

    fn activate(&self, policies: Vec<Arc<Policy>>, rejected: Vec<Rejection>) -> Arc<Generation> {
        let before = self.current();
        let unchanged = policies.len() == before.policies.len()
            && policies.iter().zip(&before.policies).all(|(a, b)| Arc::ptr_eq(a, b));
        let number = before.number + u64::from(!unchanged);
        let generation = Arc::new(Generation { number, policies, rejected });
        self.current.store(Arc::clone(&generation));
        generation
    }

    fn loading(&self) -> MutexGuard<'_, Option<Loading>> {
        self.loading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of a policy that is older than one that has been in use. Versions of embedded policies
    /// are not compared: another policy of the same name has versions of its own.
    fn older(&self, policy: &Policy, newest: &NewestVersions) -> Option<LoadError> {
        let manifest = policy.manifest();
        let newest = newest.get(&manifest.name).filter(|_| !policy.origin().embedded)?;
        version::compare(&manifest.version, newest)
            .is_lt()
            .then(|| LoadError::Older { version: manifest.version.clone(), newest: newest.clone() })
    }
}

/// Loads a candidate. An error comes with what approves the file now.
fn load_if_changed(
    host: &Host,
    candidate: CandidateSource,
    last: Option<&Arc<Policy>>,
) -> Result<Arc<Policy>, Box<Unreadable>> {
    let candidate = candidate.read()?;
    let approval = candidate.approval.clone();
    let load = |candidate: Candidate| {
        let verified = host.verify(&candidate)?;
        let is_same = |last: &&Arc<Policy>| {
            let settings = host.settings_of(&last.manifest().name, &verified.settings);
            let origin = last.origin();
            (origin.digest, origin.settings_digest) == (verified.digest, verified.settings_digest)
                && origin.approval == candidate.approval
                && last.raw_settings() == settings
        };
        match last.filter(is_same) {
            Some(last) => Ok(Arc::clone(last)),
            None => host.load_verified(candidate, verified).map(Arc::new),
        }
    };
    load(candidate).map_err(|error| Box::new(Unreadable { error, approval }))
}
