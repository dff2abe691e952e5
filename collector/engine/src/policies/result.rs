//! Results of evaluating the policies of one generation on one window.

use std::sync::Arc;

use phasemeter_otlp::encode::{PolicyErrorEvent, RecommendationEvent};
use phasemeter_rules::Log;
use phasemeter_rules::error::PolicyError;
use phasemeter_rules::generation::{Generation, Rejection};
use phasemeter_rules::lever::Proof;
use phasemeter_rules::policy::{Policy, Usage};
use phasemeter_rules::recommendation::{Need, Recommendation, RecommendationKind, Response};
use phasemeter_rules::window::Window;
use phasemeter_savings::fraction::Fraction;

/// Confidence below which a recommendation is only a hint at what is missing.
const MIN_CONFIDENCE: f64 = 0.2;

/// The results of one generation's recommenders for one window. Empty by default.
#[derive(Debug, Default)]
pub struct PolicyResults {
    /// The generation, with its policies and rejected files.
    pub generation: Arc<Generation>,
    /// One result per recommender.
    pub each: Vec<PolicyResult>,
    /// Why the policy directory could not be read again, if so.
    pub unreadable: Option<Arc<Rejection>>,
}

/// The result of one policy for one window.
#[derive(Debug)]
pub struct PolicyResult {
    /// The policy.
    pub policy: Arc<Policy>,
    /// Its response, or its error.
    pub result: Result<Response, PolicyError>,
    /// The resources used.
    pub usage: Usage,
    /// Its log lines.
    pub log: Log,
}

impl PolicyResult {
    /// Evaluates a policy; `None` if it is not a recommender.
    pub(super) fn evaluate(policy: &Arc<Policy>, window: &Window) -> Option<Self> {
        let evaluation = policy.recommend(window)?;
        Some(Self {
            policy: Arc::clone(policy),
            result: evaluation.result,
            usage: evaluation.usage,
            log: evaluation.log,
        })
    }
}

impl PolicyResults {
    /// All recommendations with their policies.
    pub fn recommendations(&self) -> impl Iterator<Item = (&Policy, &Recommendation)> {
        self.returned().filter(|(_, it)| is_supported(it))
    }

    /// Those that are no more than a hint at what is missing.
    pub fn hints(&self) -> impl Iterator<Item = (&Policy, &Recommendation)> {
        self.returned().filter(|(_, it)| !is_supported(it))
    }

    fn returned(&self) -> impl Iterator<Item = (&Policy, &Recommendation)> {
        self.each.iter().flat_map(|result| {
            let recommendations = result.result.iter().flat_map(|it| &it.recommendations);
            recommendations.map(|recommendation| (result.policy.as_ref(), recommendation))
        })
    }

    /// All missing information.
    pub fn needs(&self) -> impl Iterator<Item = &Need> {
        self.each.iter().flat_map(|result| result.result.iter().flat_map(|it| &it.needs))
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

    /// All errors, by policy name, or by file if the policy was not loaded.
    pub fn errors(&self) -> impl Iterator<Item = (&str, &PolicyError)> {
        let failed = self.each.iter().filter_map(|result| {
            Some((result.policy.manifest().name.as_str(), result.result.as_ref().err()?))
        });
        let rejected = self.generation.rejected.iter().chain(self.unreadable.as_deref());
        failed.chain(rejected.map(|rejection| (rejection.file.as_str(), &rejection.error)))
    }
}

/// Whether it is more than a hint. A saving of which nothing is expected is none, but a diagnosis, a trial and what
/// applies to one kind of work only promise none.
fn is_supported(it: &Recommendation) -> bool {
    let saves = it.kind != RecommendationKind::Saving
        || it.lever.is_diagnosis()
        || it.saving.expected != Fraction::ZERO
        || it.saving.high == Fraction::ZERO;
    saves && it.confidence.as_f64() >= MIN_CONFIDENCE
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
        evidence: it
            .evidence
            .iter()
            .map(|(name, it)| (name.as_str(), it.value, it.unit.as_str()))
            .collect(),
        gpus: &it.gpus,
        kind: it.kind.name(),
        effort: it.effort.name(),
        proof: it.proof().and_then(Proof::name),
        reversible: it.reversible,
        remediation: it.remediation.as_ref().map(|it| (it.kind.as_str(), &it.parameters)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use phasemeter_rules::recommendation::Effort;
    use phasemeter_savings::estimate::Estimate;
    use phasemeter_savings::recommendation::Target;

    use super::*;

    /// Guarantee: a diagnosis and a trial are given without a saving; one of which nothing is expected, and a guess,
    /// are not.
    #[test]
    fn diagnosis_and_trial_need_no_saving() {
        let of = |lever: &str, kind, expected: f64, high: f64, confidence: f64| {
            let [expected, high, confidence] =
                [expected, high, confidence].map(|it| Fraction::new(it).unwrap());
            is_supported(&Recommendation {
                code: "test".to_owned(),
                target: Target::Throughput,
                lever: lever.parse().unwrap(),
                title: String::new(),
                action: String::new(),
                rationale: String::new(),
                saving: Estimate { expected, high, ..Estimate::default() },
                confidence,
                evidence: BTreeMap::new(),
                gpus: Vec::new(),
                kind,
                effort: Effort::Low,
                reversible: true,
                remediation: None,
            })
        };
        let given = |lever, kind, high, confidence| of(lever, kind, high, high, confidence);
        let saving = RecommendationKind::Saving;
        assert!(given("batch", saving, 0.1, 0.5) && given("measure", saving, 0.0, 0.5));
        assert!(given("batch", saving, 0.0, 0.5), "a trial");
        assert!(!of("batch", saving, 0.0, 0.1, 0.5), "hardly anything");
        assert!(given("batch", RecommendationKind::Capacity, 0.0, 0.5));
        assert!(!given("measure", saving, 0.0, 0.19) && !given("batch", saving, 0.1, 0.19));
    }
}
