//! The report as a value: the fields of the JSON report, in their order.
//!
//! `report.schema.json` beside this file is its contract. Money keeps its nano-dollars, time its
//! nanoseconds. What was not measured is `None`: never zero, and never an estimate. This room must
//! not know how anything was found, or how it is shown.

use std::collections::BTreeMap;

use phasemeter_meter::money::Rate;
use phasemeter_meter::percent::Percent;
use phasemeter_meter::projection::UnitCost;
use serde::{Serialize, Serializer};

use super::{Policy, Recommendation, Savings, Seconds, Usd, Utc};

/// The value of `schema`: changes whenever the meaning of a field does.
pub const SCHEMA: &str = "phasemeter.report/0.1";

/// The most refused rows a report lists.
pub const MOST_REJECTED_ROWS: usize = 100;

/// A whole report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// What was metered.
    pub title: String,
    /// The first reading of any GPU.
    pub start: Option<Utc>,
    /// The last reading of any GPU.
    pub end: Option<Utc>,
    /// Whose run it was.
    pub experiment: Experiment,
    /// Each GPU.
    pub gpus: Vec<Gpu>,
    /// All GPUs together.
    pub fleet: Fleet,
    /// What all of them cost.
    pub cost: Cost,
    /// Work done, by unit.
    pub work: BTreeMap<String, Work>,
    /// The first rows that were refused.
    pub rejected_rows: Vec<RejectedRow>,
    /// How many were refused in all.
    pub rejected_total: u64,
    /// What had to be assumed.
    pub assumptions: Vec<String>,
    /// What policies recommend, the largest expected saving first.
    pub recommendations: Vec<Recommendation>,
    /// What all of that saves together; `None` where nothing has a price.
    pub savings: Option<Savings>,
    /// Who was asked.
    pub policies: Vec<Policy>,
}

/// Whose run it was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Experiment {
    /// Its id.
    pub id: String,
    /// Its W3C trace id, 32 hex digits; `None` where each session of a GPU is a trace of its own.
    pub trace_id: Option<String>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gpu {
    /// Its name in this report: uuid, bus id or index.
    pub gpu: String,
    /// Its index in its machine.
    pub index: Option<u32>,
    /// Its model, as the driver spells it.
    pub model: Option<String>,
    /// Its first reading.
    pub start: Option<Utc>,
    /// Its last reading.
    pub end: Option<Utc>,
    /// What an hour of it costs, at its last reading.
    #[serde(serialize_with = "rate")]
    pub rate_usd_per_gpu_hour: Option<Rate>,
    /// Where that rate is from.
    pub price: Option<PriceTag>,
    /// The last prices that it had before, oldest first; most GPUs have one price.
    pub earlier_prices: Vec<EarlierPrice>,
    /// How many there were.
    pub earlier_prices_total: u64,
    /// Why it has no rate.
    pub unpriced_reason: Option<String>,
    /// What it cost: phases + unobserved, and effective + waste + unobserved.
    pub cost_usd: Option<Usd>,
    /// Σ utilization × cost.
    pub effective_usd: Option<Usd>,
    /// What was paid for nothing.
    pub waste_usd: Option<Usd>,
    /// Waste by pool.
    pub waste_pools_usd: WastePools,
    /// What was paid while nothing was observed.
    pub unobserved_usd: Option<Usd>,
    /// From its first reading to its last.
    pub span_seconds: Seconds,
    /// The part of it in which its utilization is not known.
    pub unobserved_seconds: Seconds,
    /// Why not. Sums to `unobserved_seconds`.
    pub unobserved_reasons: Vec<Reason>,
    /// The rest of it, by phase.
    pub phases: Phases,
    /// How busy it was.
    pub utilization: Utilization,
    /// Σ utilization × time.
    pub effective_seconds: f64,
    /// How its utilization moves; `None` where there is too little to tell.
    pub pattern: Option<Pattern>,
    /// Its memory.
    pub memory: Memory,
    /// The energy it used, in joules.
    pub energy_joules: Option<f64>,
    /// What that was found from.
    pub energy_basis: Option<&'static str>,
}

/// All GPUs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// GPU time, observed or not.
    pub span_seconds: Seconds,
    /// The part of it in which utilization is not known.
    pub unobserved_seconds: Seconds,
    /// Why not.
    pub unobserved_reasons: Vec<Reason>,
    /// The rest of it, by phase. Costs are those of the GPUs that have a price.
    pub phases: Phases,
}

/// A reason why time was not observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reason {
    /// In words: one of a closed set.
    pub reason: &'static str,
    /// For how long.
    pub seconds: Seconds,
}

/// Time and money of the observed time, by phase. The four phases sum to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phases {
    /// Idle, whether held or free.
    pub idle: Share,
    /// Idle, but kept from others; `None` where that can't be known.
    pub idle_held: Option<Share>,
    /// Idle, and free for others; `None` where that can't be known.
    pub idle_free: Option<Share>,
    /// Underutilized.
    pub underutilized: Share,
    /// Productive.
    pub productive: Share,
    /// Compute-bound.
    pub compute_bound: Share,
}

/// One phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Time in it.
    pub seconds: Seconds,
    /// Its share of the observed time; `None` where nothing was observed.
    #[serde(serialize_with = "percent")]
    pub percent: Option<Percent>,
    /// What that time cost.
    pub cost_usd: Option<Usd>,
}

