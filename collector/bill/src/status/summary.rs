//! The fields of a JSON report that a page about a run in progress needs. Others are ignored.

use std::collections::BTreeMap;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::units::Nanos;
use serde::Deserialize;

use crate::amount::{Seconds, Usd};
use crate::holder::{Holder, Nobody};
use crate::report::SCHEMA;

/// A report.
#[derive(Clone, Debug, Deserialize)]
pub struct Summary {
    schema: String,
    /// What is metered.
    pub title: String,
    /// The first reading, as RFC 3339.
    pub start: Option<String>,
    /// The newest reading, as RFC 3339.
    pub end: Option<String>,
    /// One entry per GPU.
    pub gpus: Vec<SummaryGpu>,
    /// Cost of all GPUs.
    pub cost: SummaryCost,
    /// Recommendations, the most valuable one first.
    #[serde(default)]
    pub recommendations: Vec<SummaryRecommendation>,
}

/// A GPU.
#[derive(Clone, Debug, Deserialize)]
pub struct SummaryGpu {
    /// Its ID in the report.
    pub id: String,
    /// Its index on the host.
    pub index: Option<u32>,
    /// Its host, if there are several.
    #[serde(default)]
    pub node: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its bill; `None` without a price.
    pub cost_usd: Option<Usd>,
    /// Its waste.
    pub waste_usd: Option<Usd>,
    /// Its rate.
    pub rate_usd_per_gpu_hour: Option<Usd>,
    /// Its whole time.
    pub span_seconds: Seconds,
    /// The part of it with unknown utilization.
    pub unobserved_seconds: Seconds,
    /// Σ utilization × time.
    pub effective_seconds: Seconds,
    /// The other part, by phase.
    pub phases: SummaryPhases,
    /// What holds it.
    #[serde(default)]
    pub holders: Vec<Holder>,
    /// What of it is nobody's; `None` if it is not divided among holders.
    #[serde(default)]
    pub nobody: Option<Nobody>,
}

/// Time by phase.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SummaryPhases {
    /// Idle, held or not.
    pub idle: SummaryPhase,
    /// Underutilized.
    pub underutilized: SummaryPhase,
    /// Productive.
    pub productive: SummaryPhase,
    /// Compute-bound.
    pub compute_bound: SummaryPhase,
}

/// Time of a phase.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SummaryPhase {
    /// Its share of the observed time, in percent.
    pub percent: Option<f64>,
}

/// Cost of all GPUs.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct SummaryCost {
    /// The bill.
    pub total_usd: Option<Usd>,
    /// Σ utilization × cost.
    pub utilized_usd: Option<Usd>,
    /// Observed cost minus that.
    pub waste_usd: Option<Usd>,
    /// Cost of time with unknown utilization.
    pub unobserved_usd: Option<Usd>,
    /// What an hour costs, idle or not.
    pub hourly_usd: Option<Usd>,
}

/// A recommendation.
#[derive(Clone, Debug, Deserialize)]
pub struct SummaryRecommendation {
    /// Summary.
    pub title: String,
    /// What to do.
    pub action: String,
    /// IDs of the GPUs it applies to.
    pub gpus: Vec<String>,
}

/// Why a report cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum SummaryError {
    /// It is not a report.
    #[error("not a report: {0}; is the address that of Phasemeter's --health-listen?")]
    Malformed(#[from] serde_json::Error),
    /// It is one of another version.
    #[error("report has the schema {0:?}, expected {SCHEMA:?}; use the same version of Phasemeter")]
    Schema(String),
}

impl Summary {
    /// Reads a JSON report.
    ///
    /// # Errors
    /// Returns an error if it is none, or of another version.
    pub fn parse(json: &[u8]) -> Result<Self, SummaryError> {
        let summary: Self = serde_json::from_slice(json)?;
        if summary.schema != SCHEMA {
            return Err(SummaryError::Schema(summary.schema));
        }
        Ok(summary)
    }

    /// The mean utilization of each GPU since an earlier report, 0–1, by ID; of those that were observed since then.
    pub(super) fn since(&self, before: &Self) -> BTreeMap<String, f64> {
        let before: BTreeMap<_, _> = before.gpus.iter().map(|gpu| (&gpu.id, gpu)).collect();
        let mean = |gpu: &SummaryGpu| Some((gpu.id.clone(), gpu.mean_since(before.get(&gpu.id)?)?));
        self.gpus.iter().filter_map(mean).collect()
    }
}

impl SummaryGpu {
    /// Its observed time.
    fn observed(&self) -> Nanos {
        self.span_seconds.0 - self.unobserved_seconds.0
    }

    /// Its mean utilization, 0–1; `None` if nothing was observed.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        ratio(self.effective_seconds.0, self.observed())
    }

    /// The mean since an earlier report, 0–1; `None` if nothing was observed since then.
    fn mean_since(&self, before: &Self) -> Option<f64> {
        let effective = self.effective_seconds.0 - before.effective_seconds.0;
        ratio(effective, self.observed() - before.observed())
    }

    /// Its name: host and index, else its ID.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.node, self.index) {
            (Some(node), Some(index)) => format!("{node} {index}"),
            (None, Some(index)) => index.to_string(),
            (_, None) => self.id.clone(),
        }
    }

    /// Its cost, or nothing without a price.
    pub(super) fn cost(&self) -> NanoUsd {
        self.cost_usd.unwrap_or_default().0
    }

    /// Its waste, or nothing without a price.
    pub(super) fn waste(&self) -> NanoUsd {
        self.waste_usd.unwrap_or_default().0
    }

    /// Who holds it now, separated by commas; empty if nobody does.
    pub(super) fn held_by(&self) -> String {
        let held = self.holders.iter().filter(|it| it.end.is_none());
        held.map(|holder| holder.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

fn ratio(part: Nanos, of: Nanos) -> Option<f64> {
    (of > Nanos::ZERO).then(|| part.as_secs_f64() / of.as_secs_f64())
}
