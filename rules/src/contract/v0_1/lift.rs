//! Lifts what a guest returns to the plain types of this crate, and validates every value.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::PaymentPlan;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::waste::WasteCategory;
use phasemeter_terminal::escape::sanitize;

use super::generated::exports::phasemeter::policy as wit;
use super::generated::phasemeter::policy::types;
use crate::contract::validate::Validator;
use crate::error::{MAX_GUEST_TEXT, PolicyError};
use crate::manifest::Manifest;
use crate::quote::{Quote, QuoteRequest};
use crate::recommendation::{
    Effort, Evidence, Need, Recommendation, RecommendationKind, Remediation, Response, Saving,
    Target,
};
use crate::schema::Schema;
use crate::window::Window;

const MAX_RECOMMENDATIONS: usize = 64;
const MAX_NEEDS: usize = 64;
/// The most parameters of one remediation.
const MAX_PARAMETERS: usize = 16;
/// The most evidence of one recommendation.
const MAX_EVIDENCE: usize = 32;
/// The largest settings schema, in bytes.
const MAX_SCHEMA_BYTES: usize = 64 << 10;

pub(super) fn manifest(raw: wit::policy::Manifest) -> Result<Manifest, PolicyError> {
    let mut validator = Validator::default();
    let schema = if raw.settings_schema.len() > MAX_SCHEMA_BYTES {
        validator.reject(
            "manifest.settings-schema",
            format!("has {} bytes, expected at most {MAX_SCHEMA_BYTES}", raw.settings_schema.len()),
        );
        Schema::default()
    } else {
        Schema::parse(&raw.settings_schema).unwrap_or_else(|error| {
            validator
                .reject("manifest.settings-schema", sanitize(&error.to_string(), MAX_GUEST_TEXT));
            Schema::default()
        })
    };
    let manifest = Manifest {
        name: validator.name("manifest.name", raw.name, ""),
        version: validator.line("manifest.version", raw.version, 32),
        summary: validator.line("manifest.summary", raw.summary, 200),
        schema,
    };
    validator.finish(manifest)
}

/// The response, and a warning for each recommendation that was ignored.
pub(super) fn response(
    raw: wit::recommender::Response,
    window: &Window,
) -> Result<(Response, Vec<String>), PolicyError> {
    let mut validator = Validator::default();
    let gpus: BTreeSet<_> = window.gpus.iter().map(|gpu| gpu.id.as_str()).collect();
    validator.count("recommendations", raw.recommendations.len(), 0, MAX_RECOMMENDATIONS);
    let mut warnings = Vec::new();
    let recommendations = raw.recommendations.into_iter().take(MAX_RECOMMENDATIONS).enumerate();
    let recommendations = recommendations
        .filter_map(|(i, raw)| {
            let at = format!("recommendations[{i}]");
            let lifted = recommendation(&at, raw, &gpus, &mut validator);
            lifted.map_err(|warning| warnings.push(warning)).ok()
        })
        .collect();
    validator.count("needs", raw.needs.len(), 0, MAX_NEEDS);
    let needs = raw.needs.into_iter().take(MAX_NEEDS).enumerate();
    let needs =
        needs.map(|(i, raw)| need(&format!("needs[{i}]"), raw, &gpus, &mut validator)).collect();
    validator.finish((Response { recommendations, needs }, warnings))
}

