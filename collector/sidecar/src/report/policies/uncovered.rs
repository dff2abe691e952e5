//! Waste that no recommendation is about: a large one is never silent.
//!
//! Must not depend on how a report is displayed.

use std::collections::BTreeSet;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::NANOS_PER_HOUR;
use phasemeter_meter::waste::WasteCategory;
use serde::Serialize;

use super::{Need, Recommendation};
use crate::report::input::GpuInput;
use crate::report::value::Usd;

/// Share of the bill from which waste is reported: 1 in 20.
const REPORTED_FROM: i128 = 20;

/// Waste of one category on the GPUs without a recommendation for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UncoveredWaste {
    /// The category.
    pub category: &'static str,
    /// IDs of the GPUs.
    pub gpus: Vec<String>,
    /// Waste in dollars: more than 5% of the bill of all GPUs.
    pub usd: Usd,
    /// The same, of the bill of all GPUs.
    pub fraction: f64,
    /// GPU-hours that cost as much at the mean rate of each GPU.
    pub gpu_hours: f64,
    /// What is missing to recommend something for them.
    pub missing: Vec<String>,
}

/// One entry per category. `priced` are the GPUs that have a price.
pub(super) fn uncovered(
    priced: &[(&GpuInput<'_>, &Summary)],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Vec<UncoveredWaste> {
    let bill: i128 = priced.iter().map(|(_, summary)| summary.accounts.all().cost.0).sum();
    let categories = WasteCategory::ALL.into_iter();
    categories.filter_map(|category| of(category, bill, priced, recommendations, needs)).collect()
}

fn of(
    category: WasteCategory,
    bill: i128,
    priced: &[(&GpuInput<'_>, &Summary)],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Option<UncoveredWaste> {
    let is_about = |it: &&Recommendation| it.target == category.name() || it.kind == "risk";
    let covered: BTreeSet<&String> =
        recommendations.iter().filter(is_about).flat_map(|it| &it.gpus).collect();
    let left = priced.iter().filter(|(gpu, summary)| {
        summary.waste[category].0 > 0 && !covered.contains(&gpu.identity.name)
    });
    let left: Vec<_> = left.collect();
    let waste: i128 = left.iter().map(|(_, summary)| summary.waste[category].0).sum();
    if waste * REPORTED_FROM <= bill {
        return None;
    }
    let gpus: Vec<String> = left.iter().map(|(gpu, _)| gpu.identity.name.clone()).collect();
    let is_missing_here = |need: &&Need| need.gpus.iter().any(|gpu| gpus.contains(gpu));
    let mut missing: Vec<String> =
        needs.iter().filter(is_missing_here).map(|need| need.missing.clone()).collect();
    missing.sort();
    missing.dedup();
    if missing.is_empty() {
        missing.push(decisive(category).to_owned());
    }
    Some(UncoveredWaste {
        category: category.name(),
        usd: Usd(NanoUsd(waste)),
        fraction: waste as f64 / bill as f64,
        gpu_hours: left.iter().map(|(_, summary)| lost_hours(category, summary)).sum(),
        gpus,
        missing,
    })
}

/// Waste as time at the mean rate of the GPU.
fn lost_hours(category: WasteCategory, summary: &Summary) -> f64 {
    let all = summary.accounts.all();
    let share = summary.waste[category].0 as f64 / all.cost.0.max(1) as f64;
    share * all.time.0 as f64 / NANOS_PER_HOUR as f64
}

/// What would decide between the recommendations for a category, if no policy names it.
const fn decisive(category: WasteCategory) -> &'static str {
    match category {
        WasteCategory::Starvation => "a profile of the input pipeline",
        WasteCategory::Idle => "a profile of the pauses",
        WasteCategory::Underload => "sm.activity",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::test_fleet::{TestGpu, bouncing, every_second, input, user_price};

    fn recommendation(target: &'static str, kind: &'static str, gpu: &str) -> Recommendation {
        let range = super::super::Range { low: 0.0, expected: 0.1, high: 0.2 };
        Recommendation {
            policy: "test".to_owned(),
            code: "test".to_owned(),
            kind,
            effort: "low",
            reversible: true,
            target,
            lever: "other".to_owned(),
            title: String::new(),
            action: String::new(),
            rationale: String::new(),
            confidence: 1.0,
            gpus: vec![gpu.to_owned()],
            evidence: std::collections::BTreeMap::new(),
            saving_fraction: range,
            saving_usd: None,
            counted: false,
            remediation: None,
        }
    }

    #[test]
    fn large_waste_without_recommendation_is_reported() {
        let gpus = [
            TestGpu::new(0, user_price("3"), &every_second(840, bouncing)),
            TestGpu::new(1, user_price("3"), &every_second(840, |_| 50)),
            TestGpu::new(2, user_price("3"), &every_second(840, |_| 99)),
        ];
        let input = input("log.csv", &gpus);
        let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
        let priced: Vec<_> = input.gpus.iter().zip(&summaries).collect();
        let of = |recommendations: &[Recommendation], needs: &[Need]| {
            let all = uncovered(&priced, recommendations, needs).into_iter();
            all.map(|it| (it.category, it.gpus.join(" "), it.missing.join(" "))).collect::<Vec<_>>()
        };
        let names: Vec<&str> = gpus.iter().map(|gpu| gpu.identity.name.as_str()).collect();
        let starvation = ("starvation", names[0].to_owned());
        // The others waste too little to change the sentence, but they are named.
        let (category, gpu, missing) = of(&[], &[]).swap_remove(0);
        assert_eq!((category, gpu), starvation);
        assert_eq!(missing, "a profile of the input pipeline");
        assert_eq!(of(&[], &[]).len(), 2, "{:?}", of(&[], &[]));

        // A recommendation covers its own GPU and category; a risk all of its GPU.
        let given = recommendation("starvation", "saving", names[0]);
        assert_eq!(of(&[given], &[]).len(), 1);
        let other = recommendation("idle", "saving", names[0]);
        assert_eq!(of(&[other], &[]).len(), 2);
        let elsewhere = recommendation("starvation", "saving", names[1]);
        assert_eq!(of(&[elsewhere], &[]).len(), 2);
        let risk = recommendation("idle", "risk", names[0]);
        assert_eq!(of(&[risk], &[])[0].0, "underload");

        // What a policy needs for these GPUs is what is missing.
        let need = Need {
            missing: "requests".to_owned(),
            reason: String::new(),
            gpus: vec![names[0].to_owned()],
        };
        assert_eq!(of(&[], &[need])[0].2, "requests");
    }

    #[test]
    fn waste_is_in_dollars_and_equivalent_hours() {
        let gpus = [TestGpu::new(0, user_price("3"), &every_second(3_600, |_| 50))];
        let input = input("log.csv", &gpus);
        let summary = input.gpus[0].meter.summary();
        let found = uncovered(&[(&input.gpus[0], &summary)], &[], &[]).swap_remove(0);
        assert_eq!(found.category, "underload");
        assert_eq!(found.usd, Usd(summary.waste[WasteCategory::Underload]));
        assert!((found.fraction - 0.5).abs() < 0.01, "{found:?}");
        assert!((found.gpu_hours - 0.5).abs() < 0.01, "{found:?}");
    }
}
