//! The active policies: loaded at the start, and reloaded whenever their directory changes.

use std::io;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use phasemeter_files::read_file;
use phasemeter_rules::Log;
use phasemeter_rules::compile::take_unconfined;
use phasemeter_rules::error::{LoadError, PolicyError};
use phasemeter_rules::generation::{Generation, Generations, Rejection};
use phasemeter_rules::host::Host;
use phasemeter_rules::policy_dir::MAX_FILE_BYTES;
use phasemeter_rules::wasm_info::WasmInfo;
use phasemeter_rules::watch::PollWatcher;
use phasemeter_rules::window::Window;
use tracing::{info, warn};

use super::change::{Configured, PolicyChange};
use super::config::{OpenError, PolicyConfig};
use super::lease::{GenerationHandle, GenerationLease};
use super::result::{PolicyResult, PolicyResults};
use super::suppositions;

/// How often the directory is polled for changes.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of rejected policies that are logged at a reload.
const LOGGED_REJECTIONS: usize = 4;

/// How long prices and recommendations wait for policies that are still being loaded, from when the
/// command starts. Readings of that time are buffered.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// Loads policies, evaluates them, and replaces them on reload.
pub struct PolicyManager {
    /// Where policies are read from, and their settings.
    config: Mutex<Arc<Configured>>,
    generations: Generations,
    current: Mutex<GenerationLease>,
    /// Receives a handle on each new generation.
    subscriber: Mutex<Option<Sender<GenerationHandle>>>,
    /// Why the directory could not be read at the last reload.
    unreadable: Mutex<Option<Arc<Rejection>>>,
    start: Mutex<Start>,
    /// Notified when `start` becomes [`Start::Loaded`].
    loaded: Condvar,
}

/// Progress of the first load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// The start of the run waits for it.
    Waiting,
    /// The run has started; prices and recommendations wait.
    Late { until: Instant },
    /// It is complete.
    Loaded,
}

impl PolicyManager {
    /// Loads the policies; `None` if none are configured. If that takes longer than the command may
    /// wait, the others are loaded by a thread, and activated together.
    ///
    /// A faulty policy is not an error: it is reported with the results.
    ///
    /// # Errors
    /// Returns an error if a configured file is missing or invalid, or if the policy host cannot be
    /// started.
    pub fn open(config: &PolicyConfig) -> Result<Option<Arc<Self>>, OpenError> {
        if config.is_empty() {
            return config.settings().map(|_| None);
        }
        let PolicyChange { configured, host } = PolicyChange::new(config)?;
        let generations = Generations::new(Arc::new(host));
        let policies = Arc::new(Self {
            config: Mutex::new(Arc::new(configured)),
            current: Mutex::new(GenerationLease::new(generations.current())),
            generations,
            subscriber: Mutex::default(),
            unreadable: Mutex::default(),
            start: Mutex::new(Start::Loaded),
            loaded: Condvar::new(),
        });
        let is_loaded = match config.start_limit {
            None => false,
            Some(limit) => match policies.load_within(limit) {
                // Nothing has to be compiled.
                Err(OpenError::Thread(_)) if config.interpreter => false,
                loaded => loaded.map(|()| true)?,
            },
        };
        if !is_loaded {
            policies.reload();
            policies.check_settings()?;
        }
        Ok(Some(policies))
    }

