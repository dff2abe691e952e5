//! The policies that ship, as they ship: each module of `wasm-rules/dist` in the real host, on
//! windows that the real meter made.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a test that cannot go on stops, and knows its numbers"
)]

mod fleet;
#[path = "../support/mod.rs"]
mod support;

use std::cmp::Reverse;

use fleet::{Does, Recorded, any_fleet, bouncing, fleet, metered, window};
use phasemeter_meter::money::NanoUsd;
use phasemeter_meter::savings::fraction::Fraction;
use phasemeter_meter::waste::WasteByCategory;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::Policy;
use phasemeter_rules::recommendation::{Recommendation, Target};
use phasemeter_rules::window::{Accounts, Gpu, Window};
use proptest::prelude::*;

/// The policies that ship.
const SHIPPED: [&str; 7] =
    ["input", "memory", "negotiated", "precision", "rate", "sharing", "sizing"];

/// All that ship, with their defaults.
fn policies() -> Vec<Policy> {
    let host = Host::new(Options::default()).unwrap();
    let load = |(name, module)| host.load(Candidate::new(name, module)).unwrap();
    support::shipped().into_iter().map(load).collect()
}

/// Those that advise.
fn recommenders() -> Vec<Policy> {
    policies().into_iter().filter(|policy| policy.kind() == Kind::Recommender).collect()
}

/// All advice on a window, that which saves most first.
fn advice(policies: &[Policy], window: &Window) -> Vec<Recommendation> {
    let mut all: Vec<_> = policies
        .iter()
        .flat_map(|policy| {
            let run = policy.recommend(window).unwrap();
            run.answer.unwrap_or_else(|fault| panic!("{policy:?}: {fault}"))
        })
        .collect();
    all.sort_by_key(|one| Reverse(one.saving.expected));
    all
}

/// The means that act on waste, that which saves most first.
fn levers(all: &[Recommendation]) -> Vec<&'static str> {
    let on_waste = all.iter().filter(|one| matches!(one.target, Target::Waste(_)));
    on_waste.map(|one| one.lever.name()).collect()
}

/// Scenario: eight GPUs, each with the trouble that the demonstration gives it.
/// Guarantee: each trouble is advised on by the means for it, and nothing else about its waste.
#[test]
fn each_trouble_of_the_fleet_finds_its_means() {
    let policies = recommenders();
    let window = window(&fleet());
    let all = advice(&policies, &window);
    for one in &all {
        let saving = one.saving.map(Fraction::as_f64);
        println!(
            "{:<24} {:<18} {:.2} {:.2} {:.2}  sure {:.2}  {}\n    {}\n    {}",
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
        let named = all.iter().filter(|one| one.gpus.contains(&id));
        levers(&named.cloned().collect::<Vec<_>>())
    };
    assert_eq!(found(0), ["num_workers", "dali"]);
    assert_eq!(found(1), found(0));
    assert_eq!(found(2), ["batch"]);
    assert_eq!(found(3), ["dynamic_batching"]);
    assert_eq!(found(6), ["bin_pack", "mig"]);
    assert_eq!(found(7), ["overlap"]);
    let full: Vec<_> = all.iter().filter(|one| one.target == Target::Throughput).collect();
    assert!(!full.is_empty() && full.iter().all(|one| one.gpus == ["GPU-4", "GPU-5"]));
    assert!(found(4).is_empty(), "it is busy throughout");
}

/// Scenario: two GPUs with a mean of 50 %: one bounces, one holds it.
/// Guarantee: what is advised first on the one is not what is advised first on the other.
#[test]
fn the_same_mean_is_advised_on_by_its_pattern() {
    let policies = recommenders();
    let recorded = Recorded::All { memory_mib: 40_000, watts: 400 };
    let first = |percent: fn(u64) -> Option<u32>| {
        let window = window(&[metered(3_600, recorded, percent)]);
        levers(&advice(&policies, &window))[0]
    };
    assert_eq!(first(|second| Some(if second % 40 < 20 { 100 } else { 0 })), "num_workers");
    assert_eq!(first(|_| Some(50)), "batch");
}

/// Scenario: a GPU holds 80 %.
/// Guarantee: it is told of headroom at most, and promised no more than a tenth.
#[test]
fn a_steady_eighty_is_promised_a_tenth_at_most() {
    let recorded = Recorded::All { memory_mib: 60_000, watts: 500 };
    let all = advice(&recommenders(), &window(&[metered(3_600, recorded, |_| Some(80))]));
    let own: Vec<_> = all.iter().filter(|one| one.target != Target::Rate).collect();
    assert_eq!(levers(&all), ["overlap"]);
    assert!(own.iter().all(|one| one.saving.high.as_f64() <= 0.1), "{own:?}");
}

/// Scenario: the fleet again, of which neither memory nor power was recorded.
/// Guarantee: nothing rests on them: no means that need memory, no number of either in the
/// evidence; and what could not be told is logged.
#[test]
fn nothing_is_advised_from_a_column_that_was_not_there() {
    let bare = fleet().into_iter().map(|does| {
        let blind = |now: Does| Does { memory_mib: None, watts: None, ..now };
        does.into_iter().map(blind).collect()
    });
    let window = window(&bare.collect::<Vec<_>>());
    let mut logged = String::new();
    for policy in &recommenders() {
        let run = policy.recommend(&window).unwrap();
        logged.extend(run.log.lines.iter().map(|(_, line)| format!("{line}\n")));
        for one in run.answer.unwrap() {
            let needs =
                ["smaller_gpu", "mig", "mps", "bin_pack", "dali", "checkpointing", "quantization"];
            assert!(!needs.contains(&one.lever.name()), "{one:?}");
            let names = one.evidence.keys();
            let seen: Vec<_> =
                names.filter(|name| name.contains("memory") || name.contains("power")).collect();
            assert!(seen.is_empty(), "{}: {seen:?}", one.code);
        }
    }
    println!("{logged}");
    assert!(logged.contains("memory was not recorded"), "{logged}");
}

/// Scenario: less than a minute of a GPU; and an hour of one that nobody looked at.
/// Guarantee: no advice, and a line in the log that says why.
#[test]
fn too_little_is_no_reason_to_advise() {
    let policies = recommenders();
    let recorded = Recorded::All { memory_mib: 40_000, watts: 400 };
    let short = window(&[metered(45, recorded, |_| Some(50))]);
    let dark = window(&[metered(3_600, recorded, |_| None)]);
    for window in [short, dark] {
        assert!(advice(&policies, &window).is_empty());
        for policy in &policies {
            let log = policy.recommend(&window).unwrap().log;
            assert!(log.lines.iter().any(|(_, line)| line.starts_with("1 GPU not judged")));
        }
    }
}

/// Scenario: each policy judges the same windows three times.
/// Guarantee: the same verdict and the same fuel; of the largest window a small part of its limits.
#[test]
fn the_same_window_gives_the_same_verdict_and_takes_the_same_fuel() {
    let large = window(&fleet());
    let small = window(&[metered(3_600, Recorded::Nothing, bouncing)]);
    for policy in &recommenders() {
        for window in [&large, &small] {
            let judge = || {
                let run = policy.recommend(window).unwrap();
                (run.answer.unwrap(), run.usage.fuel, run.usage.memory)
            };
            let first = judge();
            assert_eq!(judge(), first);
            assert_eq!(judge(), first);
            println!(
                "{:10} {} GPUs: {:>9} fuel, {:>4} KiB of memory, {} pieces of advice",
                policy.manifest().name,
                window.gpus.len(),
                first.1,
                first.2 >> 10,
                first.0.len(),
            );
        }
    }
}

/// Scenario: the fleet again, of which nobody knows the price.
/// Guarantee: the same means; only on rates there is nothing to say.
#[test]
fn without_a_price_the_means_are_the_same() {
    let policies = recommenders();
    let priced = window(&fleet());
    let free = |gpu: &Gpu| {
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
            (account.cost, account.effective_cost) = (NanoUsd(0), NanoUsd(0));
        }
        gpu
    };
    let unpriced = Window { gpus: priced.gpus.iter().map(free).collect(), ..priced.clone() };
    let without = advice(&policies, &unpriced);
    assert_eq!(levers(&without), levers(&advice(&policies, &priced)));
    assert!(without.iter().all(|one| one.target != Target::Rate));
}

