//! What advice saves: the numbers that are known, and what holds whatever is advised.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use phasemeter_meter::money::{NanoUsd, Rate};
use phasemeter_meter::pool::{Pool, Pools};
use phasemeter_meter::projection::{HOURS_A_MONTH, Projection};
use phasemeter_meter::savings::advice::{Advice, Saving, Target};
use phasemeter_meter::savings::estimate::Estimate;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::savings::waterfall::Gpu;
use phasemeter_meter::savings::{Saved, Savings};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

const STARVATION: Target = Target::Pool(Pool::Starvation);
const IDLE: Target = Target::Pool(Pool::Idle);

fn fraction(value: f64) -> Fraction {
    Fraction::new(value).unwrap()
}

fn usd(dollars: i128) -> NanoUsd {
    NanoUsd(dollars * 1_000_000_000)
}

fn rate(dollars: &str) -> Rate {
    Rate::parse(dollars).unwrap()
}

/// A GPU that cost `bill` dollars, of which so many were wasted in each pool.
fn gpu(id: &str, bill: i128, [starvation, idle, occupancy]: [i128; 3]) -> Gpu<'_> {
    let waste = Pools { starvation: usd(starvation), idle: usd(idle), occupancy: usd(occupancy) };
    Gpu { id, rate: rate("3"), bill: usd(bill), waste, tensor_measured: false }
}

/// Expected to save `expected`; nothing at worst, and twice that at best.
fn advice<'a>(code: &'a str, target: Target, expected: f64, gpus: &'a [String]) -> Advice<'a> {
    let high = fraction((expected * 2.0).min(1.0));
    let saving = Saving { low: Fraction::ZERO, expected: fraction(expected), high };
    Advice { policy: "test", code, target, saving, gpus }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(ToString::to_string).collect()
}

#[test]
fn forty_percent_by_better_use_and_sixty_by_the_rate_are_76() {
    let a = names(&["a"]);
    let advice = [advice("mig", IDLE, 0.4, &a), advice("spot", Target::Rate, 0.6, &a)];
    let savings = Savings::of(&[gpu("a", 100, [0, 50, 0])], &advice).unwrap();
    assert_eq!(savings.utilization.fraction.expected, fraction(0.4));
    assert_eq!(savings.rate.fraction.expected, fraction(0.6));
    assert_eq!(savings.total.fraction.expected, fraction(0.76));
    assert_eq!(savings.total.usd.expected, usd(76));
    assert_eq!(savings.naive_sum, fraction(0.4).plus(fraction(0.6)));
    // $3 × 24 × 30 = $2,160 a month.
    assert_eq!(savings.monthly_usd.expected.to_string(), "1641.600000000");
    // At best 80 % by better use, of which only 50 % are waste, and a rate of nothing.
    assert_eq!(savings.utilization.fraction.high, fraction(0.5));
    assert_eq!(savings.total.fraction.high, Fraction::ONE);
    assert_eq!(savings.total.fraction.low, Fraction::ZERO);
    assert_eq!(savings.counted, [true, true]);
}

#[test]
fn of_200_000_dollars_58_percent_less_are_84_000() {
    let a = names(&["a"]);
    let advice = [advice("dali", STARVATION, 0.3, &a), advice("reserved", Target::Rate, 0.4, &a)];
    let savings = Savings::of(&[gpu("a", 200_000, [60_000, 0, 0])], &advice).unwrap();
    assert_eq!(savings.total.fraction.expected, fraction(0.58));
    assert_eq!(usd(200_000) - savings.total.usd.expected, usd(84_000));
}

