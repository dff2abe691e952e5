//! What a guest says, checked: every value, before it is believed.
//!
//! This room must not know how the guest was asked.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::money::Rate;
use phasemeter_meter::price::Plan;
use phasemeter_meter::units::Timestamp;
use phasemeter_meter::waste::WasteCategory;

use super::generated::exports::phasemeter::policy as wit;
use super::generated::phasemeter::policy::types;
use crate::contract::check::Check;
use crate::error::{MAX_GUEST_TEXT, PolicyError, sanitize};
use crate::manifest::Manifest;
use crate::quote::{Quote, QuoteRequest};
use crate::recommendation::{Recommendation, Saving, Target};
use crate::schema::Schema;
use crate::window::Window;

/// The most recommendations in one answer.
const MOST_RECOMMENDATIONS: usize = 64;
/// The most numbers that one recommendation rests on.
const MOST_EVIDENCE: usize = 32;
/// The largest settings schema, in bytes.
const LARGEST_SCHEMA: usize = 64 << 10;

pub(super) fn manifest(said: wit::policy::Manifest) -> Result<Manifest, PolicyError> {
    let mut check = Check::default();
    let schema = if said.settings_schema.len() > LARGEST_SCHEMA {
        check.wrong("manifest.settings-schema", format!("is larger than {LARGEST_SCHEMA} bytes"));
        Schema::default()
    } else {
        Schema::parse(&said.settings_schema).unwrap_or_else(|error| {
            check.wrong("manifest.settings-schema", sanitize(&error.to_string(), MAX_GUEST_TEXT));
            Schema::default()
        })
    };
    let manifest = Manifest {
        name: check.name("manifest.name", said.name, ""),
        version: check.line("manifest.version", said.version, 32),
        summary: check.line("manifest.summary", said.summary, 200),
        schema,
    };
    check.done(manifest)
}

pub(super) fn recommendations(
    said: Vec<wit::recommender::Recommendation>,
    window: &Window,
) -> Result<Vec<Recommendation>, PolicyError> {
    let mut check = Check::default();
    check.count("recommendations", said.len(), 0, MOST_RECOMMENDATIONS);
    let gpus: BTreeSet<_> = window.gpus.iter().map(|gpu| gpu.id.as_str()).collect();
    let checked = said
        .into_iter()
        .take(MOST_RECOMMENDATIONS)
        .enumerate()
        .filter_map(|(i, said)| {
            recommendation(&format!("recommendations[{i}]"), said, &gpus, &mut check)
        })
        .collect();
    check.done(checked)
}

/// `None` only where something was found wrong.
fn recommendation(
    at: &str,
    said: wit::recommender::Recommendation,
    gpus: &BTreeSet<&str>,
    check: &mut Check,
) -> Option<Recommendation> {
    check.count(&format!("{at}.gpus"), said.gpus.len(), 1, gpus.len());
    let mut named = BTreeSet::new();
    for gpu in said.gpus.iter().take(gpus.len()) {
        if !gpus.contains(gpu.as_str()) {
            let unknown = sanitize(gpu, 80);
            check.wrong(
                &format!("{at}.gpus"),
                format!("names '{unknown}', which is not in the window"),
            );
        } else if !named.insert(gpu.as_str()) {
            check.wrong(&format!("{at}.gpus"), format!("names '{gpu}' twice"));
        }
    }
    let at_lever = format!("{at}.lever");
    let lever = said.lever.parse();
    if lever.is_err() {
        let unknown = sanitize(&said.lever, 80);
        check.wrong(&at_lever, format!("is '{unknown}', which is none of the levers"));
    }
    Some(Recommendation {
        code: check.name(&format!("{at}.code"), said.code, "._"),
        target: said.target.into(),
        lever: lever.ok()?,
        title: check.line(&format!("{at}.title"), said.title, 120),
        action: check.prose(&format!("{at}.action"), said.action, 1_000),
        rationale: check.prose(&format!("{at}.rationale"), said.rationale, 2_000),
        saving: saving(at, said.saving, check),
        confidence: check.fraction(&format!("{at}.confidence"), said.confidence),
        evidence: evidence(at, said.evidence, check),
        gpus: said.gpus,
    })
}

