//! Builds recommendations and responses. Must not depend on savings.

use crate::{Effort, Gpu, Need, Recommendation, RecommendationKind, Response, Saving, Target};

impl Recommendation {
    /// Returns a recommendation without texts, saving and evidence: a low-effort saving that can be
    /// undone.
    pub fn new<'a>(
        code: &str,
        target: Target,
        lever: &str,
        gpus: impl IntoIterator<Item = &'a Gpu>,
    ) -> Self {
        Self {
            code: code.to_owned(),
            target,
            lever: lever.to_owned(),
            title: String::new(),
            action: String::new(),
            rationale: String::new(),
            saving: Saving::NONE,
            confidence: 0.0,
            evidence: Vec::new(),
            gpus: gpus.into_iter().map(|gpu| gpu.id.clone()).collect(),
            kind: RecommendationKind::Saving,
            effort: Effort::Low,
            reversible: true,
            remediation: None,
        }
    }
}

/// Returns evidence from names and values.
#[must_use]
pub fn evidence<const N: usize>(values: [(&str, f64); N]) -> Vec<(String, f64)> {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl Need {
    /// Returns what is missing for these GPUs.
    pub fn new<'a>(missing: &str, reason: &str, gpus: impl IntoIterator<Item = &'a Gpu>) -> Self {
        Self {
            missing: missing.to_owned(),
            reason: reason.to_owned(),
            gpus: gpus.into_iter().map(|gpu| gpu.id.clone()).collect(),
        }
    }
}

impl From<Vec<Recommendation>> for Response {
    fn from(recommendations: Vec<Recommendation>) -> Self {
        Self { recommendations, needs: Vec::new() }
    }
}
