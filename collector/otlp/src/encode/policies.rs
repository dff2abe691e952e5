//! Results of policies as events in the trace of the experiment: recommendations, and why there are
//! none.
//!
//! A recommendation is exported when it is new, and again when its expected saving has moved by a
//! point; an error when it is new. Must not depend on which of them count.

use std::collections::BTreeMap;

use phasemeter_meter::savings::estimate::Estimate;

use super::events::{Event, Severity};
use super::values::{number, text, texts};

/// A recommendation whose expected saving moved by less than this fraction of the bill of its GPUs
/// is not exported again.
const MOVED: f64 = 0.01;

/// A recommendation as it is exported.
#[derive(Clone, Debug)]
pub struct RecommendationEvent<'a> {
    /// The name of the policy that gives it.
    pub policy_name: &'a str,
    /// The version of that policy.
    pub policy_version: &'a str,
    /// What is recommended, as a stable code.
    pub code: &'a str,
    /// The waste category, or the axis, that it acts on.
    pub target: &'a str,
    /// The lever, for programs.
    pub lever: String,
    /// What is recommended, in a few words.
    pub title: &'a str,
    /// What to do.
    pub action: &'a str,
    /// Why.
    pub rationale: &'a str,
    /// Fractions of the bill of its GPUs, from 0 to 1.
    pub saving: Estimate<f64>,
    /// From 0 to 1.
    pub confidence: f64,
    /// The numbers that it follows from.
    pub evidence: &'a BTreeMap<String, f64>,
    /// The names of the GPUs it is for.
    pub gpus: &'a [String],
}

/// A policy, or its file, that failed, as it is exported.
#[derive(Clone, Debug)]
pub struct PolicyErrorEvent<'a> {
    /// The name of the policy, else of its file.
    pub name: &'a str,
    /// The kind of error: an `error.type`.
    pub kind: &'static str,
    /// The error, in words.
    pub message: String,
}

/// What was exported of the last results: nothing of it is exported twice.
#[derive(Debug, Default)]
pub(super) struct ReportedRecommendations {
    /// The expected saving of each recommendation, by policy, code and GPUs.
    expected: BTreeMap<(String, String, Vec<String>), f64>,
    /// The kind of error of each policy or file.
    errors: BTreeMap<String, &'static str>,
}

impl ReportedRecommendations {
    /// The events of these results that are new. `hw_id`: the id on the wire of the GPU of this
    /// name.
    pub(super) fn news(
        &mut self,
        recommendations: &[RecommendationEvent<'_>],
        errors: &[PolicyErrorEvent<'_>],
        hw_id: impl Fn(&str) -> Option<String>,
    ) -> Vec<Event> {
        let before = std::mem::take(self);
        let mut events = Vec::new();
        for it in recommendations {
            let key = (it.policy_name.to_owned(), it.code.to_owned(), it.gpus.to_vec());
            let expected = it.saving.expected;
            match before.expected.get(&key) {
                // A slow drift is exported once it has moved far enough from what was exported.
                Some(known) if (known - expected).abs() < MOVED => {
                    self.expected.insert(key, *known);
                }
                _ => {
                    events.push(recommendation_event(it, &hw_id));
                    self.expected.insert(key, expected);
                }
            }
        }
        for error in errors {
            if before.errors.get(error.name) != Some(&error.kind) {
                events.push(error_event(error));
            }
            self.errors.insert(error.name.to_owned(), error.kind);
        }
        events
    }
}

fn recommendation_event(
    it: &RecommendationEvent<'_>,
    hw_id: impl Fn(&str) -> Option<String>,
) -> Event {
    let named = |name: &str| format!("phasemeter.recommendation.{name}");
    let evidence = it.evidence.iter();
    let evidence = evidence.map(|(name, value)| number(named(&format!("evidence.{name}")), *value));
    let attributes = [
        text("phasemeter.policy.name", it.policy_name),
        text("phasemeter.policy.version", it.policy_version),
        text(&named("code"), it.code),
        text(&named("target"), it.target),
        text(&named("lever"), it.lever.as_str()),
        text(&named("action"), it.action),
        text(&named("rationale"), it.rationale),
        number(named("confidence"), it.confidence),
        number(named("saving.low"), it.saving.low),
        number(named("saving.expected"), it.saving.expected),
        number(named("saving.high"), it.saving.high),
        texts("hw.id", it.gpus.iter().filter_map(|gpu| hw_id(gpu))),
    ];
    Event {
        name: "phasemeter.recommendation",
        severity: Severity::Info,
        body: it.title.to_owned(),
        attributes: attributes.into_iter().chain(evidence).collect(),
    }
}

fn error_event(error: &PolicyErrorEvent<'_>) -> Event {
    Event {
        name: "phasemeter.policy.error",
        severity: Severity::Warn,
        body: format!("{}: {}", error.name, error.message),
        attributes: vec![
            text("phasemeter.policy.name", error.name),
            text("error.type", error.kind),
        ],
    }
}
