//! Results of policies as events in the experiment's trace, and as a metric of those that stand.
//!
//! A recommendation is exported if it is new, and again once its expected saving has moved by a
//! point; an error if it is new.

use std::collections::BTreeMap;

use phasemeter_meter::reading::GpuIdentity;
use phasemeter_savings::estimate::Estimate;

use super::batch::Batch;
use super::events::{Event, Severity};
use super::instruments::RECOMMENDATION;
use super::values::{Start, flag, integer, number, text, texts};
use crate::experiment::Attributes;
use crate::names::{attribute, event};

/// The `hw.id` of each GPU of a recommendation. A registered `hw.id` is a string, so a list needs a
/// name of its own.
const GPU_IDS: &str = attribute::GPU_IDS;

/// Minimum change of the expected saving, as a fraction of the bill, for a recommendation to be
/// exported again.
const MOVED: f64 = 0.01;

/// The number of recommendations with a series.
const MAX_ACTIVE: usize = 256;

/// A recommendation to export.
#[derive(Clone, Debug)]
pub struct RecommendationEvent<'a> {
    /// Name of the policy.
    pub policy_name: &'a str,
    /// Version of the policy.
    pub policy_version: &'a str,
    /// Stable code of the recommendation.
    pub code: &'a str,
    /// The waste category or axis it applies to.
    pub target: &'a str,
    /// The lever.
    pub lever: String,
    /// Title, a few words.
    pub title: &'a str,
    /// The action to take.
    pub action: &'a str,
    /// The reason.
    pub rationale: &'a str,
    /// Fractions of the bill of its GPUs, 0 to 1.
    pub saving: Estimate<f64>,
    /// Confidence, 0 to 1.
    pub confidence: f64,
    /// Names, values and units of the numbers it is based on.
    pub evidence: Vec<(&'a str, f64, &'a str)>,
    /// Names of its GPUs.
    pub gpus: &'a [String],
    /// `saving`, `risk` or `capacity`.
    pub kind: &'a str,
    /// `low`, `medium` or `high`.
    pub effort: &'a str,
    /// `replay` or `trial`; `None` for a risk and a diagnosis.
    pub proof: Option<&'a str>,
    /// Whether it can be undone at once.
    pub reversible: bool,
    /// Kind and parameters of the action for automation.
    pub remediation: Option<(&'a str, &'a BTreeMap<String, String>)>,
}

/// Recommendations by code and target, with whether they stand now: a series each, of the workload's resource.
#[derive(Debug, Default)]
pub(super) struct ActiveRecommendations(BTreeMap<(String, String), bool>);

impl ActiveRecommendations {
    /// Sets those that stand. Of others, the series go on with 0.
    pub(super) fn set(&mut self, recommendations: &[RecommendationEvent<'_>]) {
        self.0.values_mut().for_each(|stands| *stands = false);
        for it in recommendations {
            let key = (it.code.to_owned(), it.target.to_owned());
            if self.0.len() >= MAX_ACTIVE && !self.0.contains_key(&key) {
                // Policies may choose codes as they like.
                self.0.retain(|_, stands| *stands);
                if self.0.len() >= MAX_ACTIVE {
                    continue;
                }
            }
            self.0.insert(key, true);
        }
    }

    /// Adds the points of a round.
    pub(super) fn add_points(&self, batch: &mut Batch) {
        for ((code, target), stands) in &self.0 {
            let attributes = vec![text(&named("code"), code), text(&named("target"), target)];
            let point = integer(Start::NONE, attributes, u64::from(*stands));
            batch.add_workload(&RECOMMENDATION, point);
        }
    }
}

/// An error of a policy, or of its file.
#[derive(Clone, Debug)]
pub struct PolicyErrorEvent<'a> {
    /// Name of the policy, else of its file.
    pub name: &'a str,
    /// The `error.type`.
    pub kind: &'static str,
    /// The error message.
    pub message: String,
}

/// The recommendations and errors exported last, so that none is exported twice.
#[derive(Debug, Default)]
pub(super) struct ReportedRecommendations {
    /// Expected saving per policy, code and GPUs.
    expected: BTreeMap<(String, String, Vec<String>), f64>,
    /// Kind of error per policy or file.
    errors: BTreeMap<String, &'static str>,
}

