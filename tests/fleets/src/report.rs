//! The part of a JSON report that is compared.

use std::collections::BTreeMap;

use serde::Deserialize;

/// A report of `phasemeter audit --format json`.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Report {
    pub(crate) gpus: Vec<ReportedGpu>,
    pub(crate) recommendations: Vec<Recommendation>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct ReportedGpu {
    pub(crate) id: String,
    cost_usd: String,
    /// By category, in dollars.
    waste_by_category_usd: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Recommendation {
    pub(crate) code: String,
    /// `saving`, `risk` or `capacity`.
    pub(crate) kind: String,
    /// `replay` or `trial`; absent for a diagnosis.
    pub(crate) proof: Option<String>,
    /// A waste category, `rate` or `throughput`.
    pub(crate) target: String,
    pub(crate) action: String,
    pub(crate) confidence: f64,
    pub(crate) gpus: Vec<String>,
    pub(crate) evidence: BTreeMap<String, Evidence>,
    pub(crate) saving_fraction: Fractions,
    pub(crate) remediation: Option<Remediation>,
}

/// The same action for automation.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Remediation {
    pub(crate) parameters: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Evidence {
    pub(crate) value: f64,
}

/// Of the bill of the GPUs.
#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Fractions {
    pub(crate) low: f64,
    pub(crate) expected: f64,
    pub(crate) high: f64,
}

impl ReportedGpu {
    pub(crate) fn cost(&self) -> f64 {
        self.cost_usd.parse().unwrap_or(0.0)
    }

    /// Waste of a category in dollars; the whole cost for an axis outside the categories.
    pub(crate) fn waste(&self, target: &str) -> f64 {
        match self.waste_by_category_usd.get(target) {
            Some(waste) => waste.parse().unwrap_or(0.0),
            None => self.cost(),
        }
    }
}