/// # Errors
/// Returns a warning if the lever is unknown.
fn recommendation(
    at: &str,
    raw: wit::recommender::Recommendation,
    gpus: &BTreeSet<&str>,
    validator: &mut Validator,
) -> Result<Recommendation, String> {
    check_gpus(at, &raw.gpus, gpus, validator);
    let lifted = Recommendation {
        code: validator.name(&format!("{at}.code"), raw.code, "._"),
        target: raw.target.into(),
        lever: raw.lever.parse().map_err(|_| {
            let unknown = sanitize(&raw.lever, 80);
            format!("{at} ignored: its lever '{unknown}' is not one of the known levers")
        })?,
        title: validator.line(&format!("{at}.title"), raw.title, 120),
        action: validator.paragraph(&format!("{at}.action"), raw.action, 1_000),
        rationale: validator.paragraph(&format!("{at}.rationale"), raw.rationale, 2_000),
        saving: saving(at, raw.saving, validator),
        confidence: validator.fraction(&format!("{at}.confidence"), raw.confidence),
        evidence: evidence(at, raw.evidence, validator),
        gpus: raw.gpus,
        kind: raw.kind.into(),
        effort: raw.effort.into(),
        reversible: raw.reversible,
        remediation: raw.remediation.map(|raw| remediation(at, raw, validator)),
    };
    Ok(lifted)
}

fn need(
    at: &str,
    raw: wit::recommender::Need,
    gpus: &BTreeSet<&str>,
    validator: &mut Validator,
) -> Need {
    check_gpus(at, &raw.gpus, gpus, validator);
    Need {
        missing: validator.name(&format!("{at}.missing"), raw.missing, "._"),
        reason: validator.line(&format!("{at}.reason"), raw.reason, 300),
        gpus: raw.gpus,
    }
}

/// Each GPU must be in the window, and listed once.
fn check_gpus(at: &str, listed: &[String], gpus: &BTreeSet<&str>, validator: &mut Validator) {
    let at = format!("{at}.gpus");
    validator.count(&at, listed.len(), 1, gpus.len());
    let mut seen = BTreeSet::new();
    for gpu in listed.iter().take(gpus.len()) {
        if !gpus.contains(gpu.as_str()) {
            let unknown = sanitize(gpu, 80);
            validator.reject(&at, format!("contains '{unknown}', which is not in the window"));
        } else if !seen.insert(gpu.as_str()) {
            validator.reject(&at, format!("contains '{gpu}' twice"));
        }
    }
}

fn remediation(
    at: &str,
    raw: wit::recommender::Remediation,
    validator: &mut Validator,
) -> Remediation {
    let at = format!("{at}.remediation");
    let kind = validator.name(&format!("{at}.kind"), raw.kind, "._");
    validator.count(&at, raw.parameters.len(), 0, MAX_PARAMETERS);
    let mut parameters = BTreeMap::new();
    for (name, value) in raw.parameters.into_iter().take(MAX_PARAMETERS) {
        let (name, value) = (validator.line(&at, name, 64), validator.line(&at, value, 256));
        if parameters.insert(name, value).is_some() {
            validator.reject(&at, "contains a name twice");
        }
    }
    Remediation { kind, parameters }
}

fn saving(at: &str, raw: wit::recommender::Saving, validator: &mut Validator) -> Saving {
    if raw.low > raw.expected || raw.expected > raw.high {
        validator
            .reject(&format!("{at}.saving"), "is out of order, expected low ≤ expected ≤ high");
    }
    Saving {
        low: validator.fraction(&format!("{at}.saving.low"), raw.low),
        expected: validator.fraction(&format!("{at}.saving.expected"), raw.expected),
        high: validator.fraction(&format!("{at}.saving.high"), raw.high),
    }
}

fn evidence(
    at: &str,
    raw: Vec<wit::recommender::Evidence>,
    validator: &mut Validator,
) -> BTreeMap<String, Evidence> {
    let at = format!("{at}.evidence");
    validator.count(&at, raw.len(), 0, MAX_EVIDENCE);
    let mut evidence = BTreeMap::new();
    for raw in raw.into_iter().take(MAX_EVIDENCE) {
        let value = validator.finite(&at, raw.value);
        let (name, unit) = (validator.line(&at, raw.name, 64), validator.unit(&at, raw.unit));
        if evidence.insert(name, Evidence { value, unit }).is_some() {
            validator.reject(&at, "contains a name twice");
        }
    }
    evidence
}

