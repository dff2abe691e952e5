//! The policies that were asked, as the report has them.

use phasemeter_rules::Level;
use phasemeter_rules::error;
use phasemeter_rules::generation::{Generation, Rejection};
use phasemeter_rules::policy::{self, Usage};
use serde::Serialize;

use crate::report::AdviceInput;

/// A policy that was asked, or a file that is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Policy {
    /// Its name; of what was not taken into use, its file.
    pub name: String,
    /// Its version; this and what follows is `None` of what was not taken into use.
    pub version: Option<String>,
    /// Whether it advises or prices.
    pub kind: Option<&'static str>,
    /// The SHA-256 of its file.
    pub digest: Option<String>,
    /// The generation that it was asked in.
    pub generation: u64,
    /// Why it gave no answer.
    pub fault: Option<Fault>,
    /// What its last answer took, and of a pricer all its answers: the same for the same question,
    /// on every machine.
    pub fuel: Option<u64>,
    /// How long that took; `None` in the report of a log, which is the same every time.
    pub microseconds: Option<u64>,
    /// What it has to say beside its advice, such as what it could not tell, and why.
    pub notes: Vec<String>,
}

/// Why a policy gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// One of a closed set.
    pub kind: &'static str,
    /// In words.
    pub message: String,
}

impl From<&error::PolicyError> for Fault {
    fn from(fault: &error::PolicyError) -> Self {
        Self { kind: fault.kind(), message: fault.to_string() }
    }
}

/// All that were asked, in the order they are asked, then what was not taken into use.
pub(super) fn all(advice: &AdviceInput<'_>) -> Vec<Policy> {
    let generation = &advice.verdicts.generation;
    let each = generation.policies.iter().map(|policy| {
        let is_it = |other: &policy::Policy| other.manifest().name == policy.manifest().name;
        let verdict = advice.verdicts.each.iter().find(|verdict| is_it(&verdict.policy));
        let asked = advice.asked.iter().find(|asked| asked.name == policy.manifest().name);
        let fault = verdict
            .and_then(|verdict| verdict.answer.as_ref().err())
            .or_else(|| asked?.fault.as_ref());
        let usage = verdict.map(|verdict| verdict.usage).or_else(|| Some(asked?.usage));
        let lines = verdict.iter().flat_map(|verdict| &verdict.log.lines);
        let notes = lines.filter(|(level, _)| *level >= Level::Info).map(|(_, line)| line.clone());
        Policy {
            fault: fault.map(Into::into),
            notes: notes.collect(),
            ..used(policy, generation, usage.unwrap_or_default(), advice.timed)
        }
    });
    let rejected = generation.rejected.iter().chain(advice.verdicts.unreadable.as_deref());
    each.chain(rejected.map(|rejection| refused(rejection, generation))).collect()
}

fn used(policy: &policy::Policy, generation: &Generation, usage: Usage, timed: bool) -> Policy {
    let microseconds = || u64::try_from(usage.time.as_micros()).unwrap_or(u64::MAX);
    Policy {
        name: policy.manifest().name.clone(),
        version: Some(policy.manifest().version.clone()),
        kind: Some(policy.kind().name()),
        digest: Some(policy.digest().to_string()),
        generation: generation.number,
        fault: None,
        fuel: Some(usage.fuel),
        microseconds: timed.then(microseconds),
        notes: Vec::new(),
    }
}

fn refused(rejection: &Rejection, generation: &Generation) -> Policy {
    Policy {
        name: rejection.file.clone(),
        version: None,
        kind: None,
        digest: None,
        generation: generation.number,
        fault: Some((&rejection.error).into()),
        fuel: None,
        microseconds: None,
        notes: Vec::new(),
    }
}