    /// Loads the policies on a thread, and waits for it at most for `limit`.
    fn load_within(self: &Arc<Self>, limit: Duration) -> Result<(), OpenError> {
        *lock(&self.start) = Start::Waiting;
        let loader = Arc::clone(self);
        let thread = thread::Builder::new().name("policy-load".to_owned());
        if let Err(error) = thread.spawn(move || loader.load()) {
            *lock(&self.start) = Start::Loaded;
            return Err(OpenError::Thread(error));
        }
        let waiting = |start: &mut Start| *start == Start::Waiting;
        let waited = self.loaded.wait_timeout_while(lock(&self.start), limit, waiting);
        let (mut start, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *start == Start::Loaded {
            return self.check_settings();
        }
        *start = Start::Late { until: Instant::now() + MAX_WAIT };
        drop(start);
        self.generations.activate_loaded();
        let generation = self.activate();
        let pending = generation
            .rejected
            .iter()
            .filter(|rejection| matches!(rejection.error, PolicyError::Load(LoadError::Pending)));
        let pending: Vec<_> = pending.map(|rejection| rejection.file.as_str()).collect();
        let count = pending.len();
        match pending.first() {
            Some(first) => warn!(
                count,
                "the run starts while policies are still loading: {count}, the next one is {first}"
            ),
            // They are not listed yet.
            None => warn!("the run starts while policies are still loading"),
        }
        Ok(())
    }

    /// Loads the policies, and reports that if the run has started before.
    fn load(&self) {
        self.configured().sources.owner_warning().iter().for_each(|warning| warn!("{warning}"));
        let generation = self.reload();
        let start = std::mem::replace(&mut *lock(&self.start), Start::Loaded);
        self.loaded.notify_all();
        if start == Start::Waiting {
            log_rejected(&generation);
        } else {
            log_generation(&generation);
            if let Err(error) = self.check_settings() {
                warn!("{error}");
            }
        }
    }

    /// Whether prices and recommendations should wait, since policies are still being loaded.
    pub fn is_loading(&self) -> bool {
        matches!(*lock(&self.start), Start::Late { until } if Instant::now() < until)
    }

    /// Waits while policies are being loaded.
    pub fn wait(&self) {
        let mut start = lock(&self.start);
        while let Start::Late { until } = *start {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.loaded.wait_timeout(start, left);
            start = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Reads the sources again and activates them. If the directory exists and cannot be read, the
    /// current generation stays active.
    pub fn reload(&self) -> Arc<Generation> {
        self.load_by(None)
    }

    /// Reads policies by another configuration from now on, on a thread. Until they are loaded, those before stay active.
    ///
    /// # Errors
    /// Returns an error if no thread can be started.
    pub fn change(self: &Arc<Self>, change: PolicyChange) -> io::Result<JoinHandle<()>> {
        let (policies, PolicyChange { configured, host }) = (Arc::clone(self), change);
        *lock(&self.config) = Arc::new(configured);
        let load = move || {
            log_generation(&policies.load_by(Some(host)));
            if let Err(error) = policies.check_settings() {
                warn!("{error}");
            }
        };
        thread::Builder::new().name("policy-load".to_owned()).spawn(load)
    }

    fn configured(&self) -> Arc<Configured> {
        Arc::clone(&lock(&self.config))
    }

    fn load_by(&self, host: Option<Host>) -> Arc<Generation> {
        match self.configured().sources.candidates() {
            Ok(candidates) => {
                *lock(&self.unreadable) = None;
                match host {
                    Some(host) => self.generations.reload_with(Arc::new(host), candidates),
                    None => self.generations.reload(candidates),
                };
                if let Some(reason) = take_unconfined() {
                    warn!("policies are compiled without a filter of system calls: {reason}");
                }
                self.activate()
            }
            Err(rejection) => {
                let current = self.current();
                current.record_rejected(std::iter::once(&rejection).map(file_and_error));
                *lock(&self.unreadable) = Some(Arc::new(rejection));
                current.generation
            }
        }
    }

    /// Uses the newest generation.
    fn activate(&self) -> Arc<Generation> {
        let mut current = lock(&self.current);
        let generation = self.generations.current();
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
    pub fn watch(self: &Arc<Self>) -> io::Result<Option<PollWatcher>> {
        let policies = Arc::clone(self);
        let directory = self.configured().sources.directory.clone();
        let watch = |directory| {
            let reload = move || log_generation(&policies.reload());
            PollWatcher::start(directory, RELOAD_INTERVAL, reload)
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

    /// Evaluates every recommender on a window, and again under suppositions that matter. Without a window there are no
    /// results.
    #[must_use]
    pub fn evaluate(&self, window: Option<&Window>) -> PolicyResults {
        let current = self.current();
        let evaluated = window.map(|window| {
            let policies = current.generation.policies.iter();
            policies.filter_map(|policy| PolicyResult::evaluate(policy, window))
        });
        let mut each: Vec<_> = evaluated.into_iter().flatten().collect();
        for PolicyResult { policy, result, usage, log } in &each {
            current.record(policy, usage, result.as_ref().err(), log);
        }
        if let Some(window) = window {
            suppositions::add(window, &mut each, |policy, result| {
                // Its log repeats what was logged without the supposition.
                current.record(
                    policy,
                    &result.usage,
                    result.result.as_ref().err(),
                    &Log::default(),
                );
            });
        }
        let unreadable = lock(&self.unreadable).clone();
        PolicyResults { each, generation: Arc::clone(&current.generation), unreadable }
    }

    /// Rejects invalid settings that the user gave for a policy by its name, or of a pricer that the
    /// user named by its file: without it, prices would not be as configured.
    fn check_named(&self) -> Result<(), OpenError> {
        let generation = self.current().generation;
        let is_loaded =
            |name: &String| generation.policies.iter().any(|it| it.manifest().name == *name);
        let configured = self.configured();
        let lacks_named = !configured.settings.keys().all(is_loaded);
        // Reads a file only if it was loaded: others may be pipes, for example.
        let is_named_pricer = |file: &String| {
            let files = configured.sources.files.iter();
            let mut named = files.map(|named| named.display().to_string());
            named.any(|named| named == *file) && is_pricer(file)
        };
        for Rejection { file, error } in &generation.rejected {
            if let PolicyError::Settings(errors) = error
                && (lacks_named || is_named_pricer(file))
            {
                let (file, error) = (file.clone(), PolicyError::Settings(errors.clone()));
                return Err(OpenError::InvalidSettings { file, error });
            }
        }
        Ok(())
    }

    /// Rejects settings for an unknown policy, unless it may still be added or was not loaded; and
    /// invalid ones.
    fn check_settings(&self) -> Result<(), OpenError> {
        self.check_named()?;
        let (generation, configured) = (self.current().generation, self.configured());
        if configured.sources.directory.is_some() || !generation.rejected.is_empty() {
            return Ok(());
        }
        let known: Vec<_> =
            generation.policies.iter().map(|policy| policy.manifest().name.as_str()).collect();
        match configured.settings.keys().find(|name| !known.contains(&name.as_str())) {
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

/// Logs the outcome of a reload.
fn log_generation(generation: &Generation) {
    info!(generation = generation.number, "policy generation {} is active", generation.number);
    log_rejected(generation);
}

/// Logs what was rejected.
fn log_rejected(generation: &Generation) {
    for Rejection { file, error } in generation.rejected.iter().take(LOGGED_REJECTIONS) {
        warn!(file, error = error.kind(), "policy {file} rejected: {error}");
    }
    match generation.rejected.len().saturating_sub(LOGGED_REJECTIONS) {
        0 => {}
        more => warn!(more, "{more} more policies rejected"),
    }
}

/// Whether a file is a pricer.
fn is_pricer(file: &str) -> bool {
    let info = read_file(Path::new(file), MAX_FILE_BYTES)
        .ok()
        .and_then(|bytes| WasmInfo::parse(&bytes).ok());
    let is_pricer = |export: &String| export.starts_with("phasemeter:policy/pricer@");
    info.is_some_and(|info| info.exports.iter().any(is_pricer))
}

fn file_and_error(rejection: &Rejection) -> (&str, &PolicyError) {
    (&rejection.file, &rejection.error)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Each update is a single assignment, so a poisoned value is valid.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
