//! Combined savings, at their limits.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_savings::Savings;
use phasemeter_savings::estimate::Estimate;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::recommendation::{Recommendation, Saving, Target};
use phasemeter_savings::waterfall::PricedGpu;

fn saving(value: f64) -> Saving {
    Estimate::of(Fraction::new(value).unwrap())
}

fn savings(advised: &[(Target, Saving)]) -> Savings {
    let gpus = ["a".to_owned()];
    let recommendations: Vec<_> = advised
        .iter()
        .map(|(target, saving)| Recommendation {
            policy: "test",
            code: "test",
            target: *target,
            saving: *saving,
            gpus: &gpus,
            is_saving: true,
            moves_work: false,
        })
        .collect();
    let waste = WasteByCategory { idle: NanoUsd(50), ..WasteByCategory::default() };
    let rate = Rate::new(1).unwrap();
    let gpu = PricedGpu {
        id: "a",
        rate,
        bill: NanoUsd(100),
        lowest_bill: NanoUsd(100),
        waste,
        tensor_measured: false,
        committed: false,
        is_day_observed: true,
    };
    Savings::of(&[gpu], &recommendations).unwrap()
}

const IDLE: Target = Target::ALL[1];

#[test]
fn saving_is_capped_only_above_the_waste() {
    assert!(!savings(&[(IDLE, saving(0.5))]).capped);
    assert!(savings(&[(IDLE, saving(0.500_000_001))]).capped);
}

/// Capacity and risks are no money, and neither is a committed GPU that is used less.
#[test]
fn only_savings_of_uncommitted_gpus_count() {
    let gpus = ["a".to_owned()];
    let (policy, code, target) = ("test", "test", IDLE);
    let recommendation = |is_saving| Recommendation {
        policy,
        code,
        target,
        saving: saving(0.1),
        gpus: &gpus,
        is_saving,
        moves_work: false,
    };
    let waste = WasteByCategory { idle: NanoUsd(50), ..WasteByCategory::default() };
    let rate = Rate::new(1).unwrap();
    let total = |is_saving, committed| {
        let bill = NanoUsd(100);
        let gpu = PricedGpu {
            id: "a",
            rate,
            bill,
            lowest_bill: bill,
            waste,
            tensor_measured: false,
            committed,
            is_day_observed: true,
        };
        let found = Savings::of(&[gpu], &[recommendation(is_saving)]).unwrap();
        assert_eq!(found.counted, [is_saving && !committed]);
        found.total.usd.expected
    };
    assert_eq!(total(true, false), NanoUsd(10));
    assert_eq!(total(false, false), NanoUsd(0));
    assert_eq!(total(true, true), NanoUsd(0));
}

#[test]
fn recommendation_without_saving_does_not_count() {
    let found = savings(&[(IDLE, saving(0.0)), (Target::Rate, saving(0.1))]);
    assert_eq!(found.counted, [false, true]);
    assert_eq!(found.total.usd.expected, NanoUsd(10));
    // Only the idle category has waste.
    assert_eq!(savings(&[(Target::ALL[0], saving(0.3))]).counted, [false]);
}

#[test]
fn target_names_are_distinct() {
    let names: std::collections::BTreeSet<_> =
        Target::ALL.iter().map(|target| target.name()).filter(|name| !name.is_empty()).collect();
    assert_eq!(names.len(), Target::ALL.len());
}
