//! What a policy costs: a run, a load, a kill, a reload, each beside its floor or budget.
//!
//! Times are the median and the 99th percentile of many; run it with `cargo bench`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "a test that cannot go on stops, and knows its numbers"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use phasemeter_rules::generation::Generations;
use phasemeter_rules::host::{Candidate, Host, Options};
use phasemeter_rules::limits::Limits;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine, Store};
use wit_component::ComponentEncoder;

fn main() {
    let mirror = support::mirror();
    let cache = tempfile::tempdir().unwrap();
    let options = Options { cache: Some(cache.path().to_owned()), ..Options::default() };
    let host = Host::new(options.clone()).unwrap();
    let candidate = |name: &str, bytes: &[u8]| Candidate::new(name, bytes.to_vec());

    println!("{:44} {:>10} {:>10}   budget, or floor", "", "p50", "p99");
    let small = support::evil("honest");
    let tiny = host.load(candidate("tiny", &small)).unwrap();
    let rust = host.load(candidate("mirror", &mirror)).unwrap();
    let pricer = host.load(candidate("pricer", &support::evil("honest-pricer"))).unwrap();
    warm();
    let request = support::request();
    show("fresh run, quote", "26 µs", 5_000, || pricer.quote(&request).unwrap().answer.unwrap());
    for (gpus, points) in [(1, 0), (1, 600), (8, 600)] {
        let window = support::window(gpus, points);
        show(&format!("fresh run, {gpus} GPU × {points} points, tiny"), "40 µs", 5_000, || {
            tiny.recommend(&window).unwrap().answer.unwrap()
        });
        show(&format!("fresh run, {gpus} GPU × {points} points, Rust"), "40 µs", 5_000, || {
            rust.recommend(&window).unwrap().answer.unwrap()
        });
    }

    let window = support::window(8, 600);
    for (name, module) in support::shipped() {
        let policy = host.load(candidate(&name, &module)).unwrap();
        let what = format!("fresh run, {name}, {} KB", module.len() / 1_000);
        show(&what, "40 µs", 2_000, || match policy.recommend(&window) {
            Some(run) => run.answer.map(drop),
            None => policy.quote(&request).unwrap().answer.map(drop),
        });
        show(&format!("load from AOT with trial, {name}"), "1 ms", 200, || {
            host.load(candidate(&name, &module)).unwrap()
        });
    }

    show(&format!("compile, Rust, {} KB", mirror.len() / 1_000), "14–240 ms", 10, || {
        Host::new(Options::default()).unwrap().load(candidate("mirror", &mirror)).unwrap()
    });
    show("load from AOT with trial, tiny", "1 ms", 500, || {
        host.load(candidate("tiny", &small)).unwrap()
    });
    show("load from AOT with trial, Rust", "1 ms", 500, || {
        host.load(candidate("mirror", &mirror)).unwrap()
    });

    let deadline = Duration::from_millis(20);
    let endless = Limits { fuel: u64::MAX / 2, deadline, ..Limits::default() };
    let killing = Host::new(Options { limits: endless, ..Options::default() }).unwrap();
    let spin = killing.load(candidate("spin", &support::evil("loop-deadline"))).unwrap();
    let window = support::window(1, 0);
    let mut late: Vec<_> = (0..100)
        .map(|_| spin.recommend(&window).unwrap().usage.time.saturating_sub(deadline))
        .collect();
    line("killed after its deadline of 20 ms, late by", "5 ms", &mut late);

    let generations = Generations::new(Arc::new(Host::new(options).unwrap()));
    let versions = ['1', '2'].map(|version| {
        ["alfa", "bravo"].map(|name| candidate(name, &support::named(name, version)))
    });
    let mut turn = 0;
    show("reload of two policies from AOT", "–", 500, || {
        turn += 1;
        generations.reload(versions[turn % 2].iter().cloned().map(Ok).collect())
    });
    show("reload that changes nothing", "–", 500, || {
        generations.reload(versions[turn % 2].iter().cloned().map(Ok).collect())
    });
}

/// A call of an instance that stays, as no run here does: what a fresh store a run costs is the
/// difference.
fn warm() {
    let mut encoder = ComponentEncoder::default();
    encoder = encoder.module(&support::evil("honest-self-test")).unwrap();
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
    show("warm call, no arguments, ×1,000", "130 µs", 1_000, || {
        (0..1_000).for_each(|_| run.call(&mut store, ()).unwrap().0.unwrap());
    });
}

/// Times what is done `times` times.
fn show<T>(name: &str, budget: &str, times: usize, mut what: impl FnMut() -> T) {
    for _ in 0..times / 10 {
        black_box(what());
    }
    let mut took: Vec<_> = (0..times)
        .map(|_| {
            let started = Instant::now();
            black_box(what());
            started.elapsed()
        })
        .collect();
    line(name, budget, &mut took);
}

fn line(name: &str, budget: &str, took: &mut [Duration]) {
    took.sort();
    let at = |percent: usize| format!("{:.1?}", took[(took.len() - 1) * percent / 100]);
    println!("{name:44} {:>10} {:>10}   {budget}", at(50), at(99));
}
