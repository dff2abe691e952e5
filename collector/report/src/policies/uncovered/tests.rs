//! Tests of waste that no recommendation is about.

use std::collections::BTreeMap;

use phasemeter_meter::summary::Summary;
use phasemeter_savings::trial::Outcome;

use super::*;
use crate::policies::Range;
use crate::test_fleet::{
    TestGpu, bouncing, every_second, input, open_trial, recommendation, unpriced, user_price,
};

/// In the order of categories. What is reported is the largest first, and all waste is advised, on trial, uncovered or
/// minor.
fn found(
    run: &BTreeMap<String, String>,
    gpus: &[MeteredGpu<'_>],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Vec<UncoveredWaste> {
    let (mut all, coverage) = uncovered(run, gpus, recommendations, needs);
    assert!(all.is_sorted_by(|a, b| a.stake().order(&b.stake()).is_le()), "{all:?}");
    let waste: NanoUsd = gpus.iter().map(|(_, summary)| summary.waste.sum()).sum();
    assert_eq!(coverage.is_some(), gpus.iter().any(|(gpu, _)| gpu.price.is_ok()));
    if let Some(WasteCoverage { advised_usd, trial_usd, uncovered_usd, minor_usd }) = coverage {
        let parts = [advised_usd, trial_usd, uncovered_usd, minor_usd].map(|Usd(usd)| usd);
        assert_eq!(parts.into_iter().sum::<NanoUsd>(), waste);
        assert!(parts.into_iter().all(|part| part >= NanoUsd::ZERO), "{coverage:?}");
    }
    let place =
        |it: &UncoveredWaste| WasteCategory::ALL.iter().position(|c| c.name() == it.category);
    all.sort_by_key(place);
    all
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
        let all = found(&BTreeMap::new(), &priced, recommendations, needs).into_iter();
        all.map(|it| (it.category, it.gpus.join(" "), it.missing.join(" "))).collect::<Vec<_>>()
    };
    let names: Vec<&str> = gpus.iter().map(|gpu| gpu.identity.name.as_str()).collect();
    let starvation = ("starvation", names[0].to_owned());
    let (category, gpu, missing) = of(&[], &[]).swap_remove(0);
    assert_eq!((category, gpu), starvation);
    assert_eq!(missing, "profile");
    assert_eq!(of(&[], &[])[1].1, names[1], "the others waste too little");
    assert_eq!(of(&[], &[]).len(), 2, "{:?}", of(&[], &[]));

    // A recommendation covers its own GPU and category.
    let mut given = recommendation("starvation", "saving", &[names[0]]);
    given.saving_fraction.high = 0.4;
    assert_eq!(of(&[given.clone()], &[]).len(), 1);
    for other in ["idle", "underload"] {
        assert_eq!(of(&[recommendation(other, "saving", &[names[0]])], &[])[0], of(&[], &[])[0]);
    }
    assert_eq!(of(&[recommendation("starvation", "saving", &[names[1]])], &[]).len(), 2);
    // One that saves a small part of the waste, or known time, leaves the rest.
    let rest = |low, high| {
        let mut it = given.clone();
        it.saving_fraction = Range { low, expected: high, high };
        found(&BTreeMap::new(), &priced, &[it], &[])
            .into_iter()
            .find(|it| it.category == "starvation")
    };
    assert_eq!(rest(0.0, 0.4), None);
    let all = found(&BTreeMap::new(), &priced, &[], &[])[0].fraction;
    for (low, high) in [(0.01, 0.03), (0.0, 0.03)] {
        let rest = rest(low, high).unwrap();
        assert!(rest.is_rest && (rest.fraction - (all - high / 3.0)).abs() < 1e-6, "{rest:?}");
    }

    // What a policy needs for these GPUs is what is missing, if it can explain the waste.
    let need = |missing: &str, gpu: &str| Need {
        missing: missing.to_owned(),
        reason: String::new(),
        gpus: vec![gpu.to_owned()],
    };
    assert_eq!(of(&[], &[need("requests", names[0])])[0].2, "requests");
    for unrelated in [need("provider", names[0]), need("requests", names[2])] {
        assert_eq!(of(&[], &[unrelated]), of(&[], &[]));
    }
}

