//! Random fleets whose response to each recommendation is known.
//!
//! ```text
//! number ─→ Fleet ─→ nvidia-smi log ─→ phasemeter audit ─→ recommendations ─→ Action
//!             └──────────────── replay with the action taken ←───────────────────┘
//!                                        └─→ true saving ─→ Score
//! ```
//!
//! What actions achieve is in [`assumptions`].

#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a simulation computes in floating point, and its numbers are small"
)]

mod action;
mod assumptions;
mod audit;
mod batch;
mod case;
mod draft;
mod fleet;
mod input;
mod instances;
mod log;
mod notebooks;
mod offer;
mod prng;
mod replay;
mod report;
mod score;
mod service;
mod trace;
mod training;

use std::ops::Range;
use std::panic::resume_unwind;
use std::thread;

pub use audit::{Audit, AuditError};
use case::Replayed;
pub use fleet::Fleet;
use report::Report;
pub use score::Score;
use serde::Deserialize;
use serde_json::Value;

/// Audits and replays the fleets of these numbers, on as many threads as there are cores. `inspect` gets
/// each number and report.
///
/// # Errors
/// Returns an error if a fleet cannot be audited.
pub fn simulate(
    audit: Audit<'_>,
    numbers: Range<u64>,
    inspect: &(dyn Fn(u64, &Value) + Sync),
) -> Result<Score, AuditError> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let fleets = |part: usize| {
        let own = numbers.clone().skip(part).step_by(threads).filter_map(Fleet::generate);
        own.map(|fleet| replay(audit, &fleet, inspect)).collect::<Result<Vec<_>, _>>()
    };
    let fleets = &fleets;
    let parts: Vec<_> = thread::scope(|scope| {
        let parts: Vec<_> = (0..threads).map(|part| scope.spawn(move || fleets(part))).collect();
        parts
            .into_iter()
            .map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    let mut score = Score::default();
    for part in parts {
        part?.into_iter().for_each(|fleet| score.add(fleet));
    }
    Ok(score)
}

fn replay(
    audit: Audit<'_>,
    fleet: &Fleet,
    inspect: &(dyn Fn(u64, &Value) + Sync),
) -> Result<Replayed, AuditError> {
    let report = audit.report(fleet)?;
    inspect(fleet.number, &report);
    let failed = |source| AuditError::Report { fleet: fleet.number, source };
    Ok(Replayed::of(fleet, &Report::deserialize(&report).map_err(failed)?))
}
