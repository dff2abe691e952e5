//! What all advice saves together, as the report has it.

use phasemeter_meter::savings::recommendation::Recommendation;
use phasemeter_meter::savings::waterfall::Waterfall;
use phasemeter_meter::savings::{self, Saved};
use serde::Serialize;

use super::Range;
use crate::report::Usd;

/// What all advice saves together: no dollar twice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Savings {
    /// What there is to save by better use.
    pub waste_usd: Usd,
    /// Each GPU that has a price, step by step.
    pub gpus: Vec<GpuSavings>,
    /// What each pool saves on its own.
    pub pools: Vec<PoolSavings>,
    /// What all pools save together, of the bill: never more than the waste.
    pub utilization_fraction: Range<f64>,
    /// The same in dollars.
    pub utilization_usd: Range<Usd>,
    /// Whether any advice promised more than there is to save.
    pub capped: bool,
    /// What throughput saves on its own, where tensor activity was measured.
    pub throughput_fraction: Range<f64>,
    /// What the rate saves on its own.
    pub rate_fraction: Range<f64>,
    /// What all of it saves together.
    pub total_fraction: Range<f64>,
    /// The same in dollars.
    pub total_usd: Range<Usd>,
    /// The same in a month of 24 × 30 hours.
    pub monthly_usd: Range<Usd>,
    /// All that is promised, added up: it counts the same waste several times, and is not used.
    pub naive_sum_fraction: f64,
}

/// The savings of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuSavings {
    /// Its name in this report.
    pub gpu: String,
    /// One step for each pool or axis with advice.
    pub steps: Vec<Step>,
}

/// What one piece of advice adds on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The pool of waste, or the axis.
    pub pool: &'static str,
    /// The advice that counts.
    pub from: Source,
    /// What it promises of this GPU's bill.
    pub promised_fraction: Range<f64>,
    /// What of that counts: at most the waste of the pool.
    pub counted_fraction: Range<f64>,
    /// What this step and those before it save of this GPU's bill.
    pub fraction: Range<f64>,
    /// The same in dollars.
    pub usd: Range<Usd>,
}

/// What one pool saves on its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PoolSavings {
    /// Which.
    pub pool: &'static str,
    /// The advice that counts, on one GPU or several.
    pub from: Vec<Source>,
    /// What it saves.
    pub usd: Range<Usd>,
    /// The same, of the bill of all GPUs.
    pub fraction: Range<f64>,
}

/// Names a recommendation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Who gave it.
    pub policy: String,
    /// What that policy calls it.
    pub code: String,
}

impl Savings {
    /// `advice`: what `savings` was worked out from.
    pub(super) fn build(savings: &savings::Savings, advice: &[Recommendation<'_>]) -> Self {
        let pool = |name: &'static str, saved: &Saved| PoolSavings {
            pool: name,
            from: saved.sources.iter().filter_map(|place| Source::of(advice, *place)).collect(),
            usd: saved.usd.into(),
            fraction: saved.fraction.into(),
        };
        Self {
            waste_usd: Usd(savings.waste),
            gpus: savings.gpus.iter().map(|gpu| GpuSavings::build(gpu, advice)).collect(),
            pools: savings
                .by_category
                .iter()
                .map(|(name, saved)| pool(name.name(), saved))
                .collect(),
            utilization_fraction: savings.utilization.fraction.into(),
            utilization_usd: savings.utilization.usd.into(),
            capped: savings.capped,
            throughput_fraction: savings.throughput.fraction.into(),
            rate_fraction: savings.rate.fraction.into(),
            total_fraction: savings.total.fraction.into(),
            total_usd: savings.total.usd.into(),
            monthly_usd: savings.monthly_usd.into(),
            naive_sum_fraction: savings.naive_sum.as_f64(),
        }
    }
}

impl GpuSavings {
    fn build(waterfall: &Waterfall, advice: &[Recommendation<'_>]) -> Self {
        let steps = waterfall.steps.iter().filter_map(|step| {
            Some(Step {
                pool: step.target.name(),
                from: Source::of(advice, step.recommendation)?,
                promised_fraction: step.promised.into(),
                counted_fraction: step.counted.into(),
                fraction: step.fraction.into(),
                usd: step.usd.into(),
            })
        });
        Self { gpu: waterfall.id.clone(), steps: steps.collect() }
    }
}

impl Source {
    fn of(advice: &[Recommendation<'_>], place: usize) -> Option<Self> {
        let advice = advice.get(place)?;
        Some(Self { policy: advice.policy.to_owned(), code: advice.code.to_owned() })
    }
}
