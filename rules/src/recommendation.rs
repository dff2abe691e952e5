//! The validated output of a recommender.

use std::collections::{BTreeMap, BTreeSet};

use phasemeter_meter::price::PaymentPlan;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::recommendation;
pub use phasemeter_savings::recommendation::{Saving, Target};
use serde::{Deserialize, Serialize};

use crate::fixture_value::{named, scalar};
use crate::lever::{Lever, Proof};
use crate::window::{Gpu, Window};

/// A recommendation. Every bound named here has been validated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recommendation {
    /// Stable identifier: 1–64 of `a`–`z`, `0`–`9`, `.`, `_`, `-`, starting with a letter.
    pub code: String,
    /// What it reduces.
    #[serde(with = "scalar")]
    pub target: Target,
    /// The means.
    #[serde(with = "scalar")]
    pub lever: Lever,
    /// Short title: one line of 1–120 bytes.
    pub title: String,
    /// What to do: 1–1,000 bytes.
    pub action: String,
    /// Why it helps here: 1–2,000 bytes.
    pub rationale: String,
    /// Expected saving, as fractions of the bill of `gpus`.
    #[serde(with = "scalar")]
    pub saving: Saving,
    /// Confidence of the policy: 0–1.
    #[serde(with = "scalar")]
    pub confidence: Fraction,
    /// Numbers that support it, by name: at most 32.
    #[serde(default)]
    pub evidence: BTreeMap<String, Evidence>,
    /// IDs of the GPUs it applies to: at least one, all in the window, no duplicates.
    pub gpus: Vec<String>,
    /// What it is good for.
    #[serde(default, with = "scalar")]
    pub kind: RecommendationKind,
    /// How much work it is.
    #[serde(default, with = "scalar")]
    pub effort: Effort,
    /// Whether it can be undone at once.
    #[serde(default)]
    pub reversible: bool,
    /// The action for automation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remediation: Option<Remediation>,
}

/// A number that supports a recommendation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    /// Finite.
    #[serde(with = "scalar")]
    pub value: f64,
    /// Its unit in UCUM, such as `s` or `{GPU}`: 1–32 ASCII characters.
    pub unit: String,
}

/// What a recommendation is good for. Only savings count in sums of dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecommendationKind {
    /// Reduces the bill.
    #[default]
    Saving,
    /// Prevents a loss.
    Risk,
    /// Frees capacity for other work.
    Capacity,
}

impl RecommendationKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Saving, Self::Risk, Self::Capacity];

    /// The name in reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Saving => "saving",
            Self::Risk => "risk",
            Self::Capacity => "capacity",
        }
    }
}

named!(Target, "target");
named!(RecommendationKind, "kind");
named!(Effort, "effort");

/// How much work a recommendation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Effort {
    /// A setting or a command.
    #[default]
    Low,
    /// A day or so.
    Medium,
    /// Changes to code or contracts.
    High,
}

impl Effort {
    /// All efforts.
    pub const ALL: [Self; 3] = [Self::Low, Self::Medium, Self::High];

    /// The name in reports and telemetry.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// An action for automation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remediation {
    /// Like `k8s.scale`.
    pub kind: String,
    /// At most 16.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

/// Missing information, without which something cannot be recommended or ruled out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Need {
    /// A column, attribute or setting.
    pub missing: String,
    /// What it would tell: one line of 1–300 bytes.
    pub reason: String,
    /// IDs of the GPUs that it is missing for: at least one, all in the window, no duplicates.
    pub gpus: Vec<String>,
}

/// What a recommender returns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Response {
    /// At most 64.
    pub recommendations: Vec<Recommendation>,
    /// At most 64.
    pub needs: Vec<Need>,
}

impl Response {
    /// The same, with savings on GPUs whose hours are all paid for as capacity. A diagnosis, of which no saving
    /// is expected, stays one.
    pub(crate) fn for_plans_of(mut self, window: &Window) -> Self {
        let is_committed = |gpu: &Gpu| {
            gpu.price.as_ref().and_then(|price| price.plan).is_some_and(PaymentPlan::is_committed)
        };
        let committed: BTreeSet<_> =
            window.gpus.iter().filter(|gpu| is_committed(gpu)).map(|gpu| gpu.id.as_str()).collect();
        for it in &mut self.recommendations {
            let saves =
                it.kind == RecommendationKind::Saving && it.saving.expected > Fraction::ZERO;
            if saves && it.gpus.iter().all(|id| committed.contains(id.as_str())) {
                it.kind = RecommendationKind::Capacity;
            }
        }
        self
    }
}

impl Recommendation {
    /// How it is known what it saves or frees; `None` if it prevents a loss.
    #[must_use]
    pub fn proof(&self) -> Option<Proof> {
        (self.kind != RecommendationKind::Risk).then(|| self.lever.proof())
    }

    /// The part that savings are computed from. `policy` is the name of the policy. Of a hypothesis, only what a trial
    /// has `settled` counts.
    #[must_use]
    pub fn for_savings<'a>(
        &'a self,
        policy: &'a str,
        settled: Option<Saving>,
    ) -> recommendation::Recommendation<'a> {
        let Self { ref code, target, ref gpus, kind, lever, .. } = *self;
        let is_proved = settled.is_some() || !matches!(self.proof(), Some(Proof::Trial { .. }));
        recommendation::Recommendation {
            policy,
            code,
            target,
            saving: settled.unwrap_or(self.saving),
            gpus,
            is_saving: kind == RecommendationKind::Saving && is_proved,
            moves_work: lever.moves_work(),
        }
    }
}
