//! Waste that no recommendation is about: a large one is never silent.
//!
//! Must not depend on how a report is displayed.

use std::collections::BTreeSet;

use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::pattern::PatternKind;
use phasemeter_meter::phase::Account;
use phasemeter_meter::summary::Summary;
use phasemeter_meter::units::NANOS_PER_HOUR;
use phasemeter_meter::waste::WasteCategory;
use serde::Serialize;

use super::{Need, Recommendation};
use crate::report::input::GpuInput;
use crate::report::value::Usd;

/// How metrics of activity end: of SMs, tensor cores, memory bandwidth and links.
const ACTIVITY: &str = ".activity";

/// Utilization of a full GPU, in ppm.
const FULL_PPM: u32 = 1_000_000;

/// Share of the bill from which waste is reported: 1 in 20.
const REPORTED_FROM: i128 = 20;

/// Share of the waste of a GPU that the high saving of a recommendation must reach to cover it. A recommendation
/// without a saving covers it too.
const COVERS: f64 = 0.25;

/// Waste of one category on the GPUs without a recommendation for it: of those with a price, or without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UncoveredWaste {
    /// The category.
    pub category: &'static str,
    /// IDs of the GPUs.
    pub gpus: Vec<String>,
    /// Waste in dollars: more than 5% of the bill of all GPUs. `None` for GPUs without a price.
    pub usd: Option<Usd>,
    /// The same, of the bill of all GPUs; or of the time of those without a price.
    pub fraction: f64,
    /// GPU-hours that cost as much at the mean rate of each GPU.
    pub gpu_hours: f64,
    /// What is missing to recommend something for them.
    pub missing: Vec<String>,
}

type MeteredGpu<'a> = (&'a GpuInput<'a>, &'a Summary);

