//! Savings: worked examples, and invariants for any recommendations.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

#[path = "savings/generated.rs"]
mod generated;

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::projection::{HOURS_PER_MONTH, Projection};
use phasemeter_meter::waste::{WasteByCategory, WasteCategory};
use phasemeter_savings::estimate::Estimate;
use phasemeter_savings::fraction::Fraction;
use phasemeter_savings::recommendation::{Recommendation, Saving, Target};
use phasemeter_savings::waterfall::PricedGpu;
use phasemeter_savings::{Saved, Savings};
use proptest::prelude::*;

use crate::generated::{
    GPUS, OwnedRecommendation, any_gpus, any_recommendations, any_saving, savings,
};

const STARVATION: Target = Target::Waste(WasteCategory::Starvation);
const IDLE: Target = Target::Waste(WasteCategory::Idle);

fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

fn usd(dollars: i128) -> NanoUsd {
    NanoUsd(dollars * 1_000_000_000)
}

fn rate(dollars: &str) -> Rate {
    Rate::parse(dollars).unwrap()
}

/// A GPU with a bill of `bill` dollars and this waste per category.
fn gpu(id: &str, bill: i128, [starvation, idle, underload]: [i128; 3]) -> PricedGpu<'_> {
    let waste =
        WasteByCategory { starvation: usd(starvation), idle: usd(idle), underload: usd(underload) };
    PricedGpu {
        id,
        rate: rate("3"),
        bill: usd(bill),
        lowest_bill: usd(bill),
        waste,
        tensor_measured: false,
        committed: false,
        is_day_observed: true,
    }
}

/// A recommendation that saves `expected`, nothing at low and twice that at high.
fn recommendation<'a>(
    code: &'a str,
    target: Target,
    expected: f64,
    gpus: &'a [String],
) -> Recommendation<'a> {
    let high = fraction((expected * 2.0).min(1.0));
    let saving = Saving { low: Fraction::ZERO, expected: fraction(expected), high };
    Recommendation {
        policy: "test",
        code,
        target,
        saving,
        gpus,
        is_saving: true,
        moves_work: false,
    }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn utilization_40_and_rate_60_percent_combine_to_76() {
    let a = names(&["a"]);
    let recommendations =
        [recommendation("mig", IDLE, 0.4, &a), recommendation("spot", Target::Rate, 0.6, &a)];
    let savings = Savings::of(&[gpu("a", 100, [0, 50, 0])], &recommendations).unwrap();
    assert_eq!(savings.utilization.fraction.expected, fraction(0.4));
    assert_eq!(savings.rate.fraction.expected, fraction(0.6));
    assert_eq!(savings.total.fraction.expected, fraction(0.76));
    assert_eq!(savings.total.usd.expected, usd(76));
    assert_eq!(savings.naive_sum, fraction(0.4).plus(fraction(0.6)));
    // $3 × 24 × 30 = $2,160 per month.
    assert_eq!(savings.monthly_usd.unwrap().expected.to_string(), "1641.600000000");
    // High: 80% by utilization, of which only 50% is waste, and a rate of zero.
    assert_eq!(savings.utilization.fraction.high, fraction(0.5));
    assert_eq!(savings.total.fraction.high, Fraction::ONE);
    assert_eq!(savings.total.fraction.low, Fraction::ZERO);
    assert_eq!(savings.counted, [true, true]);
}

#[test]
fn bill_of_200_000_usd_drops_by_58_percent_to_84_000() {
    let a = names(&["a"]);
    let recommendations = [
        recommendation("dali", STARVATION, 0.3, &a),
        recommendation("reserved", Target::Rate, 0.4, &a),
    ];
    let savings = Savings::of(&[gpu("a", 200_000, [60_000, 0, 0])], &recommendations).unwrap();
    assert_eq!(savings.total.fraction.expected, fraction(0.58));
    assert_eq!(usd(200_000) - savings.total.usd.expected, usd(84_000));
}

