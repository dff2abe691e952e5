//! The savings of a report.

use phasemeter_savings::Saved;
use phasemeter_savings::recommendation::Recommendation;
use phasemeter_savings::waterfall::Waterfall;
use serde::Serialize;

use super::range::Range;
use crate::value::Usd;

/// The combined savings of all recommendations, without double counting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Savings {
    /// Total waste, the limit of savings by utilization.
    pub waste_usd: Usd,
    /// One entry per GPU with a price.
    pub gpus: Vec<GpuSavings>,
    /// The saving of each waste category alone.
    pub by_category: Vec<CategorySavings>,
    /// Combined saving of all waste categories, of the bill; at most the waste.
    pub utilization_fraction: Range<f64>,
    /// The same in dollars.
    pub utilization_usd: Range<Usd>,
    /// Whether any saving was capped.
    pub capped: bool,
    /// Saving by throughput alone, if tensor activity was measured.
    pub throughput_fraction: Range<f64>,
    /// Saving by rate alone.
    pub rate_fraction: Range<f64>,
    /// Combined saving.
    pub total_fraction: Range<f64>,
    /// The same in dollars.
    pub total_usd: Range<Usd>,
    /// The same per month of 24 × 30 hours, of GPUs that were observed for a day; `None` if none was.
    pub monthly_usd: Option<Range<Usd>>,
    /// Sum of all recommendations, for comparison only: it counts the same waste several times.
    pub naive_sum_fraction: f64,
}

/// The savings of one GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GpuSavings {
    /// Its ID in this report.
    pub id: String,
    /// One step per target with a recommendation.
    pub steps: Vec<Step>,
}

/// What one recommendation adds on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The waste category or axis.
    pub target: &'static str,
    /// The recommendation that counts.
    pub source: Source,
    /// Its saving, as a fraction of the bill of this GPU.
    pub promised_fraction: Range<f64>,
    /// The same, capped at the waste of the category.
    pub counted_fraction: Range<f64>,
    /// Combined saving of this step and those before it, of the bill of this GPU.
    pub fraction: Range<f64>,
    /// The same in dollars.
    pub usd: Range<Usd>,
}

/// The saving of one waste category alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CategorySavings {
    /// The category.
    pub category: &'static str,
    /// The recommendations that count on at least one GPU.
    pub sources: Vec<Source>,
    /// Saving in dollars.
    pub usd: Range<Usd>,
    /// The same, of the bill of all GPUs.
    pub fraction: Range<f64>,
}

/// Reference to a recommendation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    /// The policy.
    pub policy: String,
    /// The policy's code.
    pub code: String,
}

impl Savings {
    /// `recommendations` are those that `savings` was computed from.
    pub(super) fn build(
        savings: &phasemeter_savings::Savings,
        recommendations: &[Recommendation<'_>],
    ) -> Self {
        let category = |category: &'static str, saved: &Saved| CategorySavings {
            category,
            sources: saved
                .sources
                .iter()
                .filter_map(|index| Source::of(recommendations, *index))
                .collect(),
            usd: saved.usd.into(),
            fraction: saved.fraction.into(),
        };
        let by_category = savings.by_category.iter();
        Self {
            waste_usd: Usd(savings.waste),
            gpus: savings.gpus.iter().map(|gpu| GpuSavings::build(gpu, recommendations)).collect(),
            by_category: by_category.map(|(it, saved)| category(it.name(), saved)).collect(),
            utilization_fraction: savings.utilization.fraction.into(),
            utilization_usd: savings.utilization.usd.into(),
            capped: savings.capped,
            throughput_fraction: savings.throughput.fraction.into(),
            rate_fraction: savings.rate.fraction.into(),
            total_fraction: savings.total.fraction.into(),
            total_usd: savings.total.usd.into(),
            monthly_usd: savings.monthly_usd.map(Into::into),
            naive_sum_fraction: savings.naive_sum.as_f64(),
        }
    }
}

impl GpuSavings {
    fn build(waterfall: &Waterfall, recommendations: &[Recommendation<'_>]) -> Self {
        let steps = waterfall.steps.iter().filter_map(|step| {
            Some(Step {
                target: step.target.name(),
                source: Source::of(recommendations, step.recommendation)?,
                promised_fraction: step.promised.into(),
                counted_fraction: step.counted.into(),
                fraction: step.fraction.into(),
                usd: step.usd.into(),
            })
        });
        Self { id: waterfall.id.clone(), steps: steps.collect() }
    }
}

impl Source {
    fn of(recommendations: &[Recommendation<'_>], index: usize) -> Option<Self> {
        let it = recommendations.get(index)?;
        Some(Self { policy: it.policy.to_owned(), code: it.code.to_owned() })
    }
}
