//! One recommendation, as the report has it.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::savings::waterfall::PricedGpu;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation;
use serde::Serialize;

use super::Range;
use crate::report::Usd;

/// One piece of advice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// Who gave it.
    pub policy: String,
    /// What that policy calls it.
    pub code: String,
    /// The pool of waste that it acts on, or the axis: `rate`, `throughput`.
    pub pool: &'static str,
    /// By what means.
    pub lever: String,
    /// In a few words.
    pub title: String,
    /// What to do.
    pub action: String,
    /// Why that helps here.
    pub rationale: String,
    /// How sure the policy is: 0–1.
    pub confidence: f64,
    /// The GPUs it is for, by their names in this report.
    pub gpus: Vec<String>,
    /// The numbers it rests on.
    pub evidence: BTreeMap<String, f64>,
    /// What it promises to save, of what these GPUs cost.
    pub saving_fraction: Range<f64>,
    /// The same in dollars; `None` where one of them has no price.
    pub saving_usd: Option<Range<Usd>>,
    /// Whether anything of it is part of the savings: on some GPU no other advice on the same
    /// waste promises more.
    pub counted: bool,
}

impl Recommendation {
    /// `priced`: the GPUs that have a price.
    pub(super) fn build(
        policy: &Policy,
        given: &recommendation::Recommendation,
        priced: &[PricedGpu<'_>],
        counted: bool,
    ) -> Self {
        let bill = |id: &String| priced.iter().find(|gpu| gpu.id == id).map(|gpu| gpu.bill);
        let bill: Option<NanoUsd> = given.gpus.iter().map(bill).sum();
        let usd = bill.map(|bill| given.saving.map(|fraction| fraction.part_of(bill)));
        Self {
            policy: policy.manifest().name.clone(),
            code: given.code.clone(),
            pool: given.target.name(),
            lever: given.lever.to_string(),
            title: given.title.clone(),
            action: given.action.clone(),
            rationale: given.rationale.clone(),
            confidence: given.confidence.as_f64(),
            gpus: given.gpus.clone(),
            evidence: given.evidence.clone(),
            saving_fraction: given.saving.into(),
            saving_usd: usd.map(Into::into),
            counted,
        }
    }

    /// What promises to save most goes first: in dollars, else as a fraction. Of equals the first
    /// code, then the first policy.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let dollars = |it: &Self| it.saving_usd.map(|usd| usd.expected);
        let fraction = |it: &Self| it.saving_fraction.expected;
        dollars(other)
            .cmp(&dollars(self))
            .then(fraction(other).total_cmp(&fraction(self)))
            .then_with(|| self.code.cmp(&other.code))
            .then_with(|| self.policy.cmp(&other.policy))
    }
}
