//! Policies in the report: their recommendations, the combined savings and the policies themselves.
//!
//! Must not depend on how policies are evaluated.

mod policy;
mod range;
mod recommendation;
mod savings;

pub use policy::{Policy, ReportedError};
pub use range::Range;
pub use recommendation::Recommendation;
pub use savings::{CategorySavings, GpuSavings, Savings, Source, Step};

use phasemeter_meter::reading::Basis;
use phasemeter_meter::savings as meter;
use phasemeter_meter::savings::waterfall::PricedGpu;
use phasemeter_meter::summary::Summary;

use super::input::{GpuInput, Input};

/// The part of a report that follows from policies.
pub(super) struct PolicySection {
    pub(super) recommendations: Vec<Recommendation>,
    pub(super) savings: Option<Savings>,
    pub(super) policies: Vec<Policy>,
}

impl PolicySection {
    /// `summaries` are those of the GPUs of `input`, in the same order.
    pub(super) fn build(input: &Input<'_>, summaries: &[Summary]) -> Self {
        let returned: Vec<_> = input.policies.results.recommendations().collect();
        let gpus = input.gpus.iter().zip(summaries);
        let gpus: Vec<_> = gpus.filter_map(|(gpu, summary)| priced(gpu, summary)).collect();
        let recommended =
            returned.iter().map(|(policy, it)| it.for_savings(&policy.manifest().name));
        let recommended: Vec<_> = recommended.collect();
        let combined = meter::Savings::of(&gpus, &recommended);
        let counted =
            |index| combined.as_ref().is_some_and(|it| it.counted.get(index) == Some(&true));
        let each = returned.iter().enumerate();
        let each = each
            .map(|(index, (policy, it))| Recommendation::build(policy, it, &gpus, counted(index)));
        let mut recommendations: Vec<_> = each.collect();
        recommendations.sort_by(Recommendation::order);
        Self {
            recommendations,
            savings: combined.map(|combined| Savings::build(&combined, &recommended)),
            policies: policy::all(&input.policies),
        }
    }
}

/// A GPU with a bill; `None` if it has no price.
fn priced<'a>(gpu: &GpuInput<'a>, summary: &Summary) -> Option<PricedGpu<'a>> {
    let mut feeds = gpu.meter.feeds();
    let tensor = feeds.any(|it| it.basis() == Basis::GpmTensor && it.is_measured());
    PricedGpu::new(&gpu.identity.name, summary, tensor)
}