#[test]
fn waste_is_in_dollars_and_equivalent_hours() {
    let gpus = [TestGpu::new(0, user_price("3"), &every_second(3_600, |_| 50))];
    let input = input("log.csv", &gpus);
    let summary = input.gpus[0].meter.summary();
    let found = found(&BTreeMap::new(), &[(&input.gpus[0], &summary)], &[], &[]).swap_remove(0);
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
    let found = found(&BTreeMap::new(), &all, &[], &[]);
    let [idle] = found.as_slice() else { panic!("{found:?}") };
    assert_eq!((idle.category, idle.usd, idle.gpus.len()), ("idle", None, 1));
    assert!((idle.fraction - 0.5).abs() < 0.01, "{idle:?}");
    assert!((idle.gpu_hours - 1.0).abs() < 0.01, "{idle:?}");
}

#[test]
fn activity_does_not_explain_time_without_work() {
    let gpus = [
        TestGpu::new(0, user_price("3"), &every_second(3_600, |_| 0)),
        TestGpu::new(1, user_price("3"), &every_second(3_600, |_| 50)),
    ];
    let input = input("log.csv", &gpus);
    let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
    let all: Vec<_> = input.gpus.iter().zip(&summaries).collect();
    let ids: Vec<_> = gpus.iter().map(|gpu| gpu.identity.name.clone()).collect();
    let need = |missing: &str| Need {
        missing: missing.to_owned(),
        reason: String::new(),
        gpus: ids.clone(),
    };
    let found = found(&BTreeMap::new(), &all, &[], &[need("sm.activity"), need("interval")]);
    let missing: Vec<_> = found.iter().map(|it| it.missing.join(" ")).collect();
    assert_eq!(missing, ["interval", "sm.activity interval"]);
}

/// GPUs with constant utilization, their waste, and what recommendations for them leave.
fn left(
    loads: &[u32],
    run: &[(&str, &str)],
    recommendations: &[Recommendation],
    needs: &[Need],
) -> Vec<UncoveredWaste> {
    let load = |(index, load): (usize, &u32)| {
        let index = u32::try_from(index).unwrap();
        TestGpu::new(index, user_price("3"), &every_second(3_600, |_| *load))
    };
    let gpus: Vec<_> = loads.iter().enumerate().map(load).collect();
    let input = input("log.csv", &gpus);
    let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
    let all: Vec<_> = input.gpus.iter().zip(&summaries).collect();
    let run = run.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    found(&run, &all, recommendations, needs)
}

#[test]
fn risk_comes_before_what_is_missing_and_hides_no_waste() {
    let risk = |gpu| Recommendation {
        code: "health.hang".to_owned(),
        saving_fraction: Range { low: 0.0, expected: 0.0, high: 0.0 },
        ..recommendation("throughput", "risk", &[gpu])
    };
    let need = |gpus: &[&str]| Need {
        missing: "requests".to_owned(),
        reason: String::new(),
        gpus: gpus.iter().map(|&gpu| gpu.to_owned()).collect(),
    };
    let of = |loads: &[u32], risks: &[Recommendation], needs: &[Need]| {
        let it = left(loads, &[], risks, needs).swap_remove(0);
        (it.category, it.risks.join(" "), it.missing.join(" "))
    };
    let hang = || "health.hang".to_owned();
    assert_eq!(of(&[0], &[risk("0"), risk("0")], &[need(&["0"])]), ("idle", hang(), String::new()));
    // Of a small part, it does not replace what is missing for the others.
    let needs = [need(&["0", "1", "2"])];
    let both = ("underload", hang(), "requests".to_owned());
    assert_eq!(of(&[50, 50, 50], &[risk("2")], &needs), both);
    assert_eq!(of(&[50, 50, 50], &[risk("2")], &[]), ("underload", hang(), String::new()));
    // Others of its node may be of the same job, if no policy needs anything else for them.
    assert_eq!(of(&[50, 100], &[risk("1")], &[]), ("underload", hang(), String::new()));
    let needed = ("underload", String::new(), "requests".to_owned());
    assert_eq!(of(&[50, 100], &[risk("1")], &[need(&["0"])]), needed);
}

