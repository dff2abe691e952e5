//! Policies in the report: their recommendations, the combined savings and the policies themselves.
//!
//! Must not depend on how policies are evaluated.

mod policy;
mod range;
mod recommendation;
mod savings;

pub use policy::{Policy, ReportedError};
pub use range::Range;
pub(super) use recommendation::Need;
pub use recommendation::Recommendation;
pub use savings::{CategorySavings, GpuSavings, Savings, Source, Step};

use phasemeter_meter::reading::Basis;
use phasemeter_meter::savings as meter;
use phasemeter_meter::savings::waterfall::PricedGpu;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::Nanos;

use super::input::{GpuInput, Input};

/// The part of a report that follows from policies.
pub(super) struct PolicySection {
    pub(super) recommendations: Vec<Recommendation>,
    pub(super) needs: Vec<Need>,
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
            needs: input.policies.results.needs().map(Need::from).collect(),
            savings: combined
                .map(|combined| Savings::build(&combined, &recommended, is_month_shown(summaries))),
            policies: policy::all(&input.policies),
        }
    }
}

/// Observed time from which savings are projected to a month.
const MONTH_AFTER: Nanos = Nanos::from_secs(24 * 3_600);

/// Less than a day shows neither how many hours a month are used nor when.
fn is_month_shown(summaries: &[Summary]) -> bool {
    let longest = summaries.iter().map(|summary| summary.accounts.observed().time).max();
    longest.is_some_and(|longest| longest >= MONTH_AFTER)
}

/// A GPU with a bill; `None` if it has no price.
fn priced<'a>(gpu: &GpuInput<'a>, summary: &Summary) -> Option<PricedGpu<'a>> {
    let mut feeds = gpu.meter.feeds();
    let tensor = feeds.any(|it| it.basis() == Basis::GpmTensor && it.is_measured());
    let plan = gpu.price.as_ref().ok().and_then(|price| price.plan);
    PricedGpu::new(&gpu.identity.name, summary, plan, tensor)
}
