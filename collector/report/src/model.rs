//! The report as a value: the fields of the JSON report, in order.
//!
//! The contract is `report.schema.json` beside this file. Money is in nano-dollars, time in
//! nanoseconds. Unmeasured values are `None`, never zero and never estimated.

mod cost;
mod fleet;

use std::collections::BTreeMap;

use phasemeter_meter::money::Rate;
use serde::Serialize;

use self::cost::optional_rate;
pub use self::cost::{Cost, UsdRange, WasteUsd};
pub use self::fleet::{Fleet, PhaseTotals, Phases, UnobservedReason, UnobservedTime};
use super::alerts::Alerts;
use super::attribution::Attribution;
use super::experiment::Experiment;
use super::experiments::Experiments;
use super::holders::{Holder, Nobody};
use super::interruptions::Interruptions;
use super::periods::Periods;
use super::policies::{Need, Policy, Recommendation, Savings, UncoveredWaste, WasteCoverage};
use super::price_tag::{EarlierPrice, PriceTag};
use super::rejected_row::RejectedRow;
use super::timeline::Timeline;
use super::value::{Seconds, Usd, Utc};
use super::work_groups::{Work, WorkGroups};

/// The value of `schema`; changes with the meaning of any field.
pub const SCHEMA: &str = "phasemeter.report/0.1";

/// Maximum number of rejected rows listed in a report.
pub const MAX_REJECTED_ROWS: usize = 100;

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was metered.
    pub title: String,
    /// What makes the whole report doubtful, one sentence each.
    pub warnings: Vec<String>,
    /// Time of the first reading.
    pub start: Option<Utc>,
    /// Time of the last reading.
    pub end: Option<Utc>,
    /// The experiment.
    pub experiment: Experiment,
    /// One entry per GPU.
    pub gpus: Vec<Gpu>,
    /// Utilization in percent from which time is underutilized, productive and compute-bound.
    pub thresholds_percent: [f64; 3],
    /// All GPUs together.
    pub fleet: Fleet,
    /// Cost of all GPUs.
    pub cost: Cost,
    /// Work done, by unit.
    pub work: BTreeMap<String, Work>,
    /// Work by group; `None` if none has labels, and no GPUs are known that do it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work_groups: Option<WorkGroups>,
    /// Work done by UTC hour; empty if unknown.
    pub work_by_hour: Vec<WorkHour>,
    /// Experiments that ended during the run; `None` if none began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub experiments: Option<Experiments>,
    /// Interruptions; `None` if notices were not watched for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruptions: Option<Interruptions>,
    /// The first rejected rows.
    pub rejected_rows: Vec<RejectedRow>,
    /// Number of rejected rows.
    pub rejected_total: u64,
    /// Assumptions about the input, one sentence each.
    pub assumptions: Vec<String>,
    /// Quality of live sampling, one sentence each.
    pub sampling: Vec<String>,
    /// How the bill is divided among spans of the workload; `None` if none was to be priced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Outcome of OTLP delivery in a live run, one sentence per signal.
    pub delivery: Vec<String>,
    /// Alerts; `None` if there were no rules.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alerts: Option<Alerts>,
    /// Recommendations of policies: risks, then the largest stake first, then savings by a lower rate.
    pub recommendations: Vec<Recommendation>,
    /// Missing information.
    pub needs: Vec<Need>,
    /// Waste above 5% of the bill that no recommendation is about, by category, the largest first.
    pub uncovered_waste: Vec<UncoveredWaste>,
    /// What became of all waste; `None` if no GPU has a price.
    pub waste_coverage: Option<WasteCoverage>,
    /// Combined savings; `None` if no GPU has a price.
    pub savings: Option<Savings>,
    /// The policies that were evaluated or rejected.
    pub policies: Vec<Policy>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gpu {
    /// Its ID in this report: UUID, bus ID or index.
    pub id: String,
    /// Its UUID, as reported by the driver.
    pub uuid: Option<String>,
    /// Its index on the host.
    pub index: Option<u32>,
    /// Its host, or the log that it is from if there are several; `None` if unknown.
    pub node: Option<String>,
    /// Its host; `None` if unknown.
    pub host: Option<String>,
    /// Its pod; `None` if it has none, or had several.
    pub pod: Option<String>,
    /// What holds it or a part of it, in order; empty if unknown.
    pub holders: Vec<Holder>,
    /// What no holder has of it; `None` if it is not divided among holders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nobody: Option<Nobody>,
    /// Its model, as reported by the driver.
    pub model: Option<String>,
    /// Time of the first reading.
    pub start: Option<Utc>,
    /// The end of the run; earlier if its host is gone.
    pub end: Option<Utc>,
    /// Rate at its end.
    #[serde(serialize_with = "optional_rate")]
    pub rate_usd_per_gpu_hour: Option<Rate>,
    /// Provenance of that rate.
    pub price: Option<PriceTag>,
    /// The most recent earlier prices, oldest first.
    pub earlier_prices: Vec<EarlierPrice>,
    /// Number of earlier prices.
    pub earlier_prices_total: u64,
    /// Why there is no rate.
    pub unpriced_reason: Option<String>,
    /// Bill: phases + unobserved, and utilized + waste + unobserved.
    pub cost_usd: Option<Usd>,
    /// Σ utilization × cost.
    pub utilized_usd: Option<Usd>,
    /// Observed cost minus utilized cost.
    pub waste_usd: Option<Usd>,
    /// Waste by category.
    pub waste_by_category_usd: WasteUsd,
    /// Cost of unobserved time.
    pub unobserved_usd: Option<Usd>,
    /// From `start` to `end`; of that what the pod has, if the accounts are those of an agent.
    pub span_seconds: Seconds,
    /// Time without usable utilization.
    pub unobserved_seconds: Seconds,
    /// Unobserved time by reason; sums to `unobserved_seconds`.
    pub unobserved_reasons: Vec<UnobservedTime>,
    /// Time that is not billed, since the GPU was not there: after `end`, and pauses within the span.
    pub absent_seconds: Seconds,
    /// What that would have cost at the last rate.
    pub absent_usd: Option<Usd>,
    /// Observed time, by phase.
    pub phases: Phases,
    /// Utilization.
    pub utilization: Utilization,
    /// Σ utilization × time.
    pub effective_seconds: f64,
    /// How utilization changes; `None` if there is too little data.
    pub pattern: Option<Pattern>,
    /// Memory.
    pub memory: Memory,
    /// Energy in joules; `None` if it was not measured.
    pub energy_joules: Option<f64>,
    /// What `energy_joules` was computed from; sums to it.
    pub energy_by_basis: Vec<EnergyOnBasis>,
    /// Time and cost by UTC hour, or longer periods of a long run. They tile the span and sum to the
    /// accounts.
    pub periods: Periods,
    /// Utilization over time; `None` if nothing was observed.
    pub timeline: Option<Timeline>,
}

