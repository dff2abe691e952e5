//! The policies in use: loaded at the start, and again whenever their folder changes.
//!
//! This room must not know what a window is made from, nor when one is judged.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use phasemeter_rules::fault::Fault;
use phasemeter_rules::generation::{Generation, Generations, Rejection};
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::watch::Watch;
use phasemeter_rules::window::Window;
use phasemeter_rules::{Level, Log};
use tracing::{debug, error, warn};

use super::choice::{Choice, OpenError};
use super::shelf::Shelf;
use super::tally::{Tallies, Tally};
use super::verdict::{Verdict, Verdicts};

/// How often a folder is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The policies in use.
pub struct Policies {
    shelf: Shelf,
    generations: Generations,
    /// Why the folder could not be read the last time.
    unreadable: Mutex<Option<Arc<Rejection>>>,
    tallies: Tallies,
}

impl Policies {
    /// Loads them; `None` where there is none to use.
    ///
    /// What is wrong with a policy is not an error: it is told with its verdicts.
    ///
    /// # Errors
    /// Where what the operator named is not there or not what it should be, and where nothing can
    /// be run here.
    pub fn open(choice: &Choice) -> Result<Option<Arc<Self>>, OpenError> {
        let shelf = Shelf {
            shipped: choice.shipped,
            settings: Arc::new(choice.settings()?),
            folder: choice.folder.clone(),
            files: choice.files.clone(),
        };
        shelf.check().map_err(|(path, source)| OpenError::Unreadable { path, source })?;
        if shelf.is_bare() {
            return Ok(None);
        }
        let host = choice.host()?;
        let policies = Self {
            shelf,
            generations: Generations::new(Arc::new(host)),
            unreadable: Mutex::default(),
            tallies: Tallies::default(),
        };
        policies.reload();
        policies.are_all_there()?;
        Ok(Some(Arc::new(policies)))
    }

    /// Reads the shelf again, and takes into use what is on it. Where its folder cannot be read,
    /// everything stays as it is.
    pub fn reload(&self) -> Arc<Generation> {
        let candidates = self.shelf.candidates();
        match candidates {
            Ok(candidates) => {
                *self.unreadable() = None;
                let generation = self.generations.reload(candidates);
                for Rejection { file, fault } in &generation.rejected {
                    self.tallies.refuse(file, fault);
                }
                generation
            }
            Err(rejection) => {
                self.tallies.refuse(&rejection.file, &rejection.fault);
                *self.unreadable() = Some(Arc::new(rejection));
                self.generations.current()
            }
        }
    }

    fn unreadable(&self) -> MutexGuard<'_, Option<Arc<Rejection>>> {
        // Whole between any two statements.
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reloads whenever the folder changes, until the watch is dropped; `None` without a folder.
    ///
    /// # Errors
    /// Where no thread can be started.
    pub fn watch(
        self: &Arc<Self>,
        mut reloaded: impl FnMut(&Generation) + Send + 'static,
    ) -> io::Result<Option<Watch>> {
        let policies = Arc::clone(self);
        let folder = self.shelf.folder.clone();
        let watch = |folder| Watch::start(folder, LOOK_EVERY, move || reloaded(&policies.reload()));
        folder.map(watch).transpose()
    }

    /// The policies in use now. Whoever holds them keeps them whole.
    #[must_use]
    pub fn current(&self) -> Arc<Generation> {
        self.generations.current()
    }

    /// Shows a window to every recommender. Without one nobody is asked.
    #[must_use]
    pub fn judge(&self, window: Option<&Window>) -> Verdicts {
        let generation = self.current();
        let asked = window.map(|window| {
            generation.policies.iter().filter_map(|policy| Verdict::of(policy, window))
        });
        let each: Vec<_> = asked.into_iter().flatten().collect();
        for Verdict { policy, answer, usage, log } in &each {
            self.count(policy, usage, answer.as_ref().err(), log);
        }
        Verdicts { each, generation, unreadable: self.unreadable().clone() }
    }

    /// A policy was asked: it is counted, and what it logged is said.
    pub(super) fn count(&self, policy: &Policy, usage: &Usage, fault: Option<&Fault>, log: &Log) {
        let name = policy.manifest().name.as_str();
        self.tallies.count(name, usage, fault);
        for (level, line) in &log.lines {
            match level {
                // What it informs of stands in the report.
                Level::Debug | Level::Info => debug!(policy = name, "{name}: {line}"),
                Level::Warn => warn!(policy = name, "{name}: {line}"),
                Level::Error => error!(policy = name, "{name}: {line}"),
            }
        }
    }

    /// What was counted of each since the start, by name; of a file that is no policy by that.
    #[must_use]
    pub fn tallies(&self) -> BTreeMap<String, Tally> {
        self.tallies.all()
    }

    /// Settings that no policy gets are a mistake, unless it may still come or could not be told.
    fn are_all_there(&self) -> Result<(), OpenError> {
        let generation = self.current();
        if self.shelf.folder.is_some() || !generation.rejected.is_empty() {
            return Ok(());
        }
        let known: Vec<_> =
            generation.policies.iter().map(|policy| policy.manifest().name.as_str()).collect();
        match self.shelf.settings.keys().find(|name| !known.contains(&name.as_str())) {
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
