//! The policies of a report.

use phasemeter_rules::Level;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::{Generation, Rejection};
use phasemeter_rules::policy::{self, Usage};
use serde::Serialize;

use crate::input::PoliciesInput;

/// A policy that was evaluated, or a file that was rejected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Its name, or the file if it was rejected.
    pub name: String,
    /// Its version; like `kind`, `digest` and `fuel`, `None` if it was rejected.
    pub version: Option<String>,
    /// `recommender` or `pricer`.
    pub kind: Option<&'static str>,
    /// SHA-256 of its file.
    pub digest: Option<String>,
    /// The generation it was evaluated in.
    pub generation: u64,
    /// Why there is no result.
    pub error: Option<ReportedError>,
    /// Fuel consumed by its last evaluation, or by all evaluations of a pricer. The same input
    /// consumes the same fuel on every machine.
    pub fuel: Option<u64>,
    /// Duration of the same; `None` in the report of a log, which is reproducible.
    pub duration_us: Option<u64>,
    /// Messages that it logged at level info or above.
    pub notes: Vec<String>,
}

/// Why a policy has no result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ReportedError {
    /// One of a closed set of codes.
    pub kind: &'static str,
    /// Description.
    pub message: String,
}

impl From<&PolicyError> for ReportedError {
    fn from(error: &PolicyError) -> Self {
        Self { kind: error.kind(), message: error.to_string() }
    }
}

/// The policies in evaluation order, then the rejected files.
pub(super) fn all(input: &PoliciesInput<'_>) -> Vec<Policy> {
    let generation = &input.results.generation;
    let each = generation.policies.iter().map(|policy| {
        let is_same = |other: &policy::Policy| other.manifest().name == policy.manifest().name;
        let result = input.results.each.iter().find(|result| is_same(&result.policy));
        let quotes = input.pricers.iter().find(|pricer| pricer.name == policy.manifest().name);
        let error = result
            .and_then(|result| result.result.as_ref().err())
            .or_else(|| quotes?.error.as_ref());
        let usage = result.map(|result| result.usage).or_else(|| Some(quotes?.usage));
        let lines = result.iter().flat_map(|result| &result.log.lines);
        let notes = lines.filter(|(level, _)| *level >= Level::Info).map(|(_, line)| line.clone());
        Policy {
            error: error.map(Into::into),
            notes: notes.collect(),
            ..active(policy, generation, usage.unwrap_or_default(), input.timed)
        }
    });
    let rejections = generation.rejected.iter().chain(input.results.unreadable.as_deref());
    each.chain(rejections.map(|rejection| rejected(rejection, generation))).collect()
}

fn active(policy: &policy::Policy, generation: &Generation, usage: Usage, timed: bool) -> Policy {
    let duration_us = || u64::try_from(usage.time.as_micros()).unwrap_or(u64::MAX);
    Policy {
        name: policy.manifest().name.clone(),
        version: Some(policy.manifest().version.clone()),
        kind: Some(policy.kind().name()),
        digest: Some(policy.digest().to_string()),
        generation: generation.number,
        error: None,
        fuel: Some(usage.fuel),
        duration_us: timed.then(duration_us),
        notes: Vec::new(),
    }
}

fn rejected(rejection: &Rejection, generation: &Generation) -> Policy {
    Policy {
        name: rejection.file.clone(),
        version: None,
        kind: None,
        digest: None,
        generation: generation.number,
        error: Some((&rejection.error).into()),
        fuel: None,
        duration_us: None,
        notes: Vec::new(),
    }
}
