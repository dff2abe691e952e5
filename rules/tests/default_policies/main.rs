//! The default policies: each module of `wasm-rules/dist` in the real host, on windows from the real
//! meter.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod dist;
mod fleet;
#[path = "../support/mod.rs"]
mod support;

use std::cmp::Reverse;

use fleet::{Recorded, Second, any_fleet, bouncing, fleet, fleet_window, seconds, window};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation::{Recommendation, Target};
use phasemeter_rules::window::{Accounts, Gpu, Window};
use phasemeter_savings::fraction::Fraction;
use proptest::prelude::*;

fn host() -> Host {
    Host::new(Options { limits: support::patient(), ..Options::default() }).unwrap()
}

/// The default policies with their default settings.
fn policies() -> Vec<Policy> {
    let host = host();
    let load = |(name, module)| host.load(Candidate::new(name, module)).unwrap();
    support::default_policies().into_iter().map(load).collect()
}

/// The recommenders among them.
fn recommenders() -> Vec<Policy> {
    policies().into_iter().filter(|policy| policy.kind() == Kind::Recommender).collect()
}

/// All recommendations on a window, by descending saving.
fn recommendations(policies: &[Policy], window: &Window) -> Vec<Recommendation> {
    let mut all: Vec<_> = policies
        .iter()
        .flat_map(|policy| {
            let evaluation = policy.recommend(window).unwrap();
            let response = evaluation.result.unwrap_or_else(|error| panic!("{policy:?}: {error}"));
            let own = [&*policy.manifest().name, "."].concat();
            for one in &response.recommendations {
                assert!(one.code.starts_with(&own), "{policy:?}: {}", one.code);
            }
            response.recommendations
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.saving.expected));
    all
}

/// The levers of the recommendations that target waste, in the same order.
fn levers(all: &[Recommendation]) -> Vec<&'static str> {
    let on_waste = all.iter().filter(|one| matches!(one.target, Target::Waste(_)));
    on_waste.map(|one| one.lever.name()).collect()
}

/// Scenario: eight GPUs, each with the problem it has in the demo.
/// Guarantee: the recommendations on the waste of each GPU are those for its problem, and no others.
#[test]
fn recommended_levers_match_each_problem() {
    let policies = recommenders();
    let window = fleet_window(&fleet());
    let all = recommendations(&policies, &window);
    for one in &all {
        let saving = one.saving.map(Fraction::as_f64);
        println!(
            "{:<24} {:<18} {:.2} {:.2} {:.2}  confidence {:.2}  {}\n    {}\n    {}",
            one.code,
            one.lever.name(),
            saving.low,
            saving.expected,
            saving.high,
            one.confidence.as_f64(),
            one.gpus.join(" "),
            one.action,
            one.rationale,
        );
    }
    let found = |index: usize| -> Vec<&str> {
        let id = format!("GPU-{index}");
        let own = all.iter().filter(|one| one.gpus.contains(&id));
        levers(&own.cloned().collect::<Vec<_>>())
    };
    assert_eq!(found(0), ["num_workers", "dali"]);
    assert_eq!(found(1), found(0));
    assert_eq!(found(2), ["batch"]);
    assert_eq!(found(3), ["dynamic_batching"]);
    // The team of the run holds it, and does not use it.
    assert_eq!(found(6), ["mig", "chargeback"]);
    assert_eq!(found(7), ["overlap"]);
    assert!(found(4).is_empty(), "it is compute-bound throughout");
    let precise = |one: &Recommendation| one.target == Target::Throughput;
    assert!(!all.iter().any(precise), "tensor activity was not measured");
    let uncertain = all.iter().all(|one| one.saving.low == Fraction::ZERO);
    assert!(uncertain, "each needs a trial or a tenant");
}

/// Scenario: two GPUs with a mean utilization of 50%, one bouncing and one steady.
/// Guarantee: the first recommendation differs.
#[test]
fn recommendation_depends_on_pattern_not_mean() {
    let policies = recommenders();
    let recorded = Recorded::All { memory_mib: 40_000, watts: 400 };
    let first = |percent: fn(u64) -> Option<u32>| {
        let window = window(&[seconds(3_600, recorded, percent)]);
        levers(&recommendations(&policies, &window))[0]
    };
    assert_eq!(first(|second| Some(if second % 40 < 20 { 100 } else { 0 })), "num_workers");
    assert_eq!(first(|_| Some(50)), "batch");
}

