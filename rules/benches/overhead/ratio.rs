//! Fresh evaluations of the default policies relative to those of an empty policy.
//!
//! All policies are evaluated in turn, so that a busy machine slows them alike.

use std::hint::black_box;
use std::time::{Duration, Instant};

use phasemeter_rules::host::{Candidate, Host};
use phasemeter_rules::manifest::Kind;

use crate::{percentiles, support};

/// The most that an evaluation of a default policy may cost, relative to an empty one.
const BUDGET: f64 = 1.6;

/// Evaluations of each policy.
const ROUNDS: usize = 5_000;

/// Prints the table, and returns whether all policies are within the budget.
pub(crate) fn compare(host: &Host, default_policies: &[(String, Vec<u8>)]) -> bool {
    let empty = ("empty".to_owned(), support::empty_recommender());
    let load = |(name, bytes): &(String, Vec<u8>)| {
        (name.clone(), host.load(Candidate::new(name, bytes.clone())).unwrap())
    };
    let mut policies: Vec<_> = [&empty].into_iter().chain(default_policies).map(load).collect();
    policies.retain(|(_, policy)| policy.kind() == Kind::Recommender);
    let window = support::window(8, 600);
    let mut times = vec![Vec::with_capacity(ROUNDS); policies.len()];
    for round in 0..ROUNDS + ROUNDS / 10 {
        for ((_, policy), times) in policies.iter().zip(&mut times) {
            let started = Instant::now();
            black_box(policy.recommend(&window).unwrap().result.unwrap());
            if round >= ROUNDS / 10 {
                times.push(started.elapsed());
            }
        }
    }
    let loads = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = loads.split(' ').next().unwrap_or_default();
    println!("Evaluations on 8 GPUs × 600 points, in turn; load average {load}\n");
    println!("{:20} {:>10} {:>10} {:>10} {:>10}   budget", "", "fuel", "p50", "p99", "÷ empty");
    let mut reference: Option<Duration> = None;
    let mut is_within = true;
    for ((name, policy), times) in policies.iter().zip(&mut times) {
        let [p50, p99] = percentiles(times);
        let ratio = p50.as_secs_f64() / reference.get_or_insert(p50).as_secs_f64();
        let fuel = policy.recommend(&window).unwrap().usage.fuel;
        let [p50, p99] = [p50, p99].map(|time| format!("{time:.1?}"));
        let over = if ratio > BUDGET { ", over it" } else { "" };
        is_within &= over.is_empty();
        println!("{name:20} {fuel:>10} {p50:>10} {p99:>10} {ratio:>10.2}   {BUDGET}{over}");
    }
    is_within
}
