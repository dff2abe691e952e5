//! Time and cost of all GPUs, by phase.

use phasemeter_terminal::percent::Percent;
use serde::{Serialize, Serializer};

use super::super::value::{Seconds, Usd};

/// All GPUs together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fleet {
    /// GPU time, observed or not.
    pub span_seconds: Seconds,
    /// GPU time without usable utilization.
    pub unobserved_seconds: Seconds,
    /// Unobserved time by reason.
    pub unobserved_reasons: Vec<UnobservedTime>,
    /// Observed time, by phase. Costs cover the GPUs that have a price.
    pub phases: Phases,
}

/// Unobserved time for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct UnobservedTime {
    /// Why.
    pub reason: UnobservedReason,
    /// Total duration.
    pub seconds: Seconds,
}

/// Why time was unobserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UnobservedReason {
    /// No reading covers it.
    NoReading,
    /// The source has no utilization column, or did not collect it.
    NoUtilizationColumn,
    /// The driver or GPU does not support utilization.
    NotSupported,
    /// The GPU fell off the bus.
    GpuLost,
    /// The value could not be parsed or was out of range.
    Unreadable,
    /// The source no longer lists the GPU; or, if it does not identify its GPUs, one that is unknown.
    GpuVanished,
}

/// Time and cost of the observed time, by phase. The four phases sum to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Phases {
    /// Idle: held, free and unknown sum to it.
    pub idle: PhaseTotals,
    /// Idle and held; `None` if holding was never known.
    pub idle_held: Option<PhaseTotals>,
    /// The part of it that schedulers granted to holders before these first touched the GPU; `None` if none is known.
    pub idle_never_touched: Option<PhaseTotals>,
    /// Idle and free; `None` if holding was never known.
    pub idle_free: Option<PhaseTotals>,
    /// Idle while holding was unknown.
    pub idle_unknown: PhaseTotals,
    /// Underutilized.
    pub underutilized: PhaseTotals,
    /// Productive.
    pub productive: PhaseTotals,
    /// Compute-bound.
    pub compute_bound: PhaseTotals,
}

/// Time and cost of one phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PhaseTotals {
    /// Time.
    pub seconds: Seconds,
    /// Share of the observed time; `None` if nothing was observed.
    #[serde(serialize_with = "percent")]
    pub percent: Option<Percent>,
    /// Cost.
    pub cost_usd: Option<Usd>,
}

fn percent<S: Serializer>(percent: &Option<Percent>, serializer: S) -> Result<S::Ok, S::Error> {
    percent.map(Percent::as_f64).serialize(serializer)
}