pub(super) fn quote(raw: wit::pricer::Quote, request: &QuoteRequest) -> Result<Quote, PolicyError> {
    let mut validator = Validator::default();
    let rate = Rate::new(raw.nano_usd_per_gpu_hour);
    let rate =
        validator.require("quote.nano-usd-per-gpu-hour", rate, "is above the maximum of $10,000");
    let as_of = raw.as_of.parse().ok();
    let as_of = validator.require("quote.as-of", as_of, "is invalid, expected YYYY-MM-DD");
    let source = validator.line("quote.source", raw.source, 200);
    let valid_from = raw.valid_from.map(Timestamp::from_nanos);
    if valid_from == Some(None) {
        validator.reject("quote.valid-from", "is out of range, expected before 2262");
    }
    let valid_from = valid_from.flatten();
    let until = raw.valid_until.map(Timestamp::from_nanos);
    let start = valid_from.unwrap_or_default().max(request.time);
    if until.is_some_and(|until| until.is_none_or(|until| until <= start)) {
        validator.reject(
            "quote.valid-until",
            "is out of range, expected after valid-from and the request's time, and before 2262",
        );
    }
    let gpus = raw.gpus.map(NonZeroU32::new);
    if gpus == Some(None) {
        validator.reject("quote.gpus", "is 0, expected at least 1");
    }
    let Some((rate, as_of)) = rate.zip(as_of) else { return Err(validator.into_error()) };
    let (plan, valid_until, gpus) = (raw.plan.into(), until.flatten(), gpus.flatten());
    validator.finish(Quote { rate, plan, source, as_of, valid_from, valid_until, gpus })
}

impl From<wit::recommender::Target> for Target {
    fn from(target: wit::recommender::Target) -> Self {
        match target {
            wit::recommender::Target::Starvation => Self::Waste(WasteCategory::Starvation),
            wit::recommender::Target::Idle => Self::Waste(WasteCategory::Idle),
            wit::recommender::Target::Underload => Self::Waste(WasteCategory::Underload),
            wit::recommender::Target::Rate => Self::Rate,
            wit::recommender::Target::Throughput => Self::Throughput,
        }
    }
}

impl From<wit::recommender::RecommendationKind> for RecommendationKind {
    fn from(kind: wit::recommender::RecommendationKind) -> Self {
        match kind {
            wit::recommender::RecommendationKind::Saving => Self::Saving,
            wit::recommender::RecommendationKind::Risk => Self::Risk,
            wit::recommender::RecommendationKind::Capacity => Self::Capacity,
        }
    }
}

impl From<wit::recommender::Effort> for Effort {
    fn from(effort: wit::recommender::Effort) -> Self {
        match effort {
            wit::recommender::Effort::Low => Self::Low,
            wit::recommender::Effort::Medium => Self::Medium,
            wit::recommender::Effort::High => Self::High,
        }
    }
}

impl From<types::Plan> for PaymentPlan {
    fn from(plan: types::Plan) -> Self {
        match plan {
            types::Plan::OnDemand => Self::OnDemand,
            types::Plan::Spot => Self::Spot,
            types::Plan::ReservedOneYear => Self::Reserved1y,
            types::Plan::ReservedThreeYears => Self::Reserved3y,
            types::Plan::Owned => Self::Owned,
        }
    }
}

#[cfg(test)]
mod tests {
    use phasemeter_meter::units::Nanos;
    use phasemeter_savings::fraction::Fraction;
    use proptest::num::f64::ANY;
    use proptest::prelude::*;

    use super::*;
    use crate::window::Gpu;