thread_local! {
    static ALL: Vec<Policy> = recommenders();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every answer passes the host, and no saving is above the waste that it is a part of.
    #[test]
    fn no_saving_is_above_the_waste(fleet in any_fleet()) {
        let window = window(&fleet);
        for one in ALL.with(|all| advice(all, &window)) {
            let named = || window.gpus.iter().filter(|gpu| one.gpus.contains(&gpu.id));
            let sum = |of: &dyn Fn(&Gpu) -> NanoUsd| named().map(|gpu| of(gpu).0).sum::<i128>() as f64;
            let Target::Waste(category) = one.target else { continue };
            let waste = sum(&|gpu| gpu.waste[category]);
            let bill = sum(&|gpu| {
                let Accounts { idle_held, idle_free, idle_unknown, .. } = gpu.accounts;
                let Accounts { underutilized, productive, compute_bound, unobserved, .. } = gpu.accounts;
                let idle = idle_held.cost + idle_free.cost + idle_unknown.cost;
                idle + underutilized.cost + productive.cost + compute_bound.cost + unobserved.cost
            });
            // The host keeps a saving to the nearest billionth of the bill.
            let most = waste + bill / 1e9;
            prop_assert!(one.saving.high.as_f64() * bill <= most, "{one:?} {waste} of {bill}");
        }
    }
}

/// Scenario: terms of a contract that does not say from when on they hold.
/// Guarantee: the policy that prices is not taken into use, and names what is missing.
#[test]
fn undated_terms_are_refused() {
    let mut shipped = support::shipped().into_iter();
    let (name, module) = shipped.find(|(name, _)| name == "negotiated").unwrap();
    let settings = serde_json::from_str(r#"{"discounts": {"aws": 0.12}}"#).unwrap();
    let host = Host::new(Options::default()).unwrap();
    let undated = host.load(Candidate { settings, ..Candidate::new(name, module) }).unwrap_err();
    assert!(undated.to_string().contains("day: is needed"), "{undated}");
}

/// Scenario: the folder of modules that ship.
/// Guarantee: what is in it is what is tested here, each under its own name.
#[test]
fn what_ships_is_known() {
    let policies = policies();
    let names: Vec<_> = policies.iter().map(|policy| policy.manifest().name.as_str()).collect();
    assert_eq!(names, SHIPPED);
    let files: Vec<_> = policies.iter().map(Policy::file).collect();
    assert_eq!(files, SHIPPED);
}
