//! The recommendations of a report.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Add;

use phasemeter_meter::money::NanoUsd;
use phasemeter_rules::lever::{Lever, Proof};
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation::{self, Effort, RecommendationKind};
use phasemeter_savings::coverage::Change;
use phasemeter_savings::estimate::Estimate;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::recommendation::Target;
use phasemeter_savings::trial::{Outcome, Settled};
use phasemeter_savings::waterfall::PricedGpu;
use serde::{Serialize, Serializer};

use super::{Range, Settlement, Stake, Trial};
use crate::Usd;

/// One recommendation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The policy that returned it.
    pub policy: String,
    /// The policy's code for it.
    pub code: String,
    /// Only savings count in dollars.
    #[serde(serialize_with = "kind")]
    pub kind: RecommendationKind,
    /// How much work it is.
    #[serde(serialize_with = "effort")]
    pub effort: Effort,
    /// Whether it can be undone at once.
    pub reversible: bool,
    /// The waste category it acts on, or the axis.
    #[serde(serialize_with = "target")]
    pub target: Target,
    /// The kind of change.
    #[serde(serialize_with = "lever")]
    pub lever: Lever,
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
    /// How it is known what it saves or frees: by `replay` of the recorded seconds, or only by a `trial`; `None` if it
    /// prevents a loss, or only finds out what to change.
    pub proof: Option<&'static str>,
    /// How it is decided, if that needs a trial.
    pub trial: Option<Trial>,
    /// Saving, as a fraction of the bill of these GPUs: of a trial the promise of the policy until it is settled, then
    /// what was measured.
    pub saving_fraction: Range<f64>,
    /// The same in dollars, of the GPUs whose hours are not committed; `None` if one of these GPUs has no
    /// price.
    pub saving_usd: Option<Range<Usd>>,
    /// The waste that it or an alternative to it is about; of a higher throughput or another GPU, its expected saving;
    /// nothing for a risk, or a lower rate of the same GPU.
    pub at_stake: Stake,
    /// Whether it contributes to the savings: it is proved, and on at least one GPU, no other recommendation for the
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

fn kind<S: Serializer>(kind: &RecommendationKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn effort<S: Serializer>(effort: &Effort, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(effort.name())
}

fn target<S: Serializer>(target: &Target, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(target.name())
}

fn lever<S: Serializer>(lever: &Lever, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(lever.name())
}

impl Recommendation {
    /// `priced` are the GPUs that have a price.
    pub(super) fn build(
        policy: &Policy,
        returned: &recommendation::Recommendation,
        settled: Option<&Settled>,
        priced: &[PricedGpu<'_>],
        counted: bool,
    ) -> Self {
        let priced: BTreeMap<&str, _> = priced.iter().map(|gpu| (gpu.id, gpu)).collect();
        let of = |id: &String| priced.get(id.as_str()).copied();
        let gpus: Option<Vec<_>> = returned.gpus.iter().map(of).collect();
        let saving = settled.map_or(returned.saving, |trial| trial.saving);
        let paid_by_use = |gpu: &&&PricedGpu<'_>| !gpu.committed;
        let usd = gpus.map(|gpus| {
            let each = gpus.iter().filter(paid_by_use).map(|gpu| gpu.usd(saving));
            each.fold(Estimate::default(), |sum, usd| sum.zip(usd, NanoUsd::add))
        });
        Self {
            policy: policy.manifest().name.clone(),
            code: returned.code.clone(),
            kind: returned.kind,
            effort: returned.effort,
            reversible: returned.reversible,
            target: returned.target,
            lever: returned.lever,
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
            proof: returned.proof().and_then(Proof::name),
            trial: Trial::of(returned, settled),
            saving_fraction: saving.into(),
            saving_usd: usd.map(Into::into),
            at_stake: Stake::default(),
            counted,
            remediation: returned
                .remediation
                .as_ref()
                .map(|it| Remediation { kind: it.kind.clone(), parameters: it.parameters.clone() }),
        }
    }

    /// What it would change; `None` if it prevents a loss, or a trial has shown that it changes nothing.
    pub(super) fn change(&self) -> Option<Change> {
        let Range { low, expected, high } = self.saving_fraction;
        let saving = Estimate { low, expected, high };
        (!self.is_risk() && !self.is_refuted()).then(|| Change {
            target: self.target,
            saving: saving.map(|part| Fraction::new(part).unwrap_or_default()),
            is_saving: self.kind == RecommendationKind::Saving,
            ends_idle_time: self.lever.ends_idle_time(),
        })
    }

    /// Whether it prevents a loss.
    pub(crate) fn is_risk(&self) -> bool {
        self.kind == RecommendationKind::Risk
    }

    /// The trial that decides it; `None` if it needs none, or no longer.
    pub(crate) fn open_trial(&self) -> Option<&Trial> {
        self.trial.as_ref().filter(|trial| trial.settled.is_none())
    }

    /// What a trial has shown.
    pub(crate) fn settlement(&self) -> Option<&Settlement> {
        self.trial.as_ref()?.settled.as_ref()
    }

    /// Whether a trial has shown that it does not save.
    pub(crate) fn is_refuted(&self) -> bool {
        self.settlement().is_some_and(|it| it.result != Outcome::Saves)
    }

    /// The target and the GPUs: alternatives have the same.
    pub(super) fn waste_key(&self) -> (Target, Vec<String>) {
        let mut gpus = self.gpus.clone();
        gpus.sort_unstable();
        (self.target, gpus)
    }

    /// Whether it is a lower rate for the same GPUs, which could be recommended to anyone.
    pub(super) fn is_of_rate_alone(&self) -> bool {
        let is_saving = self.kind == RecommendationKind::Saving;
        is_saving && self.target == Target::Rate && !self.lever.moves_work()
    }

    /// Risks first, and lower rates last. Between them the largest stake first; of one stake savings, then trials with a
    /// number, then capacity, then what promises none. Then the largest expected saving times confidence first, in
    /// dollars or else in GPUs; ties by code, then policy.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        let place = |it: &Self| match it.kind {
            RecommendationKind::Risk => 0,
            _ if it.is_of_rate_alone() => 2,
            _ => 1,
        };
        let kind = |it: &Self| match it.kind {
            RecommendationKind::Saving if it.saving_fraction.high > 0.0 => {
                u8::from(it.open_trial().is_some())
            }
            RecommendationKind::Risk | RecommendationKind::Capacity => 2,
            RecommendationKind::Saving => 3,
        };
        let dollars = |it: &Self| it.saving_usd.map(|usd| usd.expected.0.as_f64() * it.confidence);
        let dollars = |it: &Self| dollars(it).unwrap_or(-1.0);
        // Of capacity, in GPUs.
        let fraction =
            |it: &Self| it.saving_fraction.expected * it.gpus.len() as f64 * it.confidence;
        place(self)
            .cmp(&place(other))
            .then_with(|| self.at_stake.order(&other.at_stake))
            .then_with(|| kind(self).cmp(&kind(other)))
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
            lever: lever.parse().unwrap(),
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