fn saving(at: &str, said: wit::recommender::Saving, check: &mut Check) -> Saving {
    if said.low > said.expected || said.expected > said.high {
        check.wrong(&format!("{at}.saving"), "must rise: low ≤ expected ≤ high");
    }
    Saving {
        low: check.fraction(&format!("{at}.saving.low"), said.low),
        expected: check.fraction(&format!("{at}.saving.expected"), said.expected),
        high: check.fraction(&format!("{at}.saving.high"), said.high),
    }
}

fn evidence(at: &str, said: Vec<(String, f64)>, check: &mut Check) -> BTreeMap<String, f64> {
    let at = format!("{at}.evidence");
    check.count(&at, said.len(), 0, MOST_EVIDENCE);
    let mut evidence = BTreeMap::new();
    for (name, value) in said.into_iter().take(MOST_EVIDENCE) {
        let value = check.finite(&at, value);
        let name = check.line(&at, name, 64);
        if evidence.insert(name, value).is_some() {
            check.wrong(&at, "names one number twice");
        }
    }
    evidence
}

pub(super) fn quote(
    said: wit::pricer::Quote,
    request: &QuoteRequest,
) -> Result<Quote, PolicyError> {
    let mut check = Check::default();
    let rate = Rate::new(said.nano_usd_per_gpu_hour);
    let rate = check.some("quote.nano-usd-per-gpu-hour", rate, "is above $10,000");
    let day = said.day.parse().ok();
    let day = check.some("quote.day", day, "is no day, like 2026-07-20");
    let source = check.line("quote.source", said.source, 200);
    let until = said.valid_until.map(Timestamp::from_nanos);
    if until.is_some_and(|until| until.is_none_or(|until| until <= request.time)) {
        check.wrong("quote.valid-until", "is not after the time of the request, or beyond 2261");
    }
    let Some((rate, day)) = rate.zip(day) else { return Err(check.fault()) };
    let plan = said.plan.into();
    check.done(Quote { rate, plan, source, day, valid_until: until.flatten() })
}

impl From<wit::recommender::Target> for Target {
    fn from(target: wit::recommender::Target) -> Self {
        match target {
            wit::recommender::Target::Starvation => Self::Waste(WasteCategory::Starvation),
            wit::recommender::Target::Idle => Self::Waste(WasteCategory::Idle),
            wit::recommender::Target::Occupancy => Self::Waste(WasteCategory::Underload),
            wit::recommender::Target::Rate => Self::Rate,
            wit::recommender::Target::Throughput => Self::Throughput,
        }
    }
}

impl From<types::Plan> for Plan {
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
    use proptest::num::f64::ANY;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_saving_is_believed_only_if_it_rises_from_0_to_1(
            low in prop_oneof![ANY, 0.0..1.0], expected in prop_oneof![ANY, 0.0..1.0],
            high in prop_oneof![ANY, 0.0..1.0],
        ) {
            let mut check = Check::default();
            let said = wit::recommender::Saving { low, expected, high };
            let saving = saving("x", said, &mut check);
            let rises = 0.0 <= low && low <= expected && expected <= high && high <= 1.0;
            prop_assert_eq!(check.done(saving).is_ok(), rises);
        }

        #[test]
        fn a_quote_is_believed_only_if_it_is_a_price(nano_usd: u64, until: Option<u64>) {
            let said = wit::pricer::Quote {
                nano_usd_per_gpu_hour: nano_usd,
                plan: types::Plan::Spot,
                source: "a test".to_owned(),
                day: "2026-07-20".to_owned(),
                valid_until: until,
            };
            let request = QuoteRequest {
                model: String::new(),
                provider: None,
                region: None,
                instance_type: None,
                plan: None,
                time: Timestamp::default(),
                listed: None,
            };
            let lasts = until.is_none_or(|until| until > 0 && until < Timestamp::END);
            prop_assert_eq!(quote(said, &request).is_ok(), nano_usd <= Rate::MAX && lasts);
        }
    }
}
