//! Policies in the report: their recommendations, the combined savings and the policies themselves.

mod need;
mod policy;
mod range;
mod ranking;
mod recommendation;
mod savings;
mod stake;
mod trial;
mod uncovered;

pub(super) use need::Need;
pub use policy::{Policy, ReportedError};
pub use range::Range;
pub(super) use recommendation::Evidence;
pub use recommendation::Recommendation;
pub use savings::{CategorySavings, GpuSavings, Savings, Source, Step};
pub(super) use stake::Stake;
pub(super) use trial::{Settlement, Trial};
pub(super) use uncovered::{UncoveredWaste, WasteCoverage};

use phasemeter_meter::quantity::Quantity;
use phasemeter_meter::reading::Basis;
use phasemeter_meter::summary::Summary;
use phasemeter_savings::waterfall::PricedGpu;

use super::input::{GpuInput, Input};

/// A GPU with its summary.
type MeteredGpu<'a> = (&'a GpuInput<'a>, &'a Summary);

/// The part of a report that follows from policies.
pub(super) struct PolicySection {
    pub(super) recommendations: Vec<Recommendation>,
    pub(super) needs: Vec<Need>,
    pub(super) uncovered_waste: Vec<UncoveredWaste>,
    pub(super) waste_coverage: Option<WasteCoverage>,
    pub(super) savings: Option<Savings>,
    pub(super) policies: Vec<Policy>,
}

impl PolicySection {
    /// `summaries` are those of the GPUs of `input`, in the same order.
    pub(super) fn build(input: &Input<'_>, summaries: &[Summary]) -> Self {
        let results = input.policies.results;
        let returned: Vec<_> = results.recommendations().collect();
        let gpus = || input.gpus.iter().zip(summaries);
        let priced: Vec<_> = gpus().filter_map(|(gpu, summary)| priced(gpu, summary)).collect();
        let settled = |index: usize| {
            let (policy, it) = returned.get(index)?;
            trial::settled(&input.provenance.settled, &policy.manifest().name, it)
        };
        let recommended = returned.iter().enumerate().map(|(index, (policy, it))| {
            let saving = settled(index).map(|trial| trial.saving);
            it.for_savings(&policy.manifest().name, saving)
        });
        let recommended: Vec<_> = recommended.collect();
        let combined = phasemeter_savings::Savings::of(&priced, &recommended);
        let counted =
            |index| combined.as_ref().is_some_and(|it| it.counted.get(index) == Some(&true));
        let each = returned.iter().enumerate();
        let each = each.map(|(index, (policy, it))| {
            Recommendation::build(policy, it, settled(index), &priced, counted(index))
        });
        let mut recommendations: Vec<_> = each.collect();
        let all: Vec<_> = gpus().collect();
        ranking::set(&mut recommendations, &all);
        recommendations.sort_by(Recommendation::order);
        ranking::number_trials(&mut recommendations);
        let needs = Need::all(results);
        let run = &input.experiment.attributes;
        let (uncovered_waste, waste_coverage) =
            uncovered::uncovered(run, &all, &recommendations, &needs);
        Self {
            uncovered_waste,
            waste_coverage,
            recommendations,
            needs,
            savings: combined.map(|combined| Savings::build(&combined, &recommended)),
            policies: policy::all(&input.policies),
        }
    }
}

/// A GPU with a bill; `None` if it has no price.
fn priced<'a>(gpu: &GpuInput<'a>, summary: &Summary) -> Option<PricedGpu<'a>> {
    let tensor = gpu.measures(Basis::GpmTensor, Quantity::TensorActivity);
    PricedGpu::new(&gpu.identity.name, summary, gpu.price.as_ref().ok()?, tensor)
}
