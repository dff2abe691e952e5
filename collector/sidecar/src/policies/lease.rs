//! The generation of policies in use, with what is counted of it.
//!
//! Whoever asks policies holds it until all is counted, so that what a generation did is counted of
//! that generation, also when another has taken over meanwhile. This room must not know who asks.

use std::sync::{Arc, Weak};

use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::Generation;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::{Level, Log};
use tracing::{debug, error, warn};

use super::stats::GenerationStats;

/// A generation that is in use, in the hand of one who asks its policies.
#[derive(Clone, Debug)]
pub struct GenerationLease {
    /// The policies, and what was not taken into use.
    pub generation: Arc<Generation>,
    stats: Arc<GenerationStats>,
    /// Held by all who may still count.
    users: Arc<()>,
}

/// What is counted of a generation, for whoever watches.
#[derive(Clone, Debug)]
pub struct GenerationHandle {
    /// What was counted so far.
    pub stats: Arc<GenerationStats>,
    users: Weak<()>,
}

impl GenerationLease {
    pub(super) fn new(generation: Arc<Generation>) -> Self {
        let stats = Arc::new(GenerationStats::of(&generation));
        Self { generation, stats, users: Arc::default() }
    }

    /// Its successor: it counts on where the policies are the same.
    pub(super) fn followed_by(&self, generation: Arc<Generation>) -> Self {
        if generation.number == self.generation.number {
            Self { generation, ..self.clone() }
        } else {
            Self::new(generation)
        }
    }

    /// The files were looked at again: these are not taken into use.
    pub(super) fn record_rejected<'a>(
        &self,
        files: impl Iterator<Item = (&'a str, &'a PolicyError)>,
    ) {
        self.stats.record_rejected(files);
    }

    /// A policy was asked: it is counted, and what it logged is said.
    pub(super) fn record(
        &self,
        policy: &Policy,
        usage: &Usage,
        error: Option<&PolicyError>,
        log: &Log,
    ) {
        let name = policy.manifest().name.as_str();
        self.stats.record(name, usage, error);
        for (level, line) in &log.lines {
            match level {
                // What it informs of stands in the report.
                Level::Debug | Level::Info => debug!(policy = name, "{name}: {line}"),
                Level::Warn => warn!(policy = name, "{name}: {line}"),
                Level::Error => error!(policy = name, "{name}: {line}"),
            }
        }
    }

    /// For whoever watches.
    pub(super) fn handle(&self) -> GenerationHandle {
        GenerationHandle { stats: Arc::clone(&self.stats), users: Arc::downgrade(&self.users) }
    }
}

impl GenerationHandle {
    /// Whether another generation has taken over, and nobody counts any more.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.users.strong_count() == 0
    }
}