#[test]
fn two_levers_on_one_pool_recover_the_same_waste() {
    let a = names(&["a"]);
    let advice = [
        advice("dali", STARVATION, 0.2, &a),
        advice("storage", STARVATION, 0.3, &a),
        advice("mig", IDLE, 0.5, &a),
    ];
    let savings = Savings::of(&[gpu("a", 100, [40, 10, 0])], &advice).unwrap();
    let [waterfall] = savings.gpus.as_slice() else { panic!("one GPU") };
    let told: Vec<_> = waterfall.steps.iter().map(|step| (step.advice, step.capped())).collect();
    assert_eq!(told, [(1, true), (2, true)], "0.3 is 0.6 at best, and there is 0.4");
    assert_eq!(waterfall.steps[0].counted.expected, fraction(0.3));
    assert_eq!(waterfall.steps[1].counted.expected, fraction(0.1), "and not 0.5");
    assert_eq!(waterfall.steps[1].fraction.expected, fraction(0.37), "1 − 0.7 × 0.9");
    assert_eq!(waterfall.steps[1].usd.expected, usd(37));
    assert_eq!(savings.pools[0], (Pool::Starvation, waterfall_saved(&[1], 0, 30, 40)));
    assert_eq!(savings.pools[1], (Pool::Idle, waterfall_saved(&[2], 0, 10, 10)));
    assert_eq!(savings.pools[2], (Pool::Occupancy, waterfall_saved(&[], 0, 0, 0)));
    assert_eq!(savings.counted, [false, true, true]);
    assert!(savings.capped);
}

/// So many of 100 dollars.
fn waterfall_saved(from: &[usize], low: u8, expected: u8, high: u8) -> Saved {
    let percent = Estimate { low, expected, high };
    Saved {
        from: from.to_vec(),
        usd: percent.map(|percent| usd(percent.into())),
        fraction: percent.map(|percent| fraction(f64::from(percent) / 100.0)),
    }
}

#[test]
fn of_equal_savings_the_first_code_counts_then_the_first_policy() {
    let a = names(&["a"]);
    let mps = advice("mps", IDLE, 0.2, &a);
    let mig = advice("mig", IDLE, 0.2, &a);
    let theirs = Advice { policy: "another", ..mig };
    let savings = Savings::of(&[gpu("a", 100, [0, 90, 0])], &[mps, mig, theirs]).unwrap();
    assert_eq!(savings.counted, [false, false, true]);
}

#[test]
fn throughput_counts_where_tensor_activity_was_measured() {
    let both = names(&["a", "b"]);
    let advice = [advice("bf16", Target::Throughput, 0.5, &both)];
    let measured = Gpu { tensor_measured: true, ..gpu("b", 300, [0; 3]) };
    let savings = Savings::of(&[gpu("a", 100, [0; 3]), measured], &advice).unwrap();
    assert_eq!(savings.gpus[0].steps, []);
    assert_eq!(savings.throughput.usd.expected, usd(150));
    assert_eq!(savings.total.fraction.expected, fraction(0.375), "150 of 400 dollars");
    assert_eq!(savings.utilization.fraction, Saving::default());
}

#[test]
fn what_costs_nothing_cannot_cost_less() {
    let a = names(&["a"]);
    let advice = [advice("spot", Target::Rate, 0.6, &a)];
    assert_eq!(Savings::of(&[gpu("a", 0, [0; 3])], &advice), None);
    assert_eq!(Savings::of(&[], &advice), None);
}

/// Eight GPUs bound for one year at $1.82, for three at $1.31, instead of $3.06 on demand.
#[test]
fn a_commitment_saves_what_its_owner_was_told() {
    let yearly = |dollars| rate(dollars).hourly().times(8 * HOURS_A_MONTH * 12);
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

/// Advice that owns its names.
#[derive(Clone, Debug)]
struct Advised {
    policy: &'static str,
    code: &'static str,
    target: Target,
    saving: Saving,
    gpus: Vec<String>,
}

impl Advised {
    fn advice(&self) -> Advice<'_> {
        let Self { policy, code, target, saving, ref gpus } = *self;
        Advice { policy, code, target, saving, gpus }
    }
}

const GPUS: [&str; 3] = ["a", "b", "c"];