impl ReportedRecommendations {
    /// Events for results that are new. `hw_id` maps a GPU's name to its wire ID, `place` the names of GPUs
    /// to the attributes of the place that they share.
    pub(super) fn new_events(
        &mut self,
        recommendations: &[RecommendationEvent<'_>],
        errors: &[PolicyErrorEvent<'_>],
        hw_id: impl Fn(&str) -> Option<String>,
        place: impl Fn(&[String]) -> Attributes,
    ) -> Vec<Event> {
        let before = std::mem::take(self);
        let mut events = Vec::new();
        for it in recommendations {
            let key = (it.policy_name.to_owned(), it.code.to_owned(), it.gpus.to_vec());
            let expected = it.saving.expected;
            match before.expected.get(&key) {
                // A slow drift is exported once it is far enough from the exported value.
                Some(known) if (known - expected).abs() < MOVED => {
                    self.expected.insert(key, *known);
                }
                _ => {
                    events.push(recommendation_event(it, &hw_id, place(it.gpus)));
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

/// The name of an attribute of a recommendation.
fn named(name: &str) -> String {
    format!("phasemeter.recommendation.{name}")
}

fn recommendation_event(
    it: &RecommendationEvent<'_>,
    hw_id: impl Fn(&str) -> Option<String>,
    place: Attributes,
) -> Event {
    let evidence = it.evidence.iter();
    let evidence = evidence.flat_map(|(name, value, unit)| {
        let named = |part: &str| named(&format!("evidence.{name}.{part}"));
        [number(named("value"), *value), text(&named("unit"), *unit)]
    });
    let remediation = it.remediation.iter().flat_map(|(kind, parameters)| {
        let parameters = parameters.iter();
        let parameters = parameters.map(|(name, value)| {
            text(&named(&format!("remediation.parameter.{name}")), value.as_str())
        });
        std::iter::once(text(&named("remediation.kind"), *kind)).chain(parameters)
    });
    let proof = it.proof.map(|proof| text(&named("proof"), proof));
    let place = place.into_iter().map(|(name, value)| text(&name, value));
    let attributes = [
        text(attribute::POLICY_NAME, it.policy_name),
        text(attribute::POLICY_VERSION, it.policy_version),
        text(&named("code"), it.code),
        text(&named("kind"), it.kind),
        text(&named("effort"), it.effort),
        flag(named("reversible"), it.reversible),
        text(&named("target"), it.target),
        text(&named("lever"), it.lever.as_str()),
        text(&named("action"), it.action),
        text(&named("rationale"), it.rationale),
        number(named("confidence"), it.confidence),
        number(named("saving.low"), it.saving.low),
        number(named("saving.expected"), it.saving.expected),
        number(named("saving.high"), it.saving.high),
        texts(GPU_IDS, it.gpus.iter().filter_map(|gpu| hw_id(gpu))),
    ];
    Event {
        name: event::RECOMMENDATION_MADE,
        severity: Severity::Info,
        body: it.title.to_owned(),
        attributes: attributes
            .into_iter()
            .chain(proof)
            .chain(place)
            .chain(evidence)
            .chain(remediation)
            .collect(),
    }
}

/// Whether an attribute of a GPU is that of a place on which automation can act.
fn is_place(name: &str) -> bool {
    // Labels of pods are evidence only.
    name == "host.name" || (name.starts_with("k8s.") && !name.starts_with("k8s.pod.label."))
}

/// The attributes of the place that all these GPUs share. `host`: the machine of a GPU that names none.
pub(super) fn shared_place<'a>(
    mut gpus: impl Iterator<Item = &'a GpuIdentity>,
    host: &Attributes,
) -> Attributes {
    let place = |gpu: &GpuIdentity| {
        // Those of the GPU replace those of the host.
        let all = host.iter().chain(&gpu.attributes).filter(|(name, _)| is_place(name));
        all.map(|(name, value)| (name.clone(), value.clone())).collect::<Attributes>()
    };
    let mut shared = gpus.next().map(place).unwrap_or_default();
    for gpu in gpus {
        let other = place(gpu);
        shared.retain(|name, value| other.get(name) == Some(value));
    }
    shared
}

fn error_event(error: &PolicyErrorEvent<'_>) -> Event {
    Event {
        name: event::POLICY_ERROR,
        severity: Severity::Warn,
        body: format!("{}: {}", error.name, error.message),
        attributes: vec![text(attribute::POLICY_NAME, error.name), text("error.type", error.kind)],
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
    use opentelemetry_proto::tonic::metrics::v1::number_data_point;

    use super::*;

    fn attributes(pairs: &[(&str, &str)]) -> Attributes {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    fn recommendation<'a>(code: &'a str, target: &'a str) -> RecommendationEvent<'a> {
        RecommendationEvent {
            policy_name: "policy",
            policy_version: "1.0.0",
            code,
            target,
            lever: String::new(),
            title: "",
            action: "",
            rationale: "",
            saving: Estimate { low: 0.0, expected: 0.0, high: 0.0 },
            confidence: 1.0,
            evidence: Vec::new(),
            gpus: &[],
            kind: "saving",
            effort: "low",
            proof: None,
            reversible: true,
            remediation: None,
        }
    }

    /// The points of a round: code, target, value.
    fn points(active: &ActiveRecommendations) -> Vec<(String, String, i64)> {
        let mut batch = Batch::default();
        active.add_points(&mut batch);
        let points = batch.workload_points().map(|point| {
            let [code, target] = &point.attributes[..] else { panic!("{point:?}") };
            assert_eq!(code.key, "phasemeter.recommendation.code");
            assert_eq!(target.key, "phasemeter.recommendation.target");
            let text = |it: &KeyValue| match &it.value.as_ref().unwrap().value {
                Some(any_value::Value::StringValue(text)) => text.clone(),
                other => panic!("{other:?}"),
            };
            let Some(number_data_point::Value::AsInt(value)) = point.value else {
                panic!("{point:?}")
            };
            (text(code), text(target), value)
        });
        points.collect()
    }

    #[test]
    fn recommendation_is_1_while_it_stands_and_0_from_then_on() {
        let mut active = ActiveRecommendations::default();
        assert_eq!(points(&active), []);
        let of = |code: &str, target: &str, value| (code.to_owned(), target.to_owned(), value);
        // The same of several policies or GPUs is one.
        let all = ["idle", "underload", "idle"].map(|target| recommendation("end", target));
        active.set(&all);
        assert_eq!(points(&active), [of("end", "idle", 1), of("end", "underload", 1)]);
        active.set(&all[1..2]);
        assert_eq!(points(&active), [of("end", "idle", 0), of("end", "underload", 1)]);
        active.set(&all);
        assert_eq!(points(&active), [of("end", "idle", 1), of("end", "underload", 1)]);
    }

    #[test]
    fn number_of_series_is_limited_and_those_that_stand_are_kept() {
        let mut active = ActiveRecommendations::default();
        for round in 0..MAX_ACTIVE {
            let code = format!("code-{round:04}");
            active.set(&[recommendation("stays", "idle"), recommendation(&code, "idle")]);
            assert!(points(&active).len() <= MAX_ACTIVE);
            assert!(points(&active).contains(&("stays".to_owned(), "idle".to_owned(), 1)));
            assert!(points(&active).contains(&(code, "idle".to_owned(), 1)));
        }
        let codes: Vec<_> = (0..=MAX_ACTIVE).map(|code| code.to_string()).collect();
        let all: Vec<_> = codes.iter().map(|code| recommendation(code, "idle")).collect();
        active.set(&all);
        assert_eq!(points(&active).len(), MAX_ACTIVE);
    }

    #[test]
    fn place_is_what_all_gpus_share() {
        let gpu = |pairs| GpuIdentity { attributes: attributes(pairs), ..GpuIdentity::default() };
        let pod = ("k8s.namespace.name", "vision");
        let gpus = [
            gpu(&[("host.name", "node-1"), pod, ("k8s.pod.name", "a"), ("k8s.pod.label.app", "x")]),
            gpu(&[("host.name", "node-1"), pod, ("k8s.pod.name", "b"), ("k8s.pod.label.app", "x")]),
            gpu(&[pod]),
        ];
        let none = Attributes::new();
        let shared = |count, host: &Attributes| shared_place(gpus.iter().take(count), host);
        assert_eq!(shared(2, &none), attributes(&[("host.name", "node-1"), pod]));
        assert_eq!(shared(3, &none), attributes(&[pod]));
        assert_eq!(shared(0, &none), none);
        let host = attributes(&[("host.name", "node-1"), ("host.id", "4711")]);
        assert_eq!(shared(3, &host), attributes(&[("host.name", "node-1"), pod]));
        let other = attributes(&[("host.name", "node-2")]);
        assert_eq!(shared(3, &other), attributes(&[pod]));
    }
}