    proptest! {
        #[test]
        fn saving_is_valid_only_if_ascending_fractions(
            low in prop_oneof![ANY, 0.0..1.0], expected in prop_oneof![ANY, 0.0..1.0],
            high in prop_oneof![ANY, 0.0..1.0],
        ) {
            let mut validator = Validator::default();
            let raw = wit::recommender::Saving { low, expected, high };
            let saving = saving("x", raw, &mut validator);
            let ascending = 0.0 <= low && low <= expected && expected <= high && high <= 1.0;
            prop_assert_eq!(validator.finish(saving).is_ok(), ascending);
        }

        #[test]
        fn quote_is_valid_only_within_its_limits(
            nano_usd: u64,
            from: Option<u64>,
            until: Option<u64>,
            gpus: Option<u32>,
        ) {
            let raw = wit::pricer::Quote {
                nano_usd_per_gpu_hour: nano_usd,
                valid_from: from,
                valid_until: until,
                gpus,
                ..raw_quote()
            };
            let is_instant = |instant: u64| instant < Timestamp::END;
            let in_range = from.is_none_or(is_instant)
                && until.is_none_or(|until| until > from.unwrap_or(0) && is_instant(until))
                && gpus != Some(0);
            let valid = nano_usd <= Rate::MAX && in_range;
            prop_assert_eq!(quote(raw, &request(Timestamp::default())).is_ok(), valid);
        }
    }

    fn raw_quote() -> wit::pricer::Quote {
        wit::pricer::Quote {
            nano_usd_per_gpu_hour: 1,
            plan: types::Plan::Owned,
            source: "a test".to_owned(),
            as_of: "2026-07-20".to_owned(),
            valid_from: None,
            valid_until: None,
            gpus: None,
        }
    }

    fn request(time: Timestamp) -> QuoteRequest {
        QuoteRequest {
            model: String::new(),
            provider: None,
            region: None,
            instance_type: None,
            plan: None,
            time,
            gpus: NonZeroU32::MIN,
            priced: 0,
            listed: None,
            attributes: BTreeMap::new(),
            is_offer: false,
        }
    }

    fn raw_recommendation() -> wit::recommender::Recommendation {
        wit::recommender::Recommendation {
            code: "idle.share".to_owned(),
            target: wit::recommender::Target::Idle,
            lever: "bin_pack".to_owned(),
            title: "Share it".to_owned(),
            action: "Put two jobs\non it.".to_owned(),
            rationale: "It is idle.".to_owned(),
            saving: wit::recommender::Saving { low: 0.5, expected: 0.5, high: 0.5 },
            confidence: 0.75,
            evidence: vec![raw_evidence("idle.time", "s")],
            gpus: vec!["GPU-0".to_owned()],
            kind: wit::recommender::RecommendationKind::Capacity,
            effort: wit::recommender::Effort::Medium,
            reversible: true,
            remediation: Some(raw_remediation(&[("replicas", "2")])),
        }
    }

    fn raw_evidence(name: &str, unit: &str) -> wit::recommender::Evidence {
        let (name, unit) = (name.to_owned(), unit.to_owned());
        wit::recommender::Evidence { name, value: 1_200.0, unit }
    }

    fn raw_remediation(parameters: &[(&str, &str)]) -> wit::recommender::Remediation {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        wit::recommender::Remediation {
            kind: "k8s.scale".to_owned(),
            parameters: parameters.iter().map(owned).collect(),
        }
    }

    fn raw_need() -> wit::recommender::Need {
        wit::recommender::Need {
            missing: "power.draw".to_owned(),
            reason: "Power tells a hung job from a busy one".to_owned(),
            gpus: vec!["GPU-1".to_owned()],
        }
    }

    fn lift(
        change: impl FnOnce(&mut wit::recommender::Recommendation),
    ) -> Result<Result<Recommendation, String>, PolicyError> {
        let mut raw = raw_recommendation();
        change(&mut raw);
        let mut validator = Validator::default();
        let gpus = BTreeSet::from(["GPU-0", "GPU-1"]);
        let lifted = recommendation("x", raw, &gpus, &mut validator);
        validator.finish(lifted)
    }

