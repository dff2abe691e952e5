//! The policies in use: loaded at the start, and again whenever their folder changes.
//!
//! This room must not know what a window is made from, nor when one is judged.

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

/// How often a folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The policies in use.
pub struct PolicyManager {
    sources: PolicySources,
    generations: Generations,
    current: Mutex<GenerationLease>,
    /// Who is told of each generation.
    watcher: Mutex<Option<Sender<GenerationHandle>>>,
    /// Why the folder could not be read the last time.
    unreadable: Mutex<Option<Arc<Rejection>>>,
}

impl PolicyManager {
    /// Loads them; `None` where there is none to use.
    ///
    /// What is wrong with a policy is not an error: it is told with its verdicts.
    ///
    /// # Errors
    /// Where what the operator named is not there or not what it should be, and where nothing can
    /// be run here.
    pub fn open(config: &PolicyConfig) -> Result<Option<Arc<Self>>, OpenError> {
        let sources = PolicySources {
            default_policies: config.default_policies,
            settings: Arc::new(config.settings()?),
            folder: config.folder.clone(),
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
            watcher: Mutex::default(),
            unreadable: Mutex::default(),
        };
        policies.reload();
        policies.are_all_there()?;
        Ok(Some(Arc::new(policies)))
    }

    /// Reads the shelf again, and takes into use what is on it. Where its folder cannot be read,
    /// everything stays as it is.
    pub fn reload(&self) -> Arc<Generation> {
        match self.sources.candidates() {
            Ok(candidates) => {
                *lock(&self.unreadable) = None;
                self.take_into_use(self.generations.reload(candidates))
            }
            Err(rejection) => {
                let current = self.current();
                current.record_rejected(std::iter::once(&rejection).map(told));
                *lock(&self.unreadable) = Some(Arc::new(rejection));
                current.generation
            }
        }
    }

    fn take_into_use(&self, generation: Arc<Generation>) -> Arc<Generation> {
        let mut current = lock(&self.current);
        let is_new = generation.number != current.generation.number;
        *current = current.followed_by(Arc::clone(&generation));
        current.record_rejected(generation.rejected.iter().map(told));
        if is_new && let Some(watcher) = lock(&self.watcher).as_ref() {
            // Who has stopped watching needs no news.
            let _ = watcher.send(current.handle());
        }
        generation
    }

    /// Reloads whenever the folder changes, until the watch is dropped; `None` without a folder.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn watch(
        self: &Arc<Self>,
        mut reloaded: impl FnMut(&Generation) + Send + 'static,
    ) -> io::Result<Option<PollWatcher>> {
        let policies = Arc::clone(self);
        let folder = self.sources.folder.clone();
        let watch =
            |folder| PollWatcher::start(folder, LOOK_EVERY, move || reloaded(&policies.reload()));
        folder.map(watch).transpose()
    }

    /// The policies in use now. Whoever holds them keeps them whole.
    #[must_use]
    pub fn current(&self) -> GenerationLease {
        lock(&self.current).clone()
    }

    /// The generation in use and each that follows, for one who watches what is counted of them;
    /// until [`Self::unwatch`].
    pub fn subscribe(&self) -> Receiver<GenerationHandle> {
        let (watcher, begun) = mpsc::channel();
        let current = lock(&self.current);
        // The receiver is here.
        let _ = watcher.send(current.handle());
        *lock(&self.watcher) = Some(watcher);
        begun
    }

    /// Whoever watches is told of no generation any more.
    pub fn unsubscribe(&self) {
        *lock(&self.watcher) = None;
    }

    /// Shows a window to every recommender. Without one nobody is asked.
    #[must_use]
    pub fn evaluate(&self, window: Option<&Window>) -> PolicyResults {
        let current = self.current();
        let asked = window.map(|window| {
            let policies = current.generation.policies.iter();
            policies.filter_map(|policy| PolicyResult::evaluate(policy, window))
        });
        let each: Vec<_> = asked.into_iter().flatten().collect();
        for PolicyResult { policy, result, usage, log } in &each {
            current.record(policy, usage, result.as_ref().err(), log);
        }
        let unreadable = lock(&self.unreadable).clone();
        PolicyResults { each, generation: Arc::clone(&current.generation), unreadable }
    }

    /// Settings that no policy gets are a mistake, unless it may still come or could not be told.
    fn are_all_there(&self) -> Result<(), OpenError> {
        let generation = self.current().generation;
        if self.sources.folder.is_some() || !generation.rejected.is_empty() {
            return Ok(());
        }
        let known: Vec<_> =
            generation.policies.iter().map(|policy| policy.manifest().name.as_str()).collect();
        match self.sources.settings.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let known = match known.as_slice() {
                    [] => "is none".to_owned(),
                    known => format!("are {}", known.join(", ")),
                };
                Err(OpenError::NoSuchPolicy { name: name.clone(), known })
            }
        }
    }
}

/// The file and the fault of what was not taken into use.
fn told(rejection: &Rejection) -> (&str, &PolicyError) {
    (&rejection.file, &rejection.error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What these hold is whole between any two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