fn any_saving() -> impl Strategy<Value = Saving> {
    let percent = prop_oneof![2 => 0..=100_u32, 1 => select(vec![0, 50, 100])];
    prop::array::uniform3(percent).prop_map(|mut percents| {
        percents.sort_unstable();
        let [low, expected, high] = percents.map(|percent| fraction(f64::from(percent) / 100.0));
        Saving { low, expected, high }
    })
}

fn any_advice() -> impl Strategy<Value = Vec<Advised>> {
    let policy = select(vec!["x", "y"]);
    let code = select(vec!["one", "two", "three"]);
    let target = select(Target::ALL.to_vec());
    let gpus = subsequence(names(&GPUS), 1..=GPUS.len());
    let advised = (policy, code, target, any_saving(), gpus).prop_map(
        |(policy, code, target, saving, gpus)| Advised { policy, code, target, saving, gpus },
    );
    prop::collection::vec(advised, 0..12)
}

/// Bills from nothing to beyond a billion dollars, of which anything was wasted.
fn any_gpus() -> impl Strategy<Value = Vec<Gpu<'static>>> {
    let amount = || prop_oneof![Just(0), 0..1_000_i128, 0..1_i128 << 60];
    let gpu = (prop::array::uniform4(amount()), 0..=Rate::MAX, any::<bool>());
    prop::array::uniform3(gpu).prop_map(|gpus| {
        let gpus = GPUS.into_iter().zip(gpus).map(|(id, (parts, nanos, tensor_measured))| {
            let [starvation, idle, occupancy, useful] = parts.map(NanoUsd);
            let waste = Pools { starvation, idle, occupancy };
            let rate = Rate::new(nanos).unwrap();
            Gpu { id, rate, bill: waste.sum() + useful, waste, tensor_measured }
        });
        gpus.collect()
    })
}

