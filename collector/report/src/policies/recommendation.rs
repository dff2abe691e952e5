//! The recommendations of a report.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Add;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::savings::estimate::Estimate;
use phasemeter_meter::savings::recommendation::Target;
use phasemeter_meter::savings::waterfall::PricedGpu;
use phasemeter_rules::lever::Lever;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation;
use serde::Serialize;

use super::Range;
use crate::Usd;

/// One recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The policy that returned it.
    pub policy: String,
    /// The policy's code for it.
    pub code: String,
    /// `saving`, `risk` or `capacity`. Only savings count in dollars.
    pub kind: &'static str,
    /// `low`, `medium` or `high`.
    pub effort: &'static str,
    /// Whether it can be undone at once.
    pub reversible: bool,
    /// The waste category it acts on, or the axis: `rate`, `throughput`.
    pub target: &'static str,
    /// The kind of change.
    pub lever: String,
    /// Summary.
    pub title: String,
    /// What to do.
    pub action: String,
    /// Why it helps.
    pub rationale: String,
    /// Confidence of the policy, 0–1.
    pub confidence: f64,
    /// IDs of the GPUs it applies to.
    pub gpus: Vec<String>,
    /// The numbers it is based on.
    pub evidence: BTreeMap<String, Evidence>,
    /// Saving, as a fraction of the bill of these GPUs.
    pub saving_fraction: Range<f64>,
    /// The same in dollars, of the GPUs whose hours are not committed; `None` if one of these GPUs has no
    /// price.
    pub saving_usd: Option<Range<Usd>>,
    /// Whether it contributes to the savings: on at least one GPU, no other recommendation for the
    /// same target saves more.
    pub counted: bool,
    /// The action for automation.
    pub remediation: Option<Remediation>,
}

/// A number that supports a recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// Finite.
    pub value: f64,
    /// Its unit in UCUM.
    pub unit: String,
}

impl From<&recommendation::Evidence> for Evidence {
    fn from(evidence: &recommendation::Evidence) -> Self {
        Self { value: evidence.value, unit: evidence.unit.clone() }
    }
}

/// An action for automation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remediation {
    /// Like `k8s.scale`.
    pub kind: String,
    /// Its parameters.
    pub parameters: BTreeMap<String, String>,
}

impl Recommendation {
    /// `priced` are the GPUs that have a price.
    pub(super) fn build(
        policy: &Policy,
        returned: &recommendation::Recommendation,
        priced: &[PricedGpu<'_>],
        counted: bool,
    ) -> Self {
        let of = |id: &String| priced.iter().find(|gpu| gpu.id == id);
        let gpus: Option<Vec<_>> = returned.gpus.iter().map(of).collect();
        let paid_by_use = |gpu: &&&PricedGpu<'_>| !gpu.committed;
        let usd = gpus.map(|gpus| {
            let each = gpus.iter().filter(paid_by_use).map(|gpu| gpu.usd(returned.saving));
            each.fold(Estimate::default(), |sum, usd| sum.zip(usd, NanoUsd::add))
        });
        Self {
            policy: policy.manifest().name.clone(),
            code: returned.code.clone(),
            kind: returned.kind.name(),
            effort: returned.effort.name(),
            reversible: returned.reversible,
            target: returned.target.name(),
            lever: returned.lever.to_string(),
            title: returned.title.clone(),
            action: returned.action.clone(),
            rationale: returned.rationale.clone(),
            confidence: returned.confidence.as_f64(),
            gpus: returned.gpus.clone(),
            evidence: returned
                .evidence
                .iter()
                .map(|(name, it)| (name.clone(), it.into()))
                .collect(),
            saving_fraction: returned.saving.into(),
            saving_usd: usd.map(Into::into),
            counted,
            remediation: returned
                .remediation
                .as_ref()
                .map(|it| Remediation { kind: it.kind.clone(), parameters: it.parameters.clone() }),
        }
    }

    /// Risks first, then savings by better use or on other GPUs, then capacity, then diagnoses, which save nothing by
    /// themselves, then savings by a lower rate, which could be recommended to anyone. Within each, the largest
    /// expected saving times confidence first, in dollars or else in GPUs; ties by code, then policy.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        let moves_work = |it: &Self| it.lever.parse().is_ok_and(Lever::moves_work);
        let rank = |it: &Self| match it.kind {
            "risk" => 0,
            "saving" if it.target == Target::Rate.name() && !moves_work(it) => 4,
            "saving" if it.saving_fraction.high > 0.0 => 1,
            "capacity" => 2,
            _ => 3,
        };
        let dollars = |it: &Self| it.saving_usd.map(|usd| usd.expected.0.as_f64() * it.confidence);
        let dollars = |it: &Self| dollars(it).unwrap_or(-1.0);
        // Of capacity, in GPUs.
        let fraction =
            |it: &Self| it.saving_fraction.expected * it.gpus.len() as f64 * it.confidence;
        rank(self)
            .cmp(&rank(other))
            .then_with(|| dollars(other).total_cmp(&dollars(self)))
            .then_with(|| fraction(other).total_cmp(&fraction(self)))
            .then_with(|| self.code.cmp(&other.code))
            .then_with(|| self.policy.cmp(&other.policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_fleet::recommendation;

    #[test]
    fn lower_rate_comes_last_unless_it_follows_from_the_load() {
        let of = |code: &str, target, kind, lever: &str| Recommendation {
            code: code.to_owned(),
            lever: lever.to_owned(),
            ..recommendation(target, kind, &["0"])
        };
        let mut all = [
            of("quote", "rate", "saving", "provider"),
            of("capacity", "idle", "capacity", "mig"),
            of("smaller", "rate", "saving", "smaller_gpu"),
            of("risk", "throughput", "risk", "restart"),
            of("batch", "underload", "saving", "batch"),
        ];
        all.sort_by(Recommendation::order);
        let codes = all.map(|it| it.code);
        assert_eq!(codes, ["risk", "batch", "smaller", "capacity", "quote"]);
    }
}
