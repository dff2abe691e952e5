//! Overhead of the policy host: evaluation, load, deadline and reload, each beside its budget.
//!
//! Times are the median and 99th percentile of many repetitions. `make bench` runs it; with the
//! argument `ratio`, it compares only the default policies with empty ones. It fails if one is over its
//! budget, or if the stop of an endless loop is. Loads are only printed: the largest policy needs nearly
//! all of its budget, so that a busy machine exceeds it.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "tests panic on failure and use small numbers"
)]

mod json;
mod ratio;
#[path = "../../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_rules::generation::Generations;
use phasemeter_rules::host::{Candidate, CandidateSource, Host, Options};
use phasemeter_rules::limits::Limits;
use phasemeter_rules::manifest::Kind;
use phasemeter_rules::policy::Policy;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store};
use wit_component::ComponentEncoder;

/// The median delay of a stop, at most.
const MAX_DELAY: Duration = Duration::from_millis(5);

fn main() -> ExitCode {
    let cache = tempfile::tempdir().unwrap();
    let options = Options { cache: Some(cache.path().to_owned()), ..Options::default() };
    let host = Host::new(options.clone()).unwrap();
    let default_policies = support::default_policies();
    let mut over_budget = ratio::compare(&host, &default_policies);
    if std::env::args().any(|argument| argument == "ratio") {
        return end(&over_budget);
    }

    let mirror = support::mirror();
    let candidate = |name: &str, bytes: &[u8]| Candidate::new(name, bytes.to_vec());

    println!("\nOverhead of the policy host: median and 99th percentile\n");
    println!("{:44} {:>10} {:>10}   budget or reference", "", "p50", "p99");
    let small = support::hostile("honest");
    let tiny = host.load(candidate("tiny", &small)).unwrap();
    let rust = host.load(candidate("mirror", &mirror)).unwrap();
    let pricer = host.load(candidate("pricer", &support::hostile("honest-pricer"))).unwrap();
    bench_warm_call();
    bench_evaluation("tiny", &pricer);
    bench_evaluation("tiny", &tiny);
    bench_evaluation("Rust", &rust);
    for (name, bytes) in &default_policies {
        bench_evaluation(name, &host.load(candidate(name, bytes)).unwrap());
    }

    bench(&format!("compile, Rust, {} KB", mirror.len() / 1_000), "14–240 ms", 10, || {
        Host::new(Options::default()).unwrap().load(candidate("mirror", &mirror)).unwrap()
    });
    let built = [("tiny".to_owned(), small), ("Rust".to_owned(), mirror)];
    for (name, bytes) in built.iter().chain(&default_policies) {
        bench(&format!("load from AOT with trial, {name}"), "1 ms", 500, || {
            host.load(candidate(name, bytes)).unwrap()
        });
    }

    let deadline = Duration::from_millis(20);
    let limits = Limits { fuel: u64::MAX / 2, deadline, ..Limits::default() };
    let killing = Host::new(Options { limits, ..Options::default() }).unwrap();
    let spin = killing.load(candidate("spin", &support::hostile("loop-deadline"))).unwrap();
    let window = support::window(1, 0);
    let mut delays: Vec<_> = (0..100)
        .map(|_| spin.recommend(&window).unwrap().usage.time.saturating_sub(deadline))
        .collect();
    let stop = "delay of a stop after its deadline of 20 ms";
    let median = print_line(stop, "5 ms", &mut delays);
    if median > MAX_DELAY {
        over_budget.push(format!("{stop}: {median:.1?}, over {MAX_DELAY:?}"));
    }

    let generations = Generations::new(Arc::new(Host::new(options).unwrap()));
    let versions = ['1', '2'].map(|version| {
        ["alfa", "bravo"].map(|name| candidate(name, &support::recommender(name, version)))
    });
    let mut turn = 0;
    bench("reload of two policies from AOT", "–", 500, || {
        turn += 1;
        generations.reload(versions[turn % 2].iter().cloned().map(CandidateSource::from))
    });
    bench("reload that changes nothing", "–", 500, || {
        generations.reload(versions[turn % 2].iter().cloned().map(CandidateSource::from))
    });
    json::compare(&host);
    end(&over_budget)
}

/// Fails if something costs more than its budget.
fn end(over_budget: &[String]) -> ExitCode {
    if over_budget.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("over budget:\n  {}", over_budget.join("\n  "));
    ExitCode::FAILURE
}

/// Evaluations of a policy, each with a fresh store and `configure`.
fn bench_evaluation(name: &str, policy: &Policy) {
    let request = support::request();
    match policy.kind() {
        Kind::Pricer => bench(&format!("evaluation, quote, {name}"), "40 µs", 5_000, || {
            policy.quote(&request).unwrap().result.unwrap()
        }),
        Kind::Recommender => {
            for (gpus, points) in [(1, 0), (1, 600), (8, 600)] {
                let window = support::window(gpus, points);
                let name = format!("evaluation, {gpus} GPU × {points} points, {name}");
                bench(&name, "40 µs", 5_000, || {
                    policy.recommend(&window).unwrap().result.unwrap()
                });
            }
        }
    }
}

/// A call to an instance that is reused. The host never does that; the difference is the cost of a
/// fresh store per evaluation.
fn bench_warm_call() {
    let mut encoder = ComponentEncoder::default();
    encoder = encoder.module(&support::hostile("honest-self-test")).unwrap();
    let mut config = Config::new();
    config.consume_fuel(true).epoch_interruption(true).concurrency_support(false);
    let engine = Engine::new(&config).unwrap();
    let component = Component::from_binary(&engine, &encoder.encode().unwrap()).unwrap();
    let mut store = Store::new(&engine, ());
    store.set_fuel(u64::MAX / 2).unwrap();
    store.set_epoch_deadline(1);
    let instance = Linker::new(&engine).instantiate(&mut store, &component).unwrap();
    let interface = "phasemeter:policy/self-test@0.1.0";
    let (_, interface) = instance.get_export(&mut store, None, interface).unwrap();
    let (_, run) = instance.get_export(&mut store, Some(&interface), "run").unwrap();
    let run = instance.get_typed_func::<(), (Result<(), String>,)>(&mut store, run).unwrap();
    bench("warm call, no arguments, ×1,000", "130 µs", 1_000, || {
        (0..1_000).for_each(|_| run.call(&mut store, ()).unwrap().0.unwrap());
    });
}

/// Prints the time of an operation, repeated `times` times.
fn bench<T>(name: &str, budget: &str, times: usize, operation: impl FnMut() -> T) {
    print_line(name, budget, &mut time_each(times, operation));
}

/// Times each of `times` repetitions, after a warm-up of a tenth of them.
fn time_each<T>(times: usize, mut operation: impl FnMut() -> T) -> Vec<Duration> {
    for _ in 0..times / 10 {
        black_box(operation());
    }
    (0..times)
        .map(|_| {
            let started = Instant::now();
            black_box(operation());
            started.elapsed()
        })
        .collect()
}

/// Returns the median.
fn print_line(name: &str, budget: &str, took: &mut [Duration]) -> Duration {
    let times = percentiles(took);
    let [p50, p99] = times.map(|time| format!("{time:.1?}"));
    println!("{name:44} {p50:>10} {p99:>10}   {budget}");
    times[0]
}

/// The median and the 99th percentile.
fn percentiles(took: &mut [Duration]) -> [Duration; 2] {
    took.sort();
    [50, 99].map(|percent| took[(took.len() - 1) * percent / 100])
}