#[test]
fn idle_time_ends_with_gpus_that_are_returned() {
    let scaling = |lever: &str, high| Recommendation {
        lever: lever.parse().unwrap(),
        saving_fraction: Range { low: 0.0, expected: high / 2.0, high },
        ..recommendation("underload", "saving", &["0"])
    };
    // The hour is half idle, half at 50%.
    let gpus = [TestGpu::new(
        0,
        user_price("3"),
        &every_second(3_600, |at| if at < 1_800 { 0 } else { 50 }),
    )];
    let input = input("log.csv", &gpus);
    let summary = input.gpus[0].meter.summary();
    let idle = |it: Recommendation| {
        let all = found(&BTreeMap::new(), &[(&input.gpus[0], &summary)], &[it], &[]);
        all.into_iter().find(|it| it.category == "idle").map(|it| it.fraction)
    };
    assert_eq!(idle(scaling("autoscale", 0.3)), None);
    assert!(idle(scaling("batch", 0.3)).is_some_and(|left| (left - 0.5).abs() < 0.01));
    assert!(idle(scaling("autoscale", 0.1)).is_some_and(|left| (left - 0.5).abs() < 0.01));
    let certain = Range { low: 0.1, expected: 0.4, high: 0.4 };
    let certain = Recommendation { saving_fraction: certain, ..scaling("replicas", 0.4) };
    assert!(idle(certain).is_some_and(|left| (left - 0.35).abs() < 0.01), "beyond the underload");
}

#[test]
fn usual_cause_depends_on_workload_and_load() {
    let usual = |load: u32, kind: &str| {
        let run = [("phasemeter.workload", kind)];
        left(&[load], &run, &[], &[]).swap_remove(0).missing.join(" ")
    };
    assert_eq!(usual(0, "interactive"), "sessions");
    assert_eq!(usual(0, "serving"), "requests");
    assert_eq!(usual(0, "training"), "stack_dump", "its memory is held");
    assert_eq!(usual(50, "serving"), "requests");
    assert_eq!(usual(50, "batch"), "sm.activity");
    assert_eq!(usual(92, "batch"), "profile", "a full GPU");
}

/// Guarantee: waste that only trials are about is not advised, and of one that was refuted it is uncovered.
#[test]
fn waste_of_trials_is_not_advised() {
    let gpus = [TestGpu::new(0, user_price("3"), &every_second(840, bouncing))];
    let input = input("log.csv", &gpus);
    let summaries: Vec<Summary> = input.gpus.iter().map(|gpu| gpu.meter.summary()).collect();
    let priced: Vec<_> = input.gpus.iter().zip(&summaries).collect();
    let of = |recommendations: &[Recommendation]| {
        let coverage = uncovered(&BTreeMap::new(), &priced, recommendations, &[]).1.unwrap();
        [coverage.advised_usd, coverage.trial_usd, coverage.uncovered_usd].map(|Usd(usd)| usd.0 > 0)
    };
    let mut proved = recommendation("starvation", "saving", &[&gpus[0].identity.name]);
    proved.saving_fraction.high = 0.4;
    assert_eq!(of(&[proved.clone()]), [true, false, false]);
    let tried = |settled| Recommendation { trial: Some(open_trial(settled)), ..proved.clone() };
    assert_eq!(of(&[tried(None)]), [false, true, false]);
    assert_eq!(of(&[tried(None), proved.clone()]), [true, false, false]);
    assert_eq!(of(&[tried(Some(Outcome::Saves))]), [true, false, false]);
    assert_eq!(of(&[tried(Some(Outcome::NoDifference))]), [false, false, true]);
}