/// How busy a GPU was, in percent, weighted by time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Utilization {
    /// Whose notion of busy it is.
    pub basis: Option<&'static str>,
    /// Mean.
    pub mean: Option<f64>,
    /// Median.
    pub p50: Option<f64>,
    /// 95th percentile.
    pub p95: Option<f64>,
    /// The median time between changes of the value; `None` under ten changes.
    pub update_period_seconds: Option<Seconds>,
}

/// How utilization moves.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pattern {
    /// `idle`, `steady`, `bouncing` or `mixed`.
    pub kind: &'static str,
    /// The median time of a cycle; where it bounces.
    pub period_seconds: Option<Seconds>,
    /// The share of a cycle at high utilization, 0–1; where it bounces.
    pub duty: Option<f64>,
}

/// Memory of a GPU in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// What it has, where that was measured.
    pub total_bytes: Option<u64>,
    /// The most in use.
    pub used_peak_bytes: Option<u64>,
    /// 95th percentile of what was in use, weighted by time.
    pub used_p95_bytes: Option<u64>,
}

/// What all GPUs cost. Where some have no price, sums in dollars are of those that have one; where
/// none has, they are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// What an hour of each costs, at its last reading; `None` unless all cost the same.
    #[serde(serialize_with = "rate")]
    pub rate_usd_per_gpu_hour: Option<Rate>,
    /// GPU time, observed or not, in hours.
    pub gpu_hours: f64,
    /// Σ utilization × time, in hours.
    pub effective_gpu_hours: f64,
    /// The bill: effective + waste + unobserved.
    pub total_usd: Option<Usd>,
    /// Σ utilization × cost.
    pub effective_usd: Option<Usd>,
    /// What was paid for nothing.
    pub waste_usd: Option<Usd>,
    /// Waste by pool.
    pub waste_pools_usd: WastePools,
    /// What was paid while nothing was observed.
    pub unobserved_usd: Option<Usd>,
    /// (bill − unobserved) ÷ effective hours, both of the priced GPUs.
    pub cost_per_effective_gpu_hour_usd: Option<Usd>,
    /// What the priced GPUs cost an hour, idle or not.
    pub hourly_usd: Option<Usd>,
    /// Hourly × 24 × 30.
    pub monthly_usd: Option<Usd>,
    /// Hourly × 24 × 365.
    pub yearly_usd: Option<Usd>,
    /// Where the rate is from; `None` unless it is the same for all.
    pub price: Option<PriceTag>,
    /// Which GPUs have no price, and why: a sentence.
    pub unpriced_reason: Option<String>,
}

/// Waste by pool. Sums to the waste.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WastePools {
    /// In bouncing stretches: the GPU waits for its input.
    pub starvation: Option<Usd>,
    /// Idle elsewhere.
    pub idle: Option<Usd>,
    /// The rest.
    pub occupancy: Option<Usd>,
}

/// A price that has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EarlierPrice {
    /// From when on the next one is charged.
    pub until: Utc,
    /// What an hour cost.
    #[serde(serialize_with = "a_rate")]
    pub rate_usd_per_gpu_hour: Rate,
    /// Where that rate was from.
    pub price: PriceTag,
}

/// Where a rate is from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PriceTag {
    /// How it is paid for.
    pub plan: Option<&'static str>,
    /// Who sells it.
    pub provider: Option<String>,
    /// Where.
    pub region: Option<String>,
    /// In what.
    pub instance_type: Option<String>,
    /// Who says so.
    pub source: String,
    /// The day it was true.
    pub as_of: Option<String>,
    /// How many days lie between that day and the first day of use.
    pub age_days: Option<u64>,
    /// Whether that is too many to trust it without a word.
    pub old: bool,
    /// What it was picked from, where it is an estimate.
    pub estimate: Option<EstimateTag>,
}

/// An estimate is the lower median of some prices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EstimateTag {
    /// How many.
    pub rows: usize,
    /// The lowest.
    #[serde(serialize_with = "a_rate")]
    pub low_usd_per_gpu_hour: Rate,
    /// The highest.
    #[serde(serialize_with = "a_rate")]
    pub high_usd_per_gpu_hour: Rate,
}

/// Work done in one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Work {
    /// How many.
    pub count: u64,
    /// The bill ÷ their number, to 18 decimals; `None` unless every GPU has a price.
    #[serde(serialize_with = "unit_cost")]
    pub cost_each_usd: Option<UnitCost>,
}

/// A row that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RejectedRow {
    /// Where it stands.
    pub file: String,
    /// Its line there, from 1.
    pub line: u64,
    /// Why.
    pub reason: String,
}

fn rate<S: Serializer>(rate: &Option<Rate>, serializer: S) -> Result<S::Ok, S::Error> {
    rate.map(|rate| Usd(rate.hourly())).serialize(serializer)
}

fn a_rate<S: Serializer>(rate: &Rate, serializer: S) -> Result<S::Ok, S::Error> {
    Usd(rate.hourly()).serialize(serializer)
}

fn percent<S: Serializer>(percent: &Option<Percent>, serializer: S) -> Result<S::Ok, S::Error> {
    percent.map(Percent::as_f64).serialize(serializer)
}

fn unit_cost<S: Serializer>(cost: &Option<UnitCost>, serializer: S) -> Result<S::Ok, S::Error> {
    cost.map(|cost| cost.to_string()).serialize(serializer)
}
