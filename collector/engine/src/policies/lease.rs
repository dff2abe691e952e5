//! Leases of the active generation, with its statistics.
//!
//! An evaluation holds a lease until its statistics are recorded, so that they belong to the
//! generation that was evaluated even if another has replaced it meanwhile.

use std::sync::{Arc, Weak};

use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::Generation;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::{Level, Log};
use tracing::{debug, error, warn};

use super::stats::GenerationStats;

/// A generation that is being evaluated. Its statistics are final once all leases are dropped.
#[derive(Clone, Debug)]
pub struct GenerationLease {
    /// The policies and rejected files.
    pub generation: Arc<Generation>,
    stats: Arc<GenerationStats>,
    /// Held by every lease, counted by [`GenerationHandle`].
    users: Arc<()>,
}

/// The statistics of a generation, without keeping it active.
#[derive(Clone, Debug)]
pub struct GenerationHandle {
    /// The statistics so far.
    pub stats: Arc<GenerationStats>,
    users: Weak<()>,
}

impl GenerationLease {
    pub(super) fn new(generation: Arc<Generation>) -> Self {
        let stats = Arc::new(GenerationStats::of(&generation));
        Self { generation, stats, users: Arc::default() }
    }

    /// The lease of the next generation; with the same statistics if its number is unchanged.
    pub(super) fn followed_by(&self, generation: Arc<Generation>) -> Self {
        if generation.number == self.generation.number {
            Self { generation, ..self.clone() }
        } else {
            Self::new(generation)
        }
    }

    /// Records the files rejected at the last reload.
    pub(super) fn record_rejected<'a>(
        &self,
        files: impl Iterator<Item = (&'a str, &'a PolicyError)>,
    ) {
        self.stats.record_rejected(files);
    }

    /// Records an evaluation and forwards the policy's log lines.
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
                // The report shows these lines.
                Level::Debug | Level::Info => debug!(policy = name, "{name}: {line}"),
                Level::Warn => warn!(policy = name, "{name}: {line}"),
                Level::Error => error!(policy = name, "{name}: {line}"),
            }
        }
        if log.dropped > 0 {
            let dropped = log.dropped;
            debug!(policy = name, dropped, "{name}: {dropped} more log lines dropped");
        }
    }

    /// A handle on the statistics.
    pub(super) fn handle(&self) -> GenerationHandle {
        GenerationHandle { stats: Arc::clone(&self.stats), users: Arc::downgrade(&self.users) }
    }
}

impl GenerationHandle {
    /// Whether all leases are dropped, so that the statistics are final.
    #[must_use]
    pub fn is_released(&self) -> bool {
        self.users.strong_count() == 0
    }
}