    #[test]
    fn recommendation_is_lifted_unchanged() {
        let half = Fraction::new(0.5).unwrap();
        let expected = Recommendation {
            code: "idle.share".to_owned(),
            target: Target::Waste(WasteCategory::Idle),
            lever: "bin_pack".parse().unwrap(),
            title: "Share it".to_owned(),
            action: "Put two jobs\non it.".to_owned(),
            rationale: "It is idle.".to_owned(),
            saving: Saving::of(half),
            confidence: Fraction::new(0.75).unwrap(),
            evidence: BTreeMap::from([(
                "idle.time".to_owned(),
                Evidence { value: 1_200.0, unit: "s".to_owned() },
            )]),
            gpus: vec!["GPU-0".to_owned()],
            kind: RecommendationKind::Capacity,
            effort: Effort::Medium,
            reversible: true,
            remediation: Some(Remediation {
                kind: "k8s.scale".to_owned(),
                parameters: BTreeMap::from([("replicas".to_owned(), "2".to_owned())]),
            }),
        };
        assert_eq!(lift(|_| {}).unwrap(), Ok(expected));
    }

    #[test]
    fn recommendation_lists_each_gpu_of_the_window_at_most_once() {
        for (gpus, valid) in [
            (vec!["GPU-1"], true),
            (vec!["GPU-1", "GPU-0"], true),
            (vec![], false),
            (vec!["GPU-2"], false),
            (vec!["GPU-0", "GPU-0"], false),
            (vec!["GPU-0", "GPU-1", "GPU-0"], false),
        ] {
            let gpus: Vec<_> = gpus.into_iter().map(str::to_owned).collect();
            assert_eq!(lift(|raw| raw.gpus.clone_from(&gpus)).is_ok(), valid, "{gpus:?}");
        }
    }

    #[test]
    fn unknown_lever_voids_only_its_recommendation() {
        let ignored = lift(|raw| raw.lever = "magic".to_owned()).unwrap().unwrap_err();
        assert!(ignored.contains("x ignored: its lever 'magic'"), "{ignored}");
        let window = Window { gpus: vec![gpu("GPU-0")], ..empty_window() };
        let magic =
            wit::recommender::Recommendation { lever: "magic".to_owned(), ..raw_recommendation() };
        let raw = raw_response(vec![magic, raw_recommendation()], Vec::new());
        let (response, warnings) = response(raw, &window).unwrap();
        assert_eq!((response.recommendations.len(), warnings.len()), (1, 1));
    }

    #[test]
    fn remediation_is_bounded_and_has_distinct_parameters() {
        let with = |parameters: &[(&str, &str)]| {
            lift(|raw| raw.remediation = Some(raw_remediation(parameters)))
        };
        let names: Vec<_> = (0..17).map(|i| format!("n{i}")).collect();
        let many: Vec<_> = names.iter().map(|name| (name.as_str(), "1")).collect();
        assert!(with(&many[..16]).is_ok());
        assert!(with(&many).is_err());
        assert!(with(&[("a", "1"), ("a", "2")]).is_err());
        assert!(with(&[("a", "\u{1b}[1m")]).is_err());
        assert!(with(&[("", "1")]).is_err());
    }

    #[test]
    fn need_names_what_is_missing_for_which_gpus() {
        let lift = |change: fn(&mut wit::recommender::Need)| {
            let mut raw = raw_need();
            change(&mut raw);
            let mut validator = Validator::default();
            let need = need("x", raw, &BTreeSet::from(["GPU-0", "GPU-1"]), &mut validator);
            validator.finish(need)
        };
        assert_eq!(lift(|_| {}).unwrap().missing, "power.draw");
        assert!(lift(|raw| raw.missing = "Power draw".to_owned()).is_err());
        assert!(lift(|raw| raw.reason = "a\nb".to_owned()).is_err());
        assert!(lift(|raw| raw.gpus.clear()).is_err());
        assert!(lift(|raw| raw.gpus = vec!["GPU-2".to_owned()]).is_err());
    }

