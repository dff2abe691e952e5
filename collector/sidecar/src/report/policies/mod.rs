//! Policies in the report: their recommendations, the combined savings and the policies themselves.
//!
//! Must not depend on how policies are evaluated.

mod policy;
mod range;
mod recommendation;
mod savings;
mod uncovered;

pub use policy::{Policy, ReportedError};
pub use range::Range;
pub use recommendation::Recommendation;
pub(super) use recommendation::{Evidence, Need};
pub use savings::{CategorySavings, GpuSavings, Savings, Source, Step};
pub(super) use uncovered::UncoveredWaste;

use phasemeter_meter::reading::Basis;
use phasemeter_meter::savings as meter;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::waterfall::PricedGpu;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::Nanos;
use phasemeter_rules::recommendation::{Recommendation as Returned, RecommendationKind};

use super::input::{GpuInput, Input};

/// Confidence below which a recommendation is only a hint at what is missing.
const MIN_CONFIDENCE: f64 = 0.2;

/// The part of a report that follows from policies.
pub(super) struct PolicySection {
    pub(super) recommendations: Vec<Recommendation>,
    pub(super) needs: Vec<Need>,
    pub(super) uncovered_waste: Vec<UncoveredWaste>,
    pub(super) savings: Option<Savings>,
    pub(super) policies: Vec<Policy>,
}

impl PolicySection {
    /// `summaries` are those of the GPUs of `input`, in the same order.
    pub(super) fn build(input: &Input<'_>, summaries: &[Summary]) -> Self {
        let results = input.policies.results;
        let (returned, doubtful): (Vec<_>, Vec<_>) =
            results.recommendations().partition(|(_, it)| is_supported(it));
        let gpus = || input.gpus.iter().zip(summaries);
        let priced: Vec<_> = gpus().filter_map(|(gpu, summary)| priced(gpu, summary)).collect();
        let recommended =
            returned.iter().map(|(policy, it)| it.for_savings(&policy.manifest().name));
        let recommended: Vec<_> = recommended.collect();
        let combined = meter::Savings::of(&priced, &recommended);
        let counted =
            |index| combined.as_ref().is_some_and(|it| it.counted.get(index) == Some(&true));
        let each = returned.iter().enumerate();
        let each = each.map(|(index, (policy, it))| {
            Recommendation::build(policy, it, &priced, counted(index))
        });
        let mut recommendations: Vec<_> = each.collect();
        recommendations.sort_by(Recommendation::order);
        let doubtful = doubtful.iter().map(|(policy, it)| Need::for_doubtful(policy, it));
        let needs: Vec<_> = results.needs().map(Need::from).chain(doubtful).collect();
        let all: Vec<_> = gpus().collect();
        Self {
            uncovered_waste: uncovered::uncovered(&all, &recommendations, &needs),
            recommendations,
            needs,
            savings: combined
                .map(|combined| Savings::build(&combined, &recommended, is_month_shown(summaries))),
            policies: policy::all(&input.policies),
        }
    }
}

/// Whether it is more than a hint. A saving of which nothing is expected is none, but a diagnosis promises
/// none.
fn is_supported(it: &Returned) -> bool {
    let saves = it.kind != RecommendationKind::Saving
        || it.lever.is_diagnosis()
        || it.saving.expected != Fraction::ZERO;
    saves && it.confidence.as_f64() >= MIN_CONFIDENCE
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use phasemeter_meter::savings::estimate::Estimate;
    use phasemeter_meter::savings::recommendation::Target;
    use phasemeter_rules::recommendation::Effort;

    use super::*;

    /// Guarantee: a diagnosis is given without a saving; a saving of nothing, and a guess, are not.
    #[test]
    fn diagnosis_needs_no_saving() {
        let given = |lever: &str, kind, high: f64, confidence: f64| {
            let [high, confidence] = [high, confidence].map(|it| Fraction::new(it).unwrap());
            is_supported(&Returned {
                code: "test".to_owned(),
                target: Target::Throughput,
                lever: lever.parse().unwrap(),
                title: String::new(),
                action: String::new(),
                rationale: String::new(),
                saving: Estimate { expected: high, high, ..Estimate::default() },
                confidence,
                evidence: BTreeMap::new(),
                gpus: Vec::new(),
                kind,
                effort: Effort::Low,
                reversible: true,
                remediation: None,
            })
        };
        let saving = RecommendationKind::Saving;
        assert!(given("batch", saving, 0.1, 0.5) && given("measure", saving, 0.0, 0.5));
        assert!(!given("batch", saving, 0.0, 0.5));
        assert!(given("batch", RecommendationKind::Capacity, 0.0, 0.5));
        assert!(!given("measure", saving, 0.0, 0.19) && !given("batch", saving, 0.1, 0.19));
    }
}
