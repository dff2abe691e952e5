//! Verdicts: what the policies of one generation said of one window.
//!
//! This room must not know what a window is made from.

use std::sync::Arc;

use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_otlp::encode::{PolicyErrorEvent, RecommendationEvent};
use phasemeter_rules::Log;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::{Generation, Rejection};
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::recommendation::Recommendation;
use phasemeter_rules::window::Window;

/// What the recommenders of one generation said of one window. Empty where there is none.
#[derive(Debug, Default)]
pub struct PolicyResults {
    /// Who was asked, and what was not taken into use.
    pub generation: Arc<Generation>,
    /// What each of them said.
    pub each: Vec<PolicyResult>,
    /// Why the folder of policies could not be read again, where it could not.
    pub unreadable: Option<Arc<Rejection>>,
}

/// What one policy said of a window.
#[derive(Debug)]
pub struct PolicyResult {
    /// Who said it.
    pub policy: Arc<Policy>,
    /// What, or why nothing.
    pub result: Result<Vec<Recommendation>, PolicyError>,
    /// What that took.
    pub usage: Usage,
    /// What it logged.
    pub log: Log,
}

impl PolicyResult {
    /// Asks; `None` where the policy is no recommender.
    pub(super) fn evaluate(policy: &Arc<Policy>, window: &Window) -> Option<Self> {
        let run = policy.recommend(window)?;
        Some(Self {
            policy: Arc::clone(policy),
            result: run.result,
            usage: run.usage,
            log: run.log,
        })
    }
}

impl PolicyResults {
    /// All advice there is, each with the policy that gives it.
    pub fn recommendations(&self) -> impl Iterator<Item = (&Policy, &Recommendation)> {
        self.each.iter().flat_map(|result| {
            let advice = result.result.iter().flatten();
            advice.map(|recommendation| (result.policy.as_ref(), recommendation))
        })
    }

    /// The recommendations as they are exported.
    #[must_use]
    pub fn recommendation_events(&self) -> Vec<RecommendationEvent<'_>> {
        self.recommendations().map(|(policy, it)| recommendation_event(policy, it)).collect()
    }

    /// The errors as they are exported.
    #[must_use]
    pub fn error_events(&self) -> Vec<PolicyErrorEvent<'_>> {
        let failed = self.errors();
        failed
            .map(|(name, error)| PolicyErrorEvent {
                name,
                kind: error.kind(),
                message: error.to_string(),
            })
            .collect()
    }

    /// All that failed, by the name of the policy, else of its file.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &PolicyError)> {
        let failed = self.each.iter().filter_map(|result| {
            Some((result.policy.manifest().name.as_str(), result.result.as_ref().err()?))
        });
        let rejected = self.generation.rejected.iter().chain(self.unreadable.as_deref());
        failed.chain(rejected.map(|rejection| (rejection.file.as_str(), &rejection.error)))
    }
}

fn recommendation_event<'a>(policy: &'a Policy, it: &'a Recommendation) -> RecommendationEvent<'a> {
    RecommendationEvent {
        policy_name: &policy.manifest().name,
        policy_version: &policy.manifest().version,
        code: &it.code,
        target: it.target.name(),
        lever: it.lever.to_string(),
        title: &it.title,
        action: &it.action,
        rationale: &it.rationale,
        saving: it.saving.map(Fraction::as_f64),
        confidence: it.confidence.as_f64(),
        evidence: &it.evidence,
        gpus: &it.gpus,
    }
}
