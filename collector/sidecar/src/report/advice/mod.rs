//! Advice in the report: what policies recommend, what it saves together, and who was asked.
//!
//! This room must not know how policies are run.

mod policy;
mod range;
mod recommendation;
mod savings;

pub use policy::{Fault, Policy};
pub use range::Range;
pub use recommendation::Recommendation;
pub use savings::{GpuSavings, PoolSavings, Savings, Source, Step};

use phasemeter_meter::reading::Basis;
use phasemeter_meter::savings as core;
use phasemeter_meter::savings::waterfall;
use phasemeter_meter::summary::Summary;

use super::{GpuInput, Input};

/// All of it.
pub(super) struct Advice {
    pub(super) recommendations: Vec<Recommendation>,
    pub(super) savings: Option<Savings>,
    pub(super) policies: Vec<Policy>,
}

impl Advice {
    /// `summaries`: of the GPUs of `input`, in their places.
    pub(super) fn build(input: &Input<'_>, summaries: &[Summary]) -> Self {
        let given: Vec<_> = input.advice.verdicts.recommendations().collect();
        let gpus = input.gpus.iter().zip(summaries);
        let gpus: Vec<_> = gpus.filter_map(|(gpu, summary)| priced(gpu, summary)).collect();
        let advice = given.iter().map(|(policy, given)| given.for_savings(&policy.manifest().name));
        let advice: Vec<_> = advice.collect();
        let together = core::Savings::of(&gpus, &advice);
        let counted =
            |place| together.as_ref().is_some_and(|it| it.counted.get(place) == Some(&true));
        let each = given.iter().enumerate();
        let each = each.map(|(place, (policy, given))| {
            Recommendation::build(policy, given, &gpus, counted(place))
        });
        let mut recommendations: Vec<_> = each.collect();
        recommendations.sort_by(Recommendation::order);
        Self {
            recommendations,
            savings: together.map(|together| Savings::build(&together, &advice)),
            policies: policy::all(&input.advice),
        }
    }
}

/// A GPU whose bill could be smaller; `None` where it has no price.
fn priced<'a>(gpu: &GpuInput<'a>, summary: &Summary) -> Option<waterfall::PricedGpu<'a>> {
    let mut feeds = gpu.meter.feeds();
    let tensor = feeds.any(|it| it.basis() == Basis::GpmTensor && it.is_measured());
    waterfall::PricedGpu::new(&gpu.identity.name, summary, tensor)
}