fn savings(gpus: &[Gpu<'_>], advised: &[Advised]) -> Option<Savings> {
    let advice: Vec<_> = advised.iter().map(Advised::advice).collect();
    Savings::of(gpus, &advice)
}

fn rises<T: Ord + Copy>(estimate: Estimate<T>) -> bool {
    estimate.low <= estimate.expected && estimate.expected <= estimate.high
}

/// Everything but where the advice stood.
fn amounts(savings: Savings) -> impl PartialEq + std::fmt::Debug {
    let parts = [savings.utilization, savings.throughput, savings.rate, savings.total];
    let pools = savings.pools.map(|(_, saved)| saved);
    let amounts: Vec<_> =
        parts.into_iter().chain(pools).map(|saved| (saved.usd, saved.fraction)).collect();
    let steps: Vec<_> = savings
        .gpus
        .into_iter()
        .map(|gpu| {
            let steps: Vec<_> = gpu.steps.iter().map(|step| (step.counted, step.usd)).collect();
            (gpu.gpu, gpu.bill, gpu.naive_sum, steps)
        })
        .collect();
    (amounts, steps, savings.monthly_usd, savings.capped, savings.naive_sum)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    /// Better use saves no more than was wasted, in each pool and in all, on each GPU and on all
    /// of them; all together saves no more than the bill.
    #[test]
    fn never_above_the_waste_nor_the_bill(gpus in any_gpus(), advised in any_advice()) {
        let Some(savings) = savings(&gpus, &advised) else { return Ok(()) };
        for (gpu, waterfall) in gpus.iter().zip(&savings.gpus) {
            for pool in Pool::ALL {
                let part = waterfall.on(Target::Pool(pool)).high.part_of(gpu.bill);
                prop_assert!(part <= gpu.waste[pool]);
            }
            let utilization = waterfall.utilization().high;
            prop_assert!(utilization.part_of(gpu.bill) <= gpu.waste.sum());
            prop_assert!(waterfall.total().high <= Fraction::ONE);
        }
        for (pool, saved) in &savings.pools {
            prop_assert!(saved.usd.high <= gpus.iter().map(|gpu| gpu.waste[*pool]).sum());
        }
        prop_assert!(savings.utilization.usd.high <= savings.waste);
        prop_assert!(savings.total.usd.high <= gpus.iter().map(|gpu| gpu.bill).sum());
        prop_assert!(savings.total.fraction.high <= Fraction::ONE);
    }

    /// Low ≤ expected ≤ high everywhere, though a cap may make them one.
    #[test]
    fn estimates_rise(gpus in any_gpus(), advised in any_advice()) {
        let Some(savings) = savings(&gpus, &advised) else { return Ok(()) };
        for step in savings.gpus.iter().flat_map(|gpu| &gpu.steps) {
            prop_assert!(rises(step.counted) && rises(step.fraction) && rises(step.usd));
        }
        for saved in [&savings.utilization, &savings.throughput, &savings.rate, &savings.total] {
            prop_assert!(rises(saved.usd) && rises(saved.fraction));
        }
        prop_assert!(rises(savings.monthly_usd));
    }

    /// Dollars of GPUs sum to the fleet's; pools together are at least what they save as one, and
    /// a fleet's fraction is its dollars ÷ its bill, but for what was rounded.
    #[test]
    fn dollars_add_up(gpus in any_gpus(), advised in any_advice()) {
        let Some(savings) = savings(&gpus, &advised) else { return Ok(()) };
        let last = savings.gpus.iter().filter_map(|gpu| gpu.steps.last());
        let sum: NanoUsd = last.map(|step| step.usd.expected).sum();
        prop_assert_eq!(savings.total.usd.expected, sum);
        let pools: NanoUsd = savings.pools.iter().map(|(_, saved)| saved.usd.expected).sum();
        let rounded = i128::try_from(GPUS.len() * Pool::ALL.len()).unwrap();
        prop_assert!(savings.utilization.usd.expected <= pools + NanoUsd(rounded));
        let bill: NanoUsd = gpus.iter().map(|gpu| gpu.bill).sum();
        for saved in [&savings.utilization, &savings.rate, &savings.total] {
            let of_bill = saved.fraction.expected.part_of(bill);
            let rounded = bill.0 / 1_000_000_000 + rounded;
            prop_assert!((of_bill - saved.usd.expected).0.abs() <= rounded);
        }
    }

    #[test]
    fn the_order_of_advice_does_not_matter(
        gpus in any_gpus(),
        (advised, shuffled) in any_advice().prop_flat_map(|advised| {
            (Just(advised.clone()), Just(advised).prop_shuffle())
        }),
    ) {
        let (one, other) = (savings(&gpus, &advised), savings(&gpus, &shuffled));
        prop_assert_eq!(one.map(amounts), other.map(amounts));
    }

    /// Advice with a smaller expected saving than other advice on the same target of the same
    /// GPUs changes nothing but the sum that is not used.
    #[test]
    fn smaller_advice_on_the_same_target_changes_nothing(
        gpus in any_gpus(),
        mut advised in any_advice(),
        larger in any_advice().prop_filter_map("no advice", |advised| advised.first().cloned()),
        other in any_saving(),
    ) {
        let mut larger = larger;
        prop_assume!(other.expected != larger.saving.expected);
        let mut smaller = Advised { saving: other, ..larger.clone() };
        if other.expected > larger.saving.expected {
            std::mem::swap(&mut larger, &mut smaller);
        }
        advised.push(larger);
        let before = savings(&gpus, &advised);
        advised.push(smaller);
        let after = savings(&gpus, &advised);
        prop_assert_eq!(before.is_some(), after.is_some());
        let (Some(before), Some(after)) = (before, after) else { return Ok(()) };
        prop_assert_eq!(&before.total, &after.total);
        prop_assert_eq!(&before.pools, &after.pools);
        prop_assert_eq!(&before.utilization, &after.utilization);
        prop_assert_eq!(before.monthly_usd, after.monthly_usd);
        prop_assert_eq!(before.capped, after.capped);
        prop_assert_eq!([before.counted, vec![false]].concat(), after.counted);
    }
}