/// The part of the energy that was computed from one source.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct EnergyOnBasis {
    /// The driver's counter, or the power values that were integrated.
    pub basis: &'static str,
    /// The time it covers. No time is covered twice.
    pub seconds: Seconds,
    /// Energy in that time.
    pub joules: f64,
}

/// Utilization of a GPU in percent, weighted by time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Utilization {
    /// The source of the values.
    pub basis: Option<&'static str>,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// Median time between value changes; `None` below ten changes.
    pub update_period_seconds: Option<Seconds>,
}

/// How utilization changes over time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pattern {
    /// `idle`, `steady`, `bouncing` or `mixed`.
    pub kind: &'static str,
    /// Median cycle length, if bouncing.
    pub period_seconds: Option<Seconds>,
    /// Fraction of a cycle at high utilization, 0–1, if bouncing.
    pub duty_cycle: Option<f64>,
}

/// Memory of a GPU in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Capacity, if measured.
    pub total_bytes: Option<u64>,
    /// Maximum in use.
    pub used_peak_bytes: Option<u64>,
    /// 95th percentile in use, weighted by observed time.
    pub used_p95_bytes: Option<u64>,
    /// What that is rounded up to: 1 MiB, or less than 0.1% of the maximum.
    pub used_p95_resolution_bytes: Option<u64>,
}

/// Work done in one UTC hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkHour {
    /// Start of the hour.
    pub start: Utc,
    /// Number of units, by unit.
    pub work: BTreeMap<String, u64>,
}