    #[test]
    fn evidence_is_bounded_and_has_distinct_names() {
        let numbered = |count: usize| {
            (0..count).map(|i| raw_evidence(&format!("n{i}"), "1")).collect::<Vec<_>>()
        };
        let accepted = lift(|raw| raw.evidence = numbered(32)).unwrap().unwrap();
        assert_eq!(accepted.evidence.len(), 32);
        assert!(lift(|raw| raw.evidence = numbered(33)).is_err());
        assert!(lift(|raw| raw.evidence = [numbered(1), numbered(1)].concat()).is_err());
    }

    #[test]
    fn evidence_has_a_valid_unit() {
        for unit in ["s", "1", "%", "{GPU}", "{USD}/h", "By/s", "m/s2", "10*6", "[in_i]"] {
            assert!(lift(|raw| raw.evidence = vec![raw_evidence("n", unit)]).is_ok(), "{unit}");
        }
        let long = "s".repeat(33);
        for unit in ["", " ", "°C", "per hour", "s\n", "$", "<b>", "{GPU", "}s{", long.as_str()] {
            assert!(lift(|raw| raw.evidence = vec![raw_evidence("n", unit)]).is_err(), "{unit}");
        }
    }

    fn empty_window() -> Window {
        Window {
            start: Timestamp::EPOCH,
            end: Timestamp::EPOCH,
            is_final: true,
            experiment_id: "test".to_owned(),
            trace_id: "0".repeat(32),
            attributes: BTreeMap::new(),
            utc_offset: None,
            step: Nanos::SECOND,
            gpus: Vec::new(),
            metrics: BTreeMap::new(),
            offers: Vec::new(),
            previous: Vec::new(),
            load: Vec::new(),
        }
    }

    fn gpu(id: &str) -> Gpu {
        Gpu { id: id.to_owned(), ..Gpu::default() }
    }

    fn raw_response(
        recommendations: Vec<wit::recommender::Recommendation>,
        needs: Vec<wit::recommender::Need>,
    ) -> wit::recommender::Response {
        wit::recommender::Response { recommendations, needs }
    }

    #[test]
    fn response_is_bounded() {
        let respond = |recommendations: usize, needs: usize| {
            let raw =
                raw_response(vec![raw_recommendation(); recommendations], vec![raw_need(); needs]);
            response(raw, &empty_window())
        };
        assert_eq!(respond(0, 0).unwrap(), (Response::default(), Vec::new()));
        // Without GPUs in the window, everything is rejected.
        let error = respond(1, 0).unwrap_err();
        assert!(error.to_string().contains("recommendations[0].gpus"), "{error}");
        let error = respond(0, 1).unwrap_err();
        assert!(error.to_string().contains("needs[0].gpus"), "{error}");
        let error = respond(65, 0).unwrap_err();
        assert!(error.to_string().contains("65 items, expected 0 to 64"), "{error}");
        let error = respond(0, 65).unwrap_err();
        assert!(error.to_string().contains("needs has 65 items, expected 0 to 64"), "{error}");
    }

    #[test]
    fn settings_schema_is_bounded() {
        let lift = |bytes: usize| {
            manifest(wit::policy::Manifest {
                name: "test".to_owned(),
                version: "1".to_owned(),
                summary: "A test".to_owned(),
                settings_schema: " ".repeat(bytes),
            })
        };
        let lifted = lift(65_536).unwrap();
        let text = (lifted.name.as_str(), lifted.version.as_str(), lifted.summary.as_str());
        assert_eq!(text, ("test", "1", "A test"));
        assert!(lift(65_537).is_err());
    }

    #[test]
    fn quote_expires_after_the_time_of_its_request() {
        let until = |until: u64| {
            let raw = wit::pricer::Quote { valid_until: Some(until), ..raw_quote() };
            quote(raw, &request(Timestamp::from_nanos(1_000).unwrap()))
        };
        assert!(until(999).is_err());
        assert!(until(1_000).is_err());
        let quote = until(1_001).unwrap();
        assert_eq!(
            (quote.plan, quote.valid_until),
            (PaymentPlan::Owned, Timestamp::from_nanos(1_001))
        );
    }
}
