//! The active policies: loaded at the start, and reloaded whenever their directory changes.
//!
//! Must not depend on how windows are built or scheduled.

use std::io;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::{Generation, Generations, Rejection};
use phasemeter_rules::watch::PollWatcher;
use phasemeter_rules::window::Window;

use super::config::{OpenError, PolicyConfig};
use super::lease::{GenerationHandle, GenerationLease};
use super::result::{PolicyResult, PolicyResults};
use super::sources::PolicySources;

/// How often the directory is polled for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Loads policies, evaluates them, and replaces them on reload.
pub struct PolicyManager {
    sources: PolicySources,
    generations: Generations,
    current: Mutex<GenerationLease>,
    /// Receives a handle on each new generation.
    subscriber: Mutex<Option<Sender<GenerationHandle>>>,
    /// Why the directory could not be read at the last reload.
    unreadable: Mutex<Option<Arc<Rejection>>>,
}

impl PolicyManager {
    /// Loads the policies; `None` if none are configured.
    ///
    /// A faulty policy is not an error: it is reported with the results.
    ///
    /// # Errors
    /// Returns an error if a configured file is missing or invalid, or if the policy host cannot be
    /// started.
    pub fn open(config: &PolicyConfig) -> Result<Option<Arc<Self>>, OpenError> {
        let sources = PolicySources {
            default_policies: config.default_policies,
            settings: Arc::new(config.settings()?),
            directory: config.directory.clone(),
            files: config.files.clone(),
        };
        sources.check().map_err(|(path, source)| OpenError::Unreadable { path, source })?;
        if sources.is_empty() {
            return Ok(None);
        }
        let host = config.host()?;
        let generations = Generations::new(Arc::new(host));
        let policies = Self {
            sources,
            current: Mutex::new(GenerationLease::new(generations.current())),
            generations,
            subscriber: Mutex::default(),
            unreadable: Mutex::default(),
        };
        policies.reload();
        policies.check_settings()?;
        Ok(Some(Arc::new(policies)))
    }

    /// Reads the sources again and activates them. If the directory cannot be read, the current
    /// generation stays active.
    pub fn reload(&self) -> Arc<Generation> {
        match self.sources.candidates() {
            Ok(candidates) => {
                *lock(&self.unreadable) = None;
                self.activate(self.generations.reload(candidates))
            }
            Err(rejection) => {
                let current = self.current();
                current.record_rejected(std::iter::once(&rejection).map(file_and_error));
                *lock(&self.unreadable) = Some(Arc::new(rejection));
                current.generation
            }
        }
    }

    fn activate(&self, generation: Arc<Generation>) -> Arc<Generation> {
        let mut current = lock(&self.current);
        let is_new = generation.number != current.generation.number;
        *current = current.followed_by(Arc::clone(&generation));
        current.record_rejected(generation.rejected.iter().map(file_and_error));
        if is_new && let Some(subscriber) = lock(&self.subscriber).as_ref() {
            // The subscriber may have ended.
            let _ = subscriber.send(current.handle());
        }
        generation
    }

    /// Reloads whenever the directory changes, until the watcher is dropped; `None` without a
    /// directory.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn watch(
        self: &Arc<Self>,
        mut reloaded: impl FnMut(&Generation) + Send + 'static,
    ) -> io::Result<Option<PollWatcher>> {
        let policies = Arc::clone(self);
        let directory = self.sources.directory.clone();
        let watch = |directory| {
            PollWatcher::start(directory, RELOAD_INTERVAL, move || reloaded(&policies.reload()))
        };
        directory.map(watch).transpose()
    }

    /// A lease of the active generation.
    #[must_use]
    pub fn current(&self) -> GenerationLease {
        lock(&self.current).clone()
    }

    /// Handles on the active generation and each that follows. There is one subscriber at a time.
    pub fn subscribe(&self) -> Receiver<GenerationHandle> {
        let (subscriber, generations) = mpsc::channel();
        let current = lock(&self.current);
        // Cannot fail: the receiver is in scope.
        let _ = subscriber.send(current.handle());
        *lock(&self.subscriber) = Some(subscriber);
        generations
    }

    /// Evaluates every recommender on a window. Without a window there are no results.
    #[must_use]
    pub fn evaluate(&self, window: Option<&Window>) -> PolicyResults {
        let current = self.current();
        let evaluated = window.map(|window| {
            let policies = current.generation.policies.iter();
            policies.filter_map(|policy| PolicyResult::evaluate(policy, window))
        });
        let each: Vec<_> = evaluated.into_iter().flatten().collect();
        for PolicyResult { policy, result, usage, log } in &each {
            current.record(policy, usage, result.as_ref().err(), log);
        }
        let unreadable = lock(&self.unreadable).clone();
        PolicyResults { each, generation: Arc::clone(&current.generation), unreadable }
    }

    /// Rejects settings for an unknown policy, unless it may still be added or was not loaded.
    fn check_settings(&self) -> Result<(), OpenError> {
        let generation = self.current().generation;
        if self.sources.directory.is_some() || !generation.rejected.is_empty() {
            return Ok(());
        }
        let known: Vec<_> =
            generation.policies.iter().map(|policy| policy.manifest().name.as_str()).collect();
        match self.sources.settings.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let known = match known.as_slice() {
                    [] => "no policy is configured".to_owned(),
                    known => format!("known names: {}", known.join(", ")),
                };
                Err(OpenError::NoSuchPolicy { name: name.clone(), known })
            }
        }
    }
}

fn file_and_error(rejection: &Rejection) -> (&str, &PolicyError) {
    (&rejection.file, &rejection.error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each update is a single assignment, so a poisoned value is valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