#[test]
fn recommendations_for_one_category_recover_the_same_waste() {
    let a = names(&["a"]);
    let recommendations = [
        recommendation("dali", STARVATION, 0.2, &a),
        recommendation("storage", STARVATION, 0.3, &a),
        recommendation("mig", IDLE, 0.5, &a),
    ];
    let savings = Savings::of(&[gpu("a", 100, [40, 10, 0])], &recommendations).unwrap();
    let [waterfall] = savings.gpus.as_slice() else { panic!("one GPU") };
    let counted: Vec<_> =
        waterfall.steps.iter().map(|step| (step.recommendation, step.capped())).collect();
    assert_eq!(counted, [(1, true), (2, true)], "0.3 is 0.6 at high, capped at 0.4");
    assert_eq!(waterfall.steps[0].counted.expected, fraction(0.3));
    assert_eq!(waterfall.steps[1].counted.expected, fraction(0.1), "capped from 0.5");
    assert_eq!(waterfall.steps[1].fraction.expected, fraction(0.37), "1 − 0.7 × 0.9");
    assert_eq!(waterfall.steps[1].usd.expected, usd(37));
    assert_eq!(savings.by_category[0], (WasteCategory::Starvation, saved_percent(&[1], 0, 30, 40)));
    assert_eq!(savings.by_category[1], (WasteCategory::Idle, saved_percent(&[2], 0, 10, 10)));
    assert_eq!(savings.by_category[2], (WasteCategory::Underload, saved_percent(&[], 0, 0, 0)));
    assert_eq!(savings.counted, [false, true, true]);
    assert!(savings.capped);
}

/// Savings in percent of 100 dollars.
fn saved_percent(sources: &[usize], low: u8, expected: u8, high: u8) -> Saved {
    let percent = Estimate { low, expected, high };
    Saved {
        sources: sources.to_vec(),
        usd: percent.map(|percent| usd(percent.into())),
        fraction: percent.map(|percent| fraction(f64::from(percent) / 100.0)),
    }
}

#[test]
fn equal_savings_tie_break_by_code_then_policy() {
    let a = names(&["a"]);
    let mps = recommendation("mps", IDLE, 0.2, &a);
    let mig = recommendation("mig", IDLE, 0.2, &a);
    let other_policy = Recommendation { policy: "another", ..mig };
    let savings = Savings::of(&[gpu("a", 100, [0, 90, 0])], &[mps, mig, other_policy]).unwrap();
    assert_eq!(savings.counted, [false, false, true]);
}

#[test]
fn throughput_counts_only_if_tensor_activity_is_measured() {
    let both = names(&["a", "b"]);
    let recommendations = [recommendation("bf16", Target::Throughput, 0.5, &both)];
    let measured = PricedGpu { tensor_measured: true, ..gpu("b", 300, [0; 3]) };
    let savings = Savings::of(&[gpu("a", 100, [0; 3]), measured], &recommendations).unwrap();
    assert_eq!(savings.gpus[0].steps, []);
    assert_eq!(savings.throughput.usd.expected, usd(150));
    assert_eq!(savings.total.fraction.expected, fraction(0.375), "150 of 400 dollars");
    assert_eq!(savings.utilization.fraction, Saving::default());
}

/// A GPU is shared or replaced, not both, whatever the targets.
#[test]
fn alternatives_on_different_targets_do_not_add_up() {
    let a = names(&["a"]);
    let moves = |it| Recommendation { moves_work: true, ..it };
    let recommendations = [
        moves(recommendation("divide", IDLE, 0.2, &a)),
        moves(recommendation("smaller", Target::Rate, 0.3, &a)),
        recommendation("spot", Target::Rate, 0.1, &a),
    ];
    let savings = Savings::of(&[gpu("a", 100, [0, 90, 0])], &recommendations).unwrap();
    assert_eq!(savings.counted, [false, true, false]);
    assert_eq!(savings.total.usd.expected, usd(30));
    // The waste caps the larger promise.
    let savings = Savings::of(
        &[gpu("a", 100, [0, 90, 0])],
        &[
            moves(recommendation("divide", IDLE, 0.2, &a)),
            moves(recommendation("balance", STARVATION, 0.3, &a)),
        ],
    );
    assert_eq!(savings.unwrap().total.usd.expected, usd(20));
}

