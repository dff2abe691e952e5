//! What policies say, as events in the trace of the experiment: advice, and why there is none.
//!
//! Advice is told when it is new, and again when what it promises has moved by a point; a fault
//! when it is new. This room must not know which of it counts.

use std::collections::BTreeMap;

use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_rules::fault::Fault;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation::Recommendation;

use super::events::{Event, Severity};
use super::values::{number, text, texts};
use crate::advice::Verdicts;

/// Advice that moved by less than this, of the bill of its GPUs, is no news.
const MOVED: f64 = 0.01;

/// What was told of the last verdicts: nothing of it is told twice.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// What each piece of advice promised.
    advice: BTreeMap<(String, String, Vec<String>), f64>,
    /// The kind of fault of each policy or file.
    faults: BTreeMap<String, &'static str>,
}

impl Told {
    /// The events of these verdicts that are news. `hw_id`: what the GPU of this name is called on
    /// the wire.
    pub(super) fn news(
        &mut self,
        verdicts: &Verdicts,
        hw_id: impl Fn(&str) -> Option<String>,
    ) -> Vec<Event> {
        let before = std::mem::take(self);
        let mut news = Vec::new();
        for (policy, advice) in verdicts.recommendations() {
            let key = (policy.manifest().name.clone(), advice.code.clone(), advice.gpus.clone());
            let promised = advice.saving.expected.as_f64();
            let known = before.advice.get(&key);
            if known.is_none_or(|known| (known - promised).abs() >= MOVED) {
                news.push(recommendation(policy, advice, &hw_id));
                self.advice.insert(key, promised);
            } else if let Some(known) = known {
                // What creeps is told once it has moved far enough from what was told.
                self.advice.insert(key, *known);
            }
        }
        for (name, fault) in verdicts.faults() {
            if before.faults.get(name) != Some(&fault.kind()) {
                news.push(refusal(name, fault));
            }
            self.faults.insert(name.to_owned(), fault.kind());
        }
        news
    }
}

fn recommendation(
    policy: &Policy,
    advice: &Recommendation,
    hw_id: impl Fn(&str) -> Option<String>,
) -> Event {
    let saving = advice.saving.map(Fraction::as_f64);
    let named = |name: &str| format!("phasemeter.recommendation.{name}");
    let evidence = advice.evidence.iter();
    let evidence = evidence.map(|(name, value)| number(named(&format!("evidence.{name}")), *value));
    let attributes = [
        text("phasemeter.policy.name", &policy.manifest().name),
        text("phasemeter.policy.version", &policy.manifest().version),
        text(&named("code"), &advice.code),
        text(&named("pool"), advice.target.name()),
        text(&named("lever"), advice.lever.to_string()),
        text(&named("action"), &advice.action),
        text(&named("rationale"), &advice.rationale),
        number(named("confidence"), advice.confidence.as_f64()),
        number(named("saving.low"), saving.low),
        number(named("saving.expected"), saving.expected),
        number(named("saving.high"), saving.high),
        texts("hw.id", advice.gpus.iter().filter_map(|gpu| hw_id(gpu))),
    ];
    Event {
        name: "phasemeter.recommendation",
        severity: Severity::Info,
        body: advice.title.clone(),
        attributes: attributes.into_iter().chain(evidence).collect(),
    }
}

fn refusal(name: &str, fault: &Fault) -> Event {
    Event {
        name: "phasemeter.policy.fault",
        severity: Severity::Warn,
        body: format!("{name}: {fault}"),
        attributes: vec![text("phasemeter.policy.name", name), text("error.type", fault.kind())],
    }
}