/// At most one entry per category for GPUs with a price, and for those without.
pub(super) fn uncovered(
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Vec<UncoveredWaste> {
    let (priced, unpriced): (Vec<_>, Vec<_>) =
        gpus.iter().copied().partition(|(gpu, _)| gpu.price.is_ok());
    let of_category =
        |category| [&priced, &unpriced].map(|gpus| of(category, gpus, recommendations, needs));
    WasteCategory::ALL.into_iter().flat_map(of_category).flatten().collect()
}

/// The waste of these GPUs, all with a price or all without.
fn of(
    category: WasteCategory,
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Option<UncoveredWaste> {
    let covers = |it: &&Recommendation, share: f64| {
        let at_most = it.saving_fraction.high;
        let is_large = at_most <= 0.0 || at_most >= COVERS * share;
        it.kind == "risk" || (it.target == category.name() && is_large)
    };
    let is_left = |gpu: &GpuInput<'_>, share: f64| {
        let mut of_gpu = recommendations.iter().filter(|it| it.gpus.contains(&gpu.identity.name));
        !of_gpu.any(|it| covers(&it, share))
    };
    let all = gpus.iter().map(|(gpu, summary)| (*gpu, Lost::of(category, gpu, summary)));
    let (mut bill, mut waste, mut gpu_hours) = (0, 0, 0.0);
    let mut names = Vec::new();
    for (gpu, lost) in all {
        bill += lost.bill;
        if lost.waste > 0 && is_left(gpu, lost.waste as f64 / lost.bill.max(1) as f64) {
            waste += lost.waste;
            gpu_hours += lost.hours;
            names.push(gpu.identity.name.clone());
        }
    }
    if waste * REPORTED_FROM <= bill {
        return None;
    }
    let is_priced = gpus.iter().all(|(gpu, _)| gpu.price.is_ok());
    Some(UncoveredWaste {
        category: category.name(),
        usd: is_priced.then_some(Usd(NanoUsd(waste))),
        fraction: waste as f64 / bill as f64,
        gpu_hours,
        missing: missing(category, &names, needs),
        gpus: names,
    })
}

/// What the policies name as missing for these GPUs, as far as it can tell the causes of this waste apart.
fn missing(category: WasteCategory, gpus: &[String], needs: &[Need]) -> Vec<String> {
    let is_here = |need: &&Need| need.gpus.iter().any(|gpu| gpus.contains(gpu));
    // Activity is of the time with work.
    let tells =
        |need: &&Need| category == WasteCategory::Underload || !need.missing.ends_with(ACTIVITY);
    let named = needs.iter().filter(is_here).filter(tells).map(|need| need.missing.clone());
    let named: BTreeSet<_> = named.collect();
    if named.is_empty() { vec![decisive(category).to_owned()] } else { named.into_iter().collect() }
}

/// What a GPU lost: in nano-dollars, or in nanoseconds without a price.
struct Lost {
    waste: i128,
    bill: i128,
    /// The waste as time at the mean rate of the GPU.
    hours: f64,
}

impl Lost {
    fn of(category: WasteCategory, gpu: &GpuInput<'_>, summary: &Summary) -> Self {
        let all = summary.accounts.all();
        let (waste, bill) = match gpu.price {
            Ok(_) => (summary.waste[category].0, all.cost.0),
            Err(_) => (lost_time(category, summary), i128::from(all.time.0)),
        };
        let share = waste as f64 / bill.max(1) as f64;
        Self { waste, bill, hours: share * all.time.0 as f64 / NANOS_PER_HOUR as f64 }
    }
}

/// Observed time without its effective part, in nanoseconds: of a bouncing GPU all starvation, as the policies
/// count it.
fn lost_time(category: WasteCategory, summary: &Summary) -> i128 {
    let is_bouncing = summary.pattern.is_some_and(|pattern| pattern.kind == PatternKind::Bouncing);
    let of = |account: &Account| match account {
        _ if is_bouncing => WasteCategory::Starvation,
        Account::IdleHeld | Account::IdleFree | Account::IdleUnknown => WasteCategory::Idle,
        _ => WasteCategory::Underload,
    };
    let accounts = Account::OBSERVED.iter().filter(|account| of(account) == category);
    let lost = accounts.map(|account| {
        let balance = summary.accounts[*account];
        let effective = balance.weighted / u128::from(FULL_PPM);
        i128::from(balance.time.0) - i128::try_from(effective).unwrap_or(i128::MAX)
    });
    lost.sum()
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
    use crate::report::test_fleet::{TestGpu, bouncing, every_second, input, unpriced, user_price};

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
        // One that saves a small part of the waste does not.
        let mut small = recommendation("starvation", "saving", names[0]);
        small.saving_fraction.high = 0.01;
        assert_eq!(of(&[small], &[]).len(), 2);
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
        assert_eq!(found.usd, Some(Usd(summary.waste[WasteCategory::Underload])));
        assert!((found.fraction - 0.5).abs() < 0.01, "{found:?}");
        assert!((found.gpu_hours - 0.5).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn waste_without_a_price_is_in_time() {
        let gpus = [
            TestGpu::new(0, unpriced(), &every_second(3_600, |_| 0)),
            TestGpu::new(1, unpriced(), &every_second(3_600, |_| 100)),
        ];
        let input = input("log.csv", &gpus);
        let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
        let all: Vec<_> = input.gpus.iter().zip(&summaries).collect();
        let found = uncovered(&all, &[], &[]);
        let [idle] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((idle.category, idle.usd, idle.gpus.len()), ("idle", None, 1));
        assert!((idle.fraction - 0.5).abs() < 0.01, "{idle:?}");
        assert!((idle.gpu_hours - 1.0).abs() < 0.01, "{idle:?}");
    }

    #[test]
    fn activity_does_not_explain_time_without_work() {
        let need = |missing: &str| Need {
            missing: missing.to_owned(),
            reason: String::new(),
            gpus: vec!["0".to_owned()],
        };
        let needs = [need("tensor.activity"), need("interval")];
        let of = |category| missing(category, &["0".to_owned()], &needs).join(" ");
        assert_eq!(of(WasteCategory::Idle), "interval");
        assert_eq!(of(WasteCategory::Underload), "interval tensor.activity");
    }
}