#[test]
fn estimated_price_promises_no_more_than_its_lowest() {
    let a = names(&["a"]);
    let saving = Estimate::of(fraction(0.5));
    let release = Recommendation { saving, ..recommendation("release", IDLE, 0.5, &a) };
    let estimated = PricedGpu { lowest_bill: usd(60), ..gpu("a", 100, [0, 90, 0]) };
    let savings = Savings::of(&[estimated], &[release]).unwrap();
    assert_eq!(savings.total.usd, Estimate { low: usd(30), expected: usd(50), high: usd(50) });
}

#[test]
fn month_is_of_gpus_that_were_observed_for_a_day() {
    let both = names(&["a", "b"]);
    let spot = [recommendation("spot", Target::Rate, 0.5, &both)];
    let short = |id| PricedGpu { is_day_observed: false, ..gpu(id, 100, [0; 3]) };
    let monthly = |gpus: &[PricedGpu<'_>]| Savings::of(gpus, &spot).unwrap().monthly_usd;
    assert_eq!(monthly(&[short("a"), short("b")]), None);
    // $3 × 24 × 30 = $2,160 per month.
    assert_eq!(monthly(&[gpu("a", 100, [0; 3]), short("b")]).unwrap().expected, usd(1_080));
}

#[test]
fn zero_bill_has_no_savings() {
    let a = names(&["a"]);
    let recommendations = [recommendation("spot", Target::Rate, 0.6, &a)];
    assert_eq!(Savings::of(&[gpu("a", 0, [0; 3])], &recommendations), None);
    assert_eq!(Savings::of(&[], &recommendations), None);
}

/// Eight GPUs committed for one year at $1.82, or for three at $1.31, instead of $3.06 on demand.
#[test]
fn commitment_savings_match_worked_example() {
    let yearly = |dollars| rate(dollars).hourly().times(8 * HOURS_PER_MONTH * 12);
    let on_demand = yearly("3.06");
    assert_eq!(on_demand.to_string(), "211507.200000000");
    for (dollars, cost, saved, percent) in [
        ("1.82", "125798.400000000", "85708.800000000", "40.5"),
        ("1.31", "90547.200000000", "120960.000000000", "57.2"),
    ] {
        let saving = on_demand - yearly(dollars);
        assert_eq!(yearly(dollars).to_string(), cost);
        assert_eq!(saving.to_string(), saved);
        let fraction = Fraction::of(saving, on_demand).unwrap().as_f64();
        assert_eq!(format!("{:.1}", fraction * 100.0), percent);
    }
    assert_eq!(Projection::of(rate("1.31").hourly()).yearly.to_string(), "11475.600000000");
}

fn is_ordered<T: Ord + Copy>(estimate: Estimate<T>) -> bool {
    estimate.low <= estimate.expected && estimate.expected <= estimate.high
}

/// Everything but indexes of recommendations.
fn amounts(savings: Savings) -> impl PartialEq + std::fmt::Debug {
    let parts = [savings.utilization, savings.throughput, savings.rate, savings.total];
    let categories = savings.by_category.map(|(_, saved)| saved);
    let amounts: Vec<_> =
        parts.into_iter().chain(categories).map(|saved| (saved.usd, saved.fraction)).collect();
    let steps: Vec<_> = savings
        .gpus
        .into_iter()
        .map(|gpu| {
            let steps: Vec<_> = gpu.steps.iter().map(|step| (step.counted, step.usd)).collect();
            (gpu.id, gpu.bill, gpu.naive_sum, steps)
        })
        .collect();
    (amounts, steps, savings.monthly_usd, savings.capped, savings.naive_sum)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Utilization savings never exceed the waste, per category and in total, per GPU and over the
    /// fleet; all savings together never exceed the bill.
    #[test]
    fn savings_never_exceed_waste_or_bill(gpus in any_gpus(), owned in any_recommendations()) {
        let Some(savings) = savings(&gpus, &owned) else { return Ok(()) };
        for (gpu, waterfall) in gpus.iter().zip(&savings.gpus) {
            for category in WasteCategory::ALL {
                let part = waterfall.on(Target::Waste(category)).high.part_of(gpu.bill);
                prop_assert!(part <= gpu.waste[category]);
            }
            let utilization = waterfall.utilization().high;
            prop_assert!(utilization.part_of(gpu.bill) <= gpu.waste.sum());
            prop_assert!(waterfall.total().high <= Fraction::ONE);
        }
        for (category, saved) in &savings.by_category {
            prop_assert!(saved.usd.high <= gpus.iter().map(|gpu| gpu.waste[*category]).sum());
        }
        prop_assert!(savings.utilization.usd.high <= savings.waste);
        prop_assert!(savings.total.usd.high <= gpus.iter().map(|gpu| gpu.bill).sum());
        prop_assert!(savings.total.fraction.high <= Fraction::ONE);
    }

    /// Low ≤ expected ≤ high everywhere; a cap may make them equal.
    #[test]
    fn estimates_are_ordered(gpus in any_gpus(), owned in any_recommendations()) {
        let Some(savings) = savings(&gpus, &owned) else { return Ok(()) };
        for step in savings.gpus.iter().flat_map(|gpu| &gpu.steps) {
            prop_assert!(is_ordered(step.counted) && is_ordered(step.fraction) && is_ordered(step.usd));
        }
        for saved in [&savings.utilization, &savings.throughput, &savings.rate, &savings.total] {
            prop_assert!(is_ordered(saved.usd) && is_ordered(saved.fraction));
        }
        prop_assert!(savings.monthly_usd.is_none_or(is_ordered));
    }

    /// Dollars of GPUs sum to the fleet's. Categories add up to at least their combined saving. The
    /// fleet's fraction is its dollars ÷ its bill, up to rounding.
    #[test]
    fn fleet_dollars_are_sum_of_gpus(gpus in any_gpus(), owned in any_recommendations()) {
        let Some(savings) = savings(&gpus, &owned) else { return Ok(()) };
        let last = savings.gpus.iter().filter_map(|gpu| gpu.steps.last());
        let sum: NanoUsd = last.map(|step| step.usd.expected).sum();
        prop_assert_eq!(savings.total.usd.expected, sum);
        let categories: NanoUsd = savings.by_category.iter().map(|(_, saved)| saved.usd.expected).sum();
        let rounded = i128::try_from(GPUS.len() * WasteCategory::ALL.len()).unwrap();
        prop_assert!(savings.utilization.usd.expected <= categories + NanoUsd(rounded));
        let bill: NanoUsd = gpus.iter().map(|gpu| gpu.bill).sum();
        for saved in [&savings.utilization, &savings.rate, &savings.total] {
            let of_bill = saved.fraction.expected.part_of(bill);
            let rounded = bill.0 / 1_000_000_000 + rounded;
            prop_assert!((of_bill - saved.usd.expected).0.abs() <= rounded);
        }
    }

    #[test]
    fn recommendation_order_changes_nothing(
        gpus in any_gpus(),
        (owned, shuffled) in any_recommendations().prop_flat_map(|owned| {
            (Just(owned.clone()), Just(owned).prop_shuffle())
        }),
    ) {
        let (one, other) = (savings(&gpus, &owned), savings(&gpus, &shuffled));
        prop_assert_eq!(one.map(amounts), other.map(amounts));
    }

    /// A recommendation with a smaller expected saving than another for the same target and GPUs
    /// changes only the naive sum.
    #[test]
    fn smaller_saving_on_same_target_changes_nothing(
        gpus in any_gpus(),
        mut owned in any_recommendations(),
        larger in any_recommendations().prop_filter_map("no recommendation", |owned| owned.first().cloned()),
        other in any_saving(),
    ) {
        let mut larger = larger;
        prop_assume!(other.expected != larger.saving.expected);
        let mut smaller = OwnedRecommendation { saving: other, ..larger.clone() };
        if other.expected > larger.saving.expected {
            std::mem::swap(&mut larger, &mut smaller);
        }
        owned.push(larger);
        let before = savings(&gpus, &owned);
        owned.push(smaller);
        let after = savings(&gpus, &owned);
        prop_assert_eq!(before.is_some(), after.is_some());
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        prop_assert_eq!(&before.total, &after.total);
        prop_assert_eq!(&before.by_category, &after.by_category);
        prop_assert_eq!(&before.utilization, &after.utilization);
        prop_assert_eq!(before.monthly_usd, after.monthly_usd);
        prop_assert_eq!(before.capped, after.capped);
        prop_assert_eq!([before.counted, vec![false]].concat(), after.counted);
    }
}