/// Scenario: a GPU is steadily 80% utilized.
/// Guarantee: the only recommendation on its waste is to overlap work, and saves at most 10%.
#[test]
fn steady_80_percent_saves_at_most_10_percent() {
    let recorded = Recorded::All { memory_mib: 60_000, watts: 500 };
    let all = recommendations(&recommenders(), &window(&[seconds(3_600, recorded, |_| Some(80))]));
    let own: Vec<_> = all.iter().filter(|one| one.target != Target::Rate).collect();
    assert_eq!(levers(&all), ["overlap"]);
    assert!(own.iter().all(|one| one.saving.high.as_f64() <= 0.1), "{own:?}");
}

/// What the policies report as missing.
fn missing(policies: &[Policy], window: &Window) -> Vec<(String, Vec<String>)> {
    let responses = policies.iter().map(|policy| policy.recommend(window).unwrap().result.unwrap());
    responses.flat_map(|it| it.needs).map(|need| (need.missing, need.gpus)).collect()
}

/// Scenario: the same fleet, with neither memory nor power recorded.
/// Guarantee: no lever that depends on memory is recommended, the evidence has no memory or power
/// values, and the missing columns are needs.
#[test]
fn missing_columns_are_not_used() {
    let utilization_only = fleet().into_iter().map(|gpu| {
        let strip = |second: Second| Second { memory_mib: None, watts: None, ..second };
        gpu.into_iter().map(strip).collect()
    });
    let window = fleet_window(&utilization_only.collect::<Vec<_>>());
    let policies = recommenders();
    for one in recommendations(&policies, &window) {
        let memory_levers = [
            "smaller_gpu",
            "mig",
            "mps",
            "time_slicing",
            "bin_pack",
            "dali",
            "checkpointing",
            "quantization",
        ];
        assert!(!memory_levers.contains(&one.lever.name()), "{one:?}");
        let names = one.evidence.keys();
        let forbidden: Vec<_> =
            names.filter(|name| name.contains("memory") || name.contains("power")).collect();
        assert!(forbidden.is_empty(), "{}: {forbidden:?}", one.code);
    }
    let missing = missing(&policies, &window);
    let gpus = |name: &str| &missing.iter().find(|(missing, _)| missing == name).unwrap().1;
    assert_eq!(gpus("memory.used").len(), 8);
    assert_eq!(gpus("power.draw"), &["GPU-4", "GPU-5"]);
}

/// Scenario: the same fleet by index only, without models, with tensor activity.
/// Guarantee: each note about one GPU contains `GPU` and its index.
#[test]
fn notes_name_a_gpu_by_the_word_and_its_index() {
    let mut window = fleet_window(&fleet());
    for (index, gpu) in window.gpus.iter_mut().enumerate() {
        gpu.id = index.to_string();
        gpu.model = String::new();
        gpu.sensors.tensor_activity = Some(0.02);
    }
    let mut logged = Vec::new();
    for policy in &recommenders() {
        logged.extend(policy.recommend(&window).unwrap().log.lines.into_iter().map(|it| it.1));
    }
    let expected = "GPU 4 is compute-bound, but its model is unknown: no precision recommended";
    assert!(logged.iter().any(|line| line == expected), "{expected}: {logged:#?}");
}

/// Scenario: windows of eight and of a hundred GPUs with full columns.
/// Guarantee: no policy grows its memory for eight, which would cost system calls, and all can.
#[test]
fn window_of_eight_gpus_fits_into_initial_memory() {
    for policy in recommenders() {
        let memory = |gpus| {
            let mut window = support::window(gpus, 600);
            window.gpus.iter_mut().for_each(|gpu| gpu.memory.clone_from(&gpu.power));
            let evaluation = policy.recommend(&window).unwrap();
            evaluation.result.unwrap_or_else(|error| panic!("{policy:?}: {error}"));
            evaluation.usage.memory
        };
        let initial = memory(0);
        assert_eq!(memory(8), initial, "{policy:?}");
        assert!(memory(100) > initial, "{policy:?}");
    }
}

/// Scenario: a GPU observed for less than a minute, and one unobserved for an hour.
/// Guarantee: no recommendations, and the need states the reason.
#[test]
fn too_little_data_yields_needs_only() {
    let policies = recommenders();
    let recorded = Recorded::All { memory_mib: 40_000, watts: 400 };
    let short = window(&[seconds(45, recorded, |_| Some(50))]);
    let unobserved = window(&[seconds(3_600, recorded, |second| {
        (!(60..3_540).contains(&second)).then_some(50)
    })]);
    for (window, expected) in [(short, "duration"), (unobserved, "utilization.gpu")] {
        assert!(recommendations(&policies, &window).is_empty());
        let missing = missing(&policies, &window);
        assert!(missing.iter().any(|(name, _)| name == expected), "{expected}: {missing:?}");
    }
}

/// Scenario: each recommender evaluates the same windows three times.
/// Guarantee: the same result, fuel and memory each time.
#[test]
fn evaluation_is_deterministic() {
    let large = fleet_window(&fleet());
    let small = window(&[seconds(3_600, Recorded::Nothing, bouncing)]);
    for policy in &recommenders() {
        for window in [&large, &small] {
            let outcome = || {
                let evaluation = policy.recommend(window).unwrap();
                let usage = evaluation.usage;
                (evaluation.result.unwrap(), usage.fuel, usage.memory)
            };
            let first = outcome();
            assert_eq!(outcome(), first);
            assert_eq!(outcome(), first);
            println!(
                "{:10} {} GPUs: {:>9} fuel, {:>4} KiB of memory, {} recommendations",
                policy.manifest().name,
                window.gpus.len(),
                first.1,
                first.2 >> 10,
                first.0.recommendations.len(),
            );
        }
    }
}

/// Scenario: the same fleet without prices.
/// Guarantee: the same levers on waste, and no recommendations on rates.
#[test]
fn unpriced_gpus_get_same_levers_without_rates() {
    let policies = recommenders();
    let priced = fleet_window(&fleet());
    let remove_price = |gpu: &Gpu| {
        let mut gpu = Gpu { price: None, waste: WasteByCategory::default(), ..gpu.clone() };
        let accounts = &mut gpu.accounts;
        for account in [
            &mut accounts.idle_held,
            &mut accounts.idle_free,
            &mut accounts.idle_unknown,
            &mut accounts.underutilized,
            &mut accounts.productive,
            &mut accounts.compute_bound,
            &mut accounts.unobserved,
        ] {
            (account.cost, account.utilized_cost) = (NanoUsd(0), NanoUsd(0));
        }
        gpu
    };
    let unpriced =
        Window { gpus: priced.gpus.iter().map(remove_price).collect(), ..priced.clone() };
    let all = recommendations(&policies, &unpriced);
    // Waste is divided among categories in dollars only: of an unpriced GPU that bounces, all of it counts as
    // starvation. So savings differ slightly, and those of two GPUs may change places.
    let savings = |all: &[Recommendation]| {
        let on_waste = all.iter().filter(|one| matches!(one.target, Target::Waste(_)));
        let saving = |one: &Recommendation| (one.code.clone(), one.saving.expected.as_f64());
        let mut savings: Vec<_> = on_waste.map(saving).collect();
        savings.sort_by(|a, b| a.0.cmp(&b.0));
        savings
    };
    let (unpriced, priced) = (savings(&all), savings(&recommendations(&policies, &priced)));
    assert_eq!(unpriced.len(), priced.len());
    for ((code, found), (other, expected)) in unpriced.iter().zip(&priced) {
        assert!(
            code == other && (found - expected).abs() < 0.02,
            "{code} {found} {other} {expected}"
        );
    }
    assert!(all.iter().all(|one| one.target != Target::Rate));
}

thread_local! {
    static RECOMMENDERS: Vec<Policy> = recommenders();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every response is valid, and no saving exceeds the waste that it reduces.
    #[test]
    fn saving_never_exceeds_waste(fleet in any_fleet()) {
        let window = window(&fleet);
        for one in RECOMMENDERS.with(|all| recommendations(all, &window)) {
            let gpus = || window.gpus.iter().filter(|gpu| one.gpus.contains(&gpu.id));
            let sum = |amount: &dyn Fn(&Gpu) -> NanoUsd| gpus().map(|gpu| amount(gpu).0).sum::<i128>() as f64;
            let Target::Waste(category) = one.target else { continue };
            let waste = sum(&|gpu| gpu.waste[category]);
            let bill = sum(&|gpu| {
                let Accounts { idle_held, idle_free, idle_unknown, .. } = gpu.accounts;
                let Accounts { underutilized, productive, compute_bound, unobserved, .. } = gpu.accounts;
                let idle = idle_held.cost + idle_free.cost + idle_unknown.cost;
                idle + underutilized.cost + productive.cost + compute_bound.cost + unobserved.cost
            });
            // The host rounds a saving to the nearest billionth of the bill.
            let maximum = waste + bill / 1e9;
            prop_assert!(one.saving.high.as_f64() * bill <= maximum, "{one:?} {waste} of {bill}");
        }
    }
}

/// Scenario: negotiated discounts without a date.
/// Guarantee: the pricer is rejected, and the error names the missing setting.
#[test]
fn negotiated_rejects_undated_discounts() {
    let mut policies = support::default_policies().into_iter();
    let (name, module) = policies.find(|(name, _)| name == "negotiated").unwrap();
    let settings = serde_json::from_str(r#"{"discounts": {"aws": 0.12}}"#).unwrap();
    let candidate = Candidate { settings, ..Candidate::new(name, module) };
    let error = host().load(candidate).unwrap_err();
    assert!(error.to_string().contains("as_of: required"), "{error}");
}
